"""FlowSchemas and PriorityLevelConfigurations."""

from typing import Any

import pytest

from tests.apiserver.cluster import Cluster, run_in_cluster
from tests.apiserver.validation_errors import errors_of_change, errors_of_new, named_object

FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
SCHEMAS, LEVELS = f"{FLOW}/flowschemas", f"{FLOW}/prioritylevelconfigurations"
LEVEL = {"priorityLevelConfiguration": {"name": "low"}}
EVERYTHING = {"verbs": ["*"], "nonResourceURLs": ["*"]}


def rules(**parts: Any) -> dict[str, Any]:
    subjects = [{"kind": "User", "user": {"name": "u"}}]
    return named_object(spec={**LEVEL, "rules": [{"subjects": subjects, **parts}]})


def limited_level(**parts: Any) -> dict[str, Any]:
    return named_object(spec={"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}, **parts}})


def queues(**numbers: int) -> dict[str, Any]:
    return limited_level(limitResponse={"type": "Queue", "queuing": numbers})


AT, QUEUING = "spec.rules[0]", "spec.limited.limitResponse.queuing"


@pytest.mark.parametrize(
    ("path", "value", "faults"),
    [
        (
            SCHEMAS,
            named_object(spec={"matchingPrecedence": 1, "distinguisherMethod": {"type": "Odd"}}),
            [
                "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have "
                "matchingPrecedence 1",
                'spec.distinguisherMethod.type: Unsupported value: {"Type":"Odd"}: supported values: "ByNamespace", '
                '"ByUser"',
                "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
            ],
        ),
        (
            SCHEMAS,
            rules(),
            [f"{AT}: Required value: at least one of resourceRules and nonResourceRules has to be non-empty"],
        ),
        (
            SCHEMAS,
            rules(
                resourceRules=[
                    {"verbs": ["*", "get"], "apiGroups": ["*", "a"], "resources": ["*", "b"], "namespaces": ["*", "c"]}
                ]
            ),
            [
                f'{AT}.resourceRules[0].{field}: Invalid value: ["*","{other}"]: if \'*\' is present, must not specify '
                f"other {word}"
                for field, other, word in (
                    ("verbs", "get", "verbs"),
                    ("apiGroups", "a", "api groups"),
                    ("resources", "b", "resources"),
                    ("namespaces", "c", "namespaces"),
                )
            ],
        ),
        (
            SCHEMAS,
            rules(nonResourceRules=[{"verbs": ["get"], "nonResourceURLs": ["", "/", "/a b", "/a//b", "/*/b", "/a/*"]}]),
            [
                f'{AT}.nonResourceRules[0].nonResourceURLs[{index}]: Invalid value: "{path}": {text}'
                for index, path, text in (
                    (0, "", "must not be empty"),
                    (2, "/a b", "must not contain white-space"),
                    (3, "/a//b", "must not contain double slash"),
                    (4, "/*/b", "wildcard can only do suffix matching"),
                )
            ],
        ),
        (
            LEVELS,
            named_object(spec={"type": "Exempt", "limited": {}}),
            [
                "spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'",
                "spec.limited: Forbidden",
                "spec.limited.limitResponse.type: Required value",
            ],
        ),
        (
            LEVELS,
            limited_level(nominalConcurrencyShares=-1, lendablePercent=101, borrowingLimitPercent=-1),
            [
                "spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
                "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
                "spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer",
            ],
        ),
        (
            LEVELS,
            queues(queues=-1, handSize=-1, queueLengthLimit=-1),
            [
                f"{QUEUING}.{field}: Invalid value: -1: must be positive"
                for field in ("queueLengthLimit", "queues", "handSize")
            ],
        ),
        (
            LEVELS,
            queues(queues=2, handSize=3),
            [f"{QUEUING}.handSize: Invalid value: 3: should not be greater than queues (2)"],
        ),
        (LEVELS, queues(queues=1), [f"{QUEUING}.handSize: Invalid value: 8: should not be greater than queues (1)"]),
    ],
)
def test_errors_of_new_objects(path: str, value: dict[str, Any], faults: list[str]) -> None:
    assert errors_of_new(path, value) == faults


def test_defaults() -> None:
    async def work(cluster: Cluster) -> None:
        schema = await cluster.make(SCHEMAS, rules(nonResourceRules=[EVERYTHING]))
        assert schema["spec"]["matchingPrecedence"] == 1000
        level = await cluster.make(LEVELS, queues())
        assert level["spec"]["limited"] == {
            "lendablePercent": 0,
            "limitResponse": {"queuing": {"handSize": 8, "queueLengthLimit": 50, "queues": 64}, "type": "Queue"},
            "nominalConcurrencyShares": 30,
        }

    run_in_cluster(work)


def test_spec_of_catch_all_schema_is_fixed_but_exempt_level_can_be_changed() -> None:
    value = {"metadata": {"name": "catch-all"}, "spec": {**LEVEL, "matchingPrecedence": 10000}}
    assert errors_of_new(SCHEMAS, value)[0].endswith(": spec of 'catch-all' must equal the fixed value")
    exempt = {"metadata": {"name": "exempt"}, "spec": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 5}}}
    assert errors_of_new(LEVELS, exempt) == []


def test_status_conditions_require_a_type() -> None:
    status = {"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "", "status": "True"}]}}
    value = rules(nonResourceRules=[EVERYTHING])
    assert errors_of_change(SCHEMAS, value, status, "/status") == ["status.conditions[1].type: Required value"]


def test_table_is_sorted_by_matching_precedence() -> None:
    async def work(cluster: Cluster) -> None:
        for name, precedence in (("a", 900), ("b", 800), ("c", 800)):
            await cluster.make(
                SCHEMAS, {"metadata": {"name": name}, "spec": {**LEVEL, "matchingPrecedence": precedence}}
            )
        assert [row[0] for row in await cluster.get_cells(SCHEMAS)] == ["b", "c", "a"]

    run_in_cluster(work)
