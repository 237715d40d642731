"""Conformance tests of sig-api-machinery for the objects of API priority and fairness. The first paragraph of a
docstring is the official test name."""

from typing import Any

from tests.e2e.conformance.api import Api, Value
from tests.e2e.conformance.operations import check_api_operations, check_subresource

GROUP = "flowcontrol.apiserver.k8s.io"


def condition(type: str) -> Value:
    return {"type": type, "status": "False", "reason": "e2e"}


def check_spec_and_status_changes(api: Api, plural: str, spec: Value, patch: Value, update: Value) -> None:
    """Patch and update the spec of an object, and change its status separately."""
    objects = check_api_operations(api, GROUP, plural, subresources=("status",), spec=spec)
    name = f"{api.namespace}-changed"
    objects.create(name, spec=spec)
    patched = objects.patch(name, {"spec": patch})
    assert patched["spec"] == merge_values(spec, patch, patched)
    updated = objects.change(name, lambda obj: obj.update(spec=merge_values(obj["spec"], update)))
    assert updated["spec"] == merge_values(patched["spec"], update)
    obj = check_subresource(
        objects,
        name,
        "status",
        {"conditions": [condition("PatchStatusFailed")]},
        lambda status: status["conditions"].append(condition("StatusUpdateFailed")),
        allows_metadata=False,
    )
    types = [condition["type"] for condition in obj["status"]["conditions"]]
    assert {"PatchStatusFailed", "StatusUpdateFailed"} <= set(types)
    assert obj["spec"] == updated["spec"]
    objects.delete(name)
    assert objects.is_gone(name)


def merge_values(old: Value, new: Value, defaults: Any = None) -> Value:
    """Return `old` with the values of `new` at any depth; `defaults` has the fields that the server adds."""
    inner = {key: merge_values(old.get(key, {}), value) for key, value in new.items() if isinstance(value, dict)}
    return {**(defaults["spec"] if defaults else {}), **old, **new, **inner}


def test_flow_schemas(api: Api) -> None:
    """[sig-api-machinery] API priority and fairness should support FlowSchema API operations [Conformance]"""
    subject = {"kind": "User", "user": {"name": "example-e2e-non-existent-user"}}
    spec = {
        "matchingPrecedence": 10000,
        "priorityLevelConfiguration": {"name": "global-default"},
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": [subject], "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}],
    }
    check_spec_and_status_changes(api, "flowschemas", spec, {"matchingPrecedence": 9999}, {"matchingPrecedence": 9000})


def test_priority_levels(api: Api) -> None:
    """[sig-api-machinery] API priority and fairness should support PriorityLevelConfiguration API operations
    [Conformance]"""
    limited = {
        "nominalConcurrencyShares": 2,
        "lendablePercent": 0,
        "limitResponse": {"type": "Reject"},
    }
    spec = {"type": "Limited", "limited": limited}
    patch, update = ({"limited": {"nominalConcurrencyShares": shares}} for shares in (4, 6))
    check_spec_and_status_changes(api, "prioritylevelconfigurations", spec, patch, update)
