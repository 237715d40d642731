"""A patch makes of one status another, and nothing else."""

from typing import Any

from sampan.api.types.core_v1 import PodCondition, PodIP, PodStatus
from sampan.kubelet.status_manager import status_patch


def condition(type: str, status: str = "True", **fields: Any) -> PodCondition:
    return PodCondition(type=type, status=status, lastTransitionTime="2026-01-01T00:00:00Z", **fields)


def test_nothing_to_say() -> None:
    assert status_patch(PodStatus(phase="Running"), PodStatus(phase="Running")) == {}


def test_removed_fields_become_null() -> None:
    old = PodStatus(phase="Running", reason="Why", conditions=[condition("A", "False", reason="No")])
    new = PodStatus(phase="Running", conditions=[condition("A")])
    patch = status_patch(old, new)
    assert patch["reason"] is None
    assert patch["conditions"][0] | {"reason": None} == patch["conditions"][0]
    assert "phase" not in patch


def test_only_conditions_that_changed_in_their_order() -> None:
    old = PodStatus(conditions=[condition("A"), condition("B", "False")])
    new = PodStatus(conditions=[condition("A"), condition("C"), condition("B")])
    patch = status_patch(old, new)
    assert [condition["type"] for condition in patch["conditions"]] == ["C", "B"]
    assert patch["$setElementOrder/conditions"] == [{"type": "A"}, {"type": "C"}, {"type": "B"}]


def test_addresses_that_are_gone() -> None:
    patch = status_patch(PodStatus(podIPs=[PodIP(ip="10.0.0.1")]), PodStatus(podIPs=[PodIP(ip="10.0.0.2")]))
    assert patch == {"podIPs": [{"ip": "10.0.0.2"}, {"$patch": "delete", "ip": "10.0.0.1"}]}


def test_what_others_say_is_left_alone() -> None:
    old = PodStatus(phase="Pending")
    old.resourceClaimStatuses = ["whatever"]  # type: ignore[list-item]
    assert status_patch(old, PodStatus(phase="Running")) == {"phase": "Running"}
