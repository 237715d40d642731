"""The conformance descriptions of API priority and fairness as objects, each a test whose first line is its name."""

from typing import Any

from tests.e2e.conformance.api import Api, Value
from tests.e2e.conformance.operations import supports_everything, supports_subresource

GROUP = "flowcontrol.apiserver.k8s.io"


def condition(type: str) -> Value:
    return {"type": type, "status": "False", "reason": "e2e"}


def is_changed(api: Api, plural: str, spec: Value, patch: Value, update: Value) -> None:
    """Its spec by a patch and by an update, and its status apart from that."""
    objects = supports_everything(api, GROUP, plural, subresources=("status",), spec=spec)
    name = f"{api.namespace}-changed"
    objects.create(name, spec=spec)
    patched = objects.patch(name, {"spec": patch})
    assert patched["spec"] == deep(spec, patch, patched)
    updated = objects.change(name, lambda obj: obj.update(spec=deep(obj["spec"], update)))
    assert updated["spec"] == deep(patched["spec"], update)
    obj = supports_subresource(
        objects,
        name,
        "status",
        {"conditions": [condition("PatchStatusFailed")]},
        lambda status: status["conditions"].append(condition("StatusUpdateFailed")),
        is_all=False,
    )
    types = [condition["type"] for condition in obj["status"]["conditions"]]
    assert {"PatchStatusFailed", "StatusUpdateFailed"} <= set(types)
    assert obj["spec"] == updated["spec"]
    objects.delete(name)
    assert objects.is_gone(name)


def deep(old: Value, new: Value, defaults: Any = None) -> Value:
    """`old` with what is new at any depth; `defaults` has what the server adds."""
    inner = {key: deep(old.get(key, {}), value) for key, value in new.items() if isinstance(value, dict)}
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
    is_changed(api, "flowschemas", spec, {"matchingPrecedence": 9999}, {"matchingPrecedence": 9000})


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
    is_changed(api, "prioritylevelconfigurations", spec, patch, update)
