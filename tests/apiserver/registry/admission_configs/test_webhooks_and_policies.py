"""Validation and tables of webhook configurations and admission policies, beyond the golden replay."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.admissionregistration_v1 import MutatingWebhookConfiguration
from sampan.apiserver.registry.kinds.mutatingwebhookconfigurations import BEHAVIOR
from sampan.apiserver.registry.strategy import Context
from sampan.apiserver.registry.strategy_services import StrategyServices
from sampan.apiserver.request.call import UserInfo
from tests.apiserver.cluster import Cluster, run_in_cluster
from tests.apiserver.every_kind import GOOD
from tests.apiserver.validation_errors import errors_of_change, errors_of_new, messages_of, named_object

GROUP = "admissionregistration.k8s.io"
BASE = f"/apis/{GROUP}/v1"
HOOKS, POLICIES = f"{BASE}/mutatingwebhookconfigurations", f"{BASE}/mutatingadmissionpolicies"
VALIDATING, BINDINGS = f"{BASE}/validatingadmissionpolicies", f"{BASE}/validatingadmissionpolicybindings"
MUTATING_BINDINGS = f"{BASE}/mutatingadmissionpolicybindings"
HOOK = GOOD[GROUP, "MutatingWebhookConfiguration"]["webhooks"][0]
POLICY = GOOD[GROUP, "MutatingAdmissionPolicy"]["spec"]
RULE = POLICY["matchConstraints"]["resourceRules"][0]
PATCH = {"patchType": "JSONPatch", "jsonPatch": {"expression": '[JSONPatch{op: "remove", path: "/spec"}]'}}


def hook(**fields: Any) -> dict[str, Any]:
    return named_object(webhooks=[{**HOOK, **fields}])


def policy(**fields: Any) -> dict[str, Any]:
    return named_object(spec={**POLICY, **fields})


def binding(**fields: Any) -> dict[str, Any]:
    return named_object(spec={"policyName": "p", "validationActions": ["Deny"], **fields})


@pytest.mark.parametrize(
    ("path", "value", "faults"),
    [
        (
            HOOKS,
            hook(reinvocationPolicy="Odd"),
            ['webhooks[0].reinvocationPolicy: Unsupported value: "Odd": supported values: "IfNeeded", "Never"'],
        ),
        (
            HOOKS,
            hook(clientConfig={"url": "https://"}),
            [
                'webhooks[0].clientConfig.url: Invalid value: "": host must be specified; desired format: '
                "https://host[/path]"
            ],
        ),
        (
            HOOKS,
            hook(clientConfig={"service": {"name": "s", "namespace": "n", "path": "/a//b/"}}),
            ['webhooks[0].clientConfig.service.path: Invalid value: "/a//b/": segment[1] may not be empty'],
        ),
        (
            HOOKS,
            hook(admissionReviewVersions=["v1", "v1"]),
            ['webhooks[0].admissionReviewVersions[1]: Invalid value: "v1": duplicate version'],
        ),
        (
            HOOKS,
            hook(matchConditions=[{"name": f"c{index}", "expression": "true"} for index in range(65)]),
            ["webhooks[0].matchConditions: Too many: 65: must have at most 64 items"],
        ),
        (
            POLICIES,
            policy(matchConstraints={"resourceRules": [{**RULE, "operations": ["DELETE"]}]}),
            [
                'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", '
                '"CONNECT", "CREATE", "UPDATE"'
            ],
        ),
        (
            POLICIES,
            policy(mutations=[{"patchType": "ApplyConfiguration", "jsonPatch": {}}, {"patchType": "Odd"}, {}]),
            [
                "spec.mutations[0].applyConfiguration: Required value: must be specified when patchType is "
                "ApplyConfiguration",
                'spec.mutations[0].jsonPatch: Invalid value: "{jsonPatch}": must not be specified when patchType is '
                "ApplyConfiguration",
                'spec.mutations[1].patchType: Unsupported value: "Odd": supported values: "ApplyConfiguration", '
                '"JSONPatch"',
                "spec.mutations[2].patchType: Required value",
            ],
        ),
        (
            POLICIES,
            policy(mutations=[], reinvocationPolicy="", paramKind={"apiVersion": "a/b/c", "kind": "K_"}),
            [
                'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
                'spec.paramKind.kind: Invalid value: "K_": may have mixed case, but should otherwise match: a DNS-1035 '
                "label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
                "character, and "
                "end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
                "'[a-z]([-a-z0-9]*[a-z0-9])?')",
                "spec.mutations: Required value: mutations must contain at least one item",
                "spec.reinvocationPolicy: Required value",
            ],
        ),
        (
            POLICIES,
            policy(variables=[{"name": "in", "expression": " "}], mutations=[PATCH]),
            [
                'spec.variables[0].name: Invalid value: "in": must be a valid CEL identifier',
                "spec.variables[0].expression: Required value: expression is not specified",
            ],
        ),
        (
            BINDINGS,
            binding(paramRef={}, validationActions=["Deny", "Warn", "Warn", "Odd"]),
            [
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.paramRef.parameterNotFoundAction: Required value",
                'spec.validationActions[2]: Duplicate value: "Warn"',
                'spec.validationActions[3]: Unsupported value: "Odd": supported values: "Audit", "Deny", "Warn"',
                'spec.validationActions: Invalid value: ["Deny","Warn","Warn","Odd"]: must not contain both Deny and '
                "Warn (repeating the same validation failure information in the API response and headers serves no "
                "purpose)",
            ],
        ),
        (
            BINDINGS,
            binding(paramRef={"name": "n", "selector": {}, "parameterNotFoundAction": "Allow"}),
            [
                "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
            ],
        ),
        (
            MUTATING_BINDINGS,
            named_object(spec={"matchResources": {"resourceRules": [{**RULE, "resourceNames": ["a", "a"]}]}}),
            [
                "spec.policyName: Required value",
                'spec.matchResources.resourceRules[0].resourceNames[1]: Duplicate value: "a"',
            ],
        ),
    ],
)
def test_errors_of_new_objects(path: str, value: dict[str, Any], faults: list[str]) -> None:
    assert errors_of_new(path, value) == faults


def test_changed_match_conditions_are_validated_and_unchanged_invalid_ones_are_kept() -> None:
    """Match conditions that an older server accepted do not block other changes of the object."""

    def conditions(*names: str) -> dict[str, Any]:
        rows = [{"name": name, "expression": "object.old_function()"} for name in names]
        return {"webhooks": [{**HOOK, "matchConditions": rows}]}

    async def work(cluster: Cluster) -> None:
        created = await cluster.make(HOOKS, hook())
        value = {**created, **conditions("m"), "kind": "MutatingWebhookConfiguration", "apiVersion": f"{GROUP}/v1"}
        store = cluster.registry.open_store_of(GROUP, "v1", "MutatingWebhookConfiguration")
        await store.backend.put(store.key("", "a"), msgspec.json.encode(value))
        kept = await cluster.patch(f"{HOOKS}/a", {"metadata": {"labels": {"l": "m"}}})
        assert (kept.code, kept.json["metadata"]["labels"]) == (200, {"l": "m"})
        assert kept.json["webhooks"][0]["matchConditions"] == conditions("m")["webhooks"][0]["matchConditions"]
        faults = messages_of(await cluster.patch(f"{HOOKS}/a", conditions("m", "n")))
        assert [fault.partition(": ")[0] for fault in faults] == [
            "webhooks[0].matchConditions[0].expression",
            "webhooks[0].matchConditions[1].expression",
        ]

    run_in_cluster(work)


def test_expression_warnings_in_policy_status_are_validated() -> None:
    value = named_object(spec=GOOD[GROUP, "ValidatingAdmissionPolicy"]["spec"])
    status = {"status": {"typeChecking": {"expressionWarnings": [{"fieldRef": " ", "warning": ""}]}}}
    at = "status.typeChecking.expressionWarnings[0]"
    assert errors_of_change(VALIDATING, value, status, "/status") == [
        f"{at}.warning: Required value",
        f"{at}.fieldRef: Required value",
    ]


def test_table_columns() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(HOOKS, hook())
        assert (await cluster.get_cells(HOOKS))[0][:2] == ["a", 1]
        await cluster.make(
            VALIDATING,
            named_object(
                spec={
                    **GOOD[GROUP, "ValidatingAdmissionPolicy"]["spec"],
                    "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                }
            ),
        )
        assert (await cluster.get_cells(VALIDATING))[0][:3] == ["a", 1, "v1/ConfigMap"]
        action = {"parameterNotFoundAction": "Deny"}
        await cluster.make(BINDINGS, binding(paramRef={"name": "n", **action}))
        await cluster.make(
            BINDINGS,
            {**binding(paramRef={"selector": {"matchLabels": {"a": "b"}}, **action}), "metadata": {"name": "b"}},
        )
        assert [row[1:3] for row in await cluster.get_cells(BINDINGS)] == [
            ["p", "*/n"],
            [
                "p",
                "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}",
            ],
        ]

    run_in_cluster(work)


@pytest.mark.parametrize("is_excluded", [True, False])
def test_rules_for_resources_that_webhooks_never_see_get_a_warning(is_excluded: bool) -> None:
    rule = {**RULE, "apiGroups": ["authentication.k8s.io", "apps"], "resources": ["pods", "tokenreviews"]}
    configuration = msgspec.convert(hook(rules=[rule, {**rule, "apiGroups": ["*"]}]), MutatingWebhookConfiguration)
    gates = FeatureGates({"ExcludeAdmissionWebhookVirtualResources": is_excluded}, level=37)
    context = Context(
        services=cast(StrategyServices, SimpleNamespace(feature_gates=gates)), user=UserInfo(name="a"), now=""
    )
    text = "tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule will have no effect"
    warnings = list(BEHAVIOR.strategy.warnings(context, configuration, None))
    assert warnings == ([f"webhooks[0].rules[0]: {text}"] if is_excluded else [])
