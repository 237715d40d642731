"""Patches that change one pod status to another."""

from typing import Any

from sampan.api.types.core_v1 import PodCondition, PodIP, PodStatus
from sampan.kubelet.status_manager import status_patch


def condition(type: str, status: str = "True", **fields: Any) -> PodCondition:
    return PodCondition(type=type, status=status, lastTransitionTime="2026-01-01T00:00:00Z", **fields)


def test_equal_statuses_give_an_empty_patch() -> None:
    assert status_patch(PodStatus(phase="Running"), PodStatus(phase="Running")) == {}


def test_removed_fields_become_null() -> None:
    old = PodStatus(phase="Running", reason="Why", conditions=[condition("A", "False", reason="No")])
    new = PodStatus(phase="Running", conditions=[condition("A")])
    patch = status_patch(old, new)
    assert patch["reason"] is None
    assert patch["conditions"][0] | {"reason": None} == patch["conditions"][0]
    assert "phase" not in patch


def test_patch_has_only_changed_conditions_in_order() -> None:
    old = PodStatus(conditions=[condition("A"), condition("B", "False")])
    new = PodStatus(conditions=[condition("A"), condition("C"), condition("B")])
    patch = status_patch(old, new)
    assert [condition["type"] for condition in patch["conditions"]] == ["C", "B"]
    assert patch["$setElementOrder/conditions"] == [{"type": "A"}, {"type": "C"}, {"type": "B"}]


def test_removed_pod_ips_are_deleted_by_the_patch() -> None:
    patch = status_patch(PodStatus(podIPs=[PodIP(ip="10.0.0.1")]), PodStatus(podIPs=[PodIP(ip="10.0.0.2")]))
    assert patch == {"podIPs": [{"ip": "10.0.0.2"}, {"$patch": "delete", "ip": "10.0.0.1"}]}


def test_resource_claim_statuses_are_not_patched() -> None:
    old = PodStatus(phase="Pending")
    old.resourceClaimStatuses = ["whatever"]  # type: ignore[list-item]
    assert status_patch(old, PodStatus(phase="Running")) == {"phase": "Running"}
