"""The engine of declarative validation on the types of the API."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api import limits
from sampan.api.codec import json
from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscaler
from sampan.api.types.certificates_v1 import CertificateSigningRequest
from sampan.api.types.core_v1 import Pod, ReplicationController
from sampan.api.types.flowcontrol_v1 import PriorityLevelConfiguration
from sampan.api.types.networking_v1 import IngressClass, IPAddress, NetworkPolicy
from sampan.api.types.node_v1 import RuntimeClass
from sampan.api.types.resource_v1 import (
    Device,
    DeviceAttribute,
    DeviceClass,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from sampan.api.types.storage_v1 import StorageClass
from sampan.apiserver.registry.declarative import complete_errors, rules
from sampan.apiserver.registry.declarative.compiler import rules_of


def errors(kind: type, value: Any, old: Any = None, *options: str) -> list[str]:
    obj: Any = json.from_value(value, kind)
    before = json.from_value(old, kind) if old is not None else None
    return [str(error) for error in complete_errors([], obj, before, lambda option: option in options)]


def slice_with(**device: Any) -> dict[str, Any]:
    return {"spec": {"devices": [device]}}


@pytest.mark.parametrize(
    ("kind", "value", "messages"),
    [
        (RuntimeClass, {}, ["handler: Required value"]),
        (
            RuntimeClass,
            {"handler": "a.b"},
            ['handler: Invalid value: "a.b": must not contain dots'],
        ),
        (RuntimeClass, {"handler": "a" * 64}, [f'handler: Invalid value: "{"a" * 64}": must be no more than 63 bytes']),
        (IngressClass, {"spec": {"controller": "x"}}, []),
        (
            IngressClass,
            {"spec": {"parameters": {}}},
            ["spec.parameters.kind: Required value", "spec.parameters.name: Required value"],
        ),
        (IPAddress, {}, ["spec.parentRef: Required value"]),
        (
            NetworkPolicy,
            {"spec": {"ingress": [{"from": [{"ipBlock": {}}]}]}},
            ["spec.ingress[0].from[0].ipBlock.cidr: Required value"],
        ),
        (
            ReplicationController,
            {"metadata": {"name": "A"}, "spec": {"replicas": -1, "minReadySeconds": -2}},
            [
                'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case '
                "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
                "'example.com', regex used for validation is "
                "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
            ],
        ),
        (
            CertificateSigningRequest,
            {"status": {"conditions": [{"type": "Denied"}, {"type": "Approved"}]}},
            [
                'status.conditions: Invalid value: "{conditions[{\\"type\\": \\"Approved\\"}], conditions[{\\"type\\": '
                '\\"Denied\\"}]}": must specify at most one of: `conditions[{"type": "Approved"}]`, '
                '`conditions[{"type": "Denied"}]`'
            ],
        ),
        (CertificateSigningRequest, {"status": {"conditions": [{"type": "Approved"}]}}, []),
        (
            PriorityLevelConfiguration,
            {"spec": {"type": "Limited", "exempt": {}}},
            ["spec.exempt: Forbidden", "spec.limited: Required value"],
        ),
        (
            DeviceClass,
            {"spec": {"config": [{"opaque": {"driver": "-", "parameters": {}}}], "selectors": [{}] * 33}},
            [
                "spec.selectors: Too many: 33: must have at most 32 items",
                'spec.config[0].opaque.driver: Invalid value: "-": an RFC 1123 subdomain must consist of alphanumeric '
                "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'Example.com', "
                "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        ),
        (
            ResourceSlice,
            slice_with(consumesCounters=[{"counterSet": "a", "counters": {"-": {"value": "1"}}}, {"counterSet": "a"}]),
            [
                'spec.devices[0].consumesCounters[1]: Duplicate value: {"counterSet":"a"}',
                'spec.devices[0].consumesCounters[0].counters: Invalid value: "-": a lowercase RFC 1123 label must '
                "consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric "
                "character (e.g. 'my-name',  or '123-abc', regex used for validation is "
                "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.devices[0].consumesCounters[1].counters: Required value",
            ],
        ),
        (
            ResourceSlice,
            slice_with(taints=[{"key": "a", "effect": "No"}], bindingConditions=["a"] * 5),
            [
                'spec.devices[0].taints[0].effect: Unsupported value: "No": supported values: "NoExecute", '
                '"NoSchedule", "None"',
                "spec.devices[0].bindingConditions: Too many: 5: must have at most 4 items",
            ],
        ),
    ],
)
def test_errors_of_new_objects(kind: type, value: Any, messages: list[str]) -> None:
    assert errors(kind, value) == messages


def test_members_of_a_union() -> None:
    (message,) = errors(DeviceAttribute, {})
    assert message.startswith(': Invalid value: "": must specify one of: `int`, `bool`')
    (message,) = errors(DeviceAttribute, {"int": 0, "bool": False})
    assert message.startswith(': Invalid value: "{int, bool}": must specify exactly one of: `int`, `bool`')
    assert errors(DeviceAttribute, {"string": ""}) == []
    # an update that leaves the members alone is accepted
    assert errors(DeviceAttribute, {"int": 1, "bool": True}, {"int": 0, "bool": False}) == []


def test_unchanged_parts_are_not_validated_again() -> None:
    bad = {"handler": "A", "metadata": {"name": "a"}}
    assert errors(RuntimeClass, {**bad, "metadata": {"name": "a", "labels": {"a": "b"}}}, bad) == []
    old = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"allocationMode": "Odd"}}]}}}
    new = {"metadata": {"labels": {"a": "b"}}, **old}
    assert errors(ResourceClaim, new, old) == []


def test_items_of_a_list_are_compared_with_the_old_item_of_the_same_key() -> None:
    def device(*names: str) -> Any:
        return {"consumesCounters": [{"counterSet": name, "counters": {"_": {"value": "1"}}} for name in names]}

    (message,) = errors(Device, device("b", "a"), device("a"))
    assert message.startswith("consumesCounters[0].counters: Invalid value")


def test_immutable_fields() -> None:
    old = {"provisioner": "a", "parameters": {"a": "b"}, "reclaimPolicy": "Delete"}
    assert errors(StorageClass, {**old, "parameters": {}}, {**old, "parameters": None}) == []
    assert errors(StorageClass, {**old, "parameters": {"a": "c"}}, old) == [
        "parameters: Invalid value: null: field is immutable"
    ]
    assert errors(StorageClass, {**old, "provisioner": ""}, old) == [
        "provisioner: Required value",
        "provisioner: Invalid value: null: field is immutable",
    ]


def test_parts_below_an_immutable_field_are_validated_before_it() -> None:
    old = {"spec": {"parentRef": {"resource": "services", "name": "a"}}}
    assert errors(IPAddress, {"spec": {"parentRef": {"resource": "services"}}}, old) == [
        "spec.parentRef.name: Required value",
        "spec.parentRef: Invalid value: null: field is immutable",
    ]


def test_options_select_the_rule() -> None:
    value = {"spec": {"maxReplicas": 1, "minReplicas": 0}}
    assert errors(HorizontalPodAutoscaler, value, None, "HPAScaleToZero") == []
    assert errors(HorizontalPodAutoscaler, value) == [
        "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"
    ]


def test_errors_of_hand_written_rules_come_first_and_once() -> None:
    from sampan.api.field_errors import FieldError

    obj, own = json.from_value({}, RuntimeClass), FieldError.required("a")
    reported = complete_errors([own, FieldError.required("b"), own], obj, None, lambda option: False)
    assert [error.field for error in reported] == ["a", "b", "handler"]


def test_types_without_enforced_tags_have_no_rules() -> None:
    from sampan.api.types.core_v1 import ConfigMap, Service

    assert rules_of(ConfigMap) is None
    assert rules_of(Service) is None


def test_number_of_errors_is_bounded() -> None:
    devices = [{"name": str(index), "taints": [{"key": "a"}]} for index in range(3 * limits.VALIDATION_ERRORS)]
    assert len(errors(ResourceSlice, {"spec": {"devices": devices}})) == limits.VALIDATION_ERRORS


def test_old_items_are_looked_up_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each item is compared with one old item, so the cost of an update is linear in the size of the list."""
    comparisons = 0

    def count_comparisons(value: Any, old: Any) -> bool:
        nonlocal comparisons
        comparisons += 1
        return bool(value == old)

    monkeypatch.setattr(rules, "is_equal", count_comparisons)
    devices = [{"driver": "d", "pool": "p", "device": f"d{index}"} for index in range(1000)]
    assert errors(ResourceClaimStatus, {"devices": devices[::-1]}, {"devices": devices}) == []
    assert comparisons <= 1100


_json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["spec", "status", "metadata", "handler"]), _json_values), _json_values)
def test_any_decodable_object_is_validated_without_failure(value: dict[str, Any], other: Any) -> None:
    for kind in (RuntimeClass, ResourceSlice, PriorityLevelConfiguration, Pod, IngressClass):
        try:
            obj = json.from_value(value, kind)
        except Exception:
            continue
        complete_errors([], obj, None, lambda option: True)
        complete_errors([], obj, obj, lambda option: True)
