"""Conformance tests of sig-api-machinery for the objects of admission policies and webhooks. The first paragraph of a
docstring is the official test name."""

import pytest

from tests.e2e.conformance.api import Api, Value
from tests.e2e.conformance.operations import check_api_operations, check_discovery, check_subresource

GROUP = "admissionregistration.k8s.io"
RULES = [
    {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["CREATE", "UPDATE"]}
]


def condition(type: str) -> Value:
    fields = {"status": "False", "reason": "e2e", "message": "Set from an e2e test"}
    return {"type": type, "lastTransitionTime": "2024-01-01T00:00:00Z", **fields}


def mine(api: Api) -> Value:
    """Return match constraints that select only the namespace of the test."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}
    return {"namespaceSelector": selector, "resourceRules": RULES}


def test_validating_admission_policy_api(api: Api) -> None:
    """[sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin] should support ValidatingAdmissionPolicy
    API operations [Conformance]"""
    rule = {"expression": "object.spec.replicas <= 100", "messageExpression": "'too many'"}
    spec = {"matchConstraints": mine(api), "validations": [rule], "failurePolicy": "Ignore"}
    policies = check_api_operations(api, GROUP, "validatingadmissionpolicies", subresources=("status",), spec=spec)
    name = f"{api.namespace}-parts"
    policies.create(name, spec=spec)
    changed = policies.patch(name, {"spec": {"failurePolicy": "Fail"}})
    assert (changed["spec"]["failurePolicy"], changed["metadata"]["generation"]) == ("Fail", 2)
    obj = check_subresource(
        policies,
        name,
        "status",
        {"conditions": [condition("PatchStatusFailed")]},
        lambda status: status["conditions"].append(condition("StatusUpdateFailed")),
        allows_metadata=False,
    )
    assert [condition["type"] for condition in obj["status"]["conditions"]] == [
        "PatchStatusFailed",
        "StatusUpdateFailed",
    ]
    policies.delete(name)


def test_mutating_admission_policy_api(api: Api) -> None:
    """[sig-api-machinery] MutatingAdmissionPolicy [Privileged:ClusterAdmin] should support MutatingAdmissionPolicy API
    operations [Conformance]"""
    expression = "Object{metadata: Object.metadata{labels: {'example': 'yes'}}}"
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    spec = {
        "matchConstraints": mine(api),
        "mutations": [mutation],
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
    }
    check_api_operations(api, GROUP, "mutatingadmissionpolicies", spec=spec)


@pytest.mark.parametrize(
    ("plural", "more"),
    [
        pytest.param(
            "validatingadmissionpolicybindings",
            {"validationActions": ["Deny"]},
            id="[sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin] should support "
            "ValidatingAdmissionPolicyBinding API operations",
        ),
        pytest.param(
            "mutatingadmissionpolicybindings",
            {},
            id="[sig-api-machinery] MutatingAdmissionPolicy [Privileged:ClusterAdmin] should support "
            "MutatingAdmissionPolicyBinding API operations",
        ),
    ],
)
def test_admission_policy_binding_api(api: Api, plural: str, more: Value) -> None:
    check_api_operations(api, GROUP, plural, spec={"policyName": "replicalimit-policy.example.com", **more})


def test_webhook_configurations_are_discovered(api: Api) -> None:
    """[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should include webhook resources in discovery
    documents [Conformance]"""
    for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        check_discovery(api, GROUP, plural)


@pytest.mark.parametrize(
    "plural",
    [
        pytest.param(
            "validatingwebhookconfigurations",
            id="[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should be able to create and update "
            "validating webhook configurations with match conditions",
        ),
        pytest.param(
            "mutatingwebhookconfigurations",
            id="[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should be able to create and update "
            "mutating webhook configurations with match conditions",
        ),
    ],
)
def test_webhook_match_conditions(api: Api, plural: str) -> None:
    conditions = [
        {"name": f"expression-{number}", "expression": f"object.metadata.namespace == '{word}'"}
        for number, word in enumerate(("production", "staging"))
    ]
    webhook = {
        "name": "e2e.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/hook"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
        "matchConditions": conditions[:1],
    }
    objects, name = api.for_resource(plural, f"{GROUP}/v1"), f"{api.namespace}-hook"
    objects.create(name, webhooks=[webhook])
    assert objects.get(name)["webhooks"][0]["matchConditions"] == conditions[:1]
    objects.change(name, lambda obj: obj["webhooks"][0].update(matchConditions=conditions))
    assert objects.get(name)["webhooks"][0]["matchConditions"] == conditions
    objects.delete(name)
    assert objects.is_gone(name)
