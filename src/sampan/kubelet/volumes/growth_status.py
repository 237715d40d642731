"""Pure computation of a claim's status during volume expansion on the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.api import times
from sampan.api.codec import json
from sampan.api.quantity import Quantity, parse
from sampan.api.types.core_v1 import PersistentVolumeClaim, PersistentVolumeClaimCondition

STORAGE = "storage"
PENDING, IN_PROGRESS, INFEASIBLE = "NodeResizePending", "NodeResizeInProgress", "NodeResizeInfeasible"
NODE_ERROR = "NodeResizeError"
_CONDITIONS = ("Resizing", "FileSystemResizePending", "ControllerResizeError", NODE_ERROR)
_NOT_NEEDED = "volume.kubernetes.io/node-expansion-not-required"
ZERO = parse("0")


def size_of(amounts: Mapping[str, str]) -> Quantity:
    return parse(amounts.get(STORAGE, "0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    is_wanted: bool
    """Whether the node has to expand the volume."""
    is_told: bool = False
    """Whether the claim already has this size: another node was faster, or nodes had nothing to do."""
    is_final: bool = False
    """Whether a failure is final, because the claim requests a different size by now."""


def is_followed(claim: PersistentVolumeClaim) -> bool:
    """Whether the resize controller tracks the expansion in the claim's status, which older ones do not."""
    return bool(claim.status.allocatedResourceStatuses.get(STORAGE) or claim.status.allocatedResources)


def outlook(claim: PersistentVolumeClaim, size: Quantity, *, has_failed: bool) -> Outlook:
    """Decide about the expansion. `size` is that of the volume; `has_failed` if it has failed on this node."""
    status = claim.status.allocatedResourceStatuses.get(STORAGE, "")
    is_final = has_failed and size_of(claim.spec.resources.requests) != size
    is_told = size_of(claim.status.capacity) >= size and not status
    is_shared = "ReadWriteMany" in claim.spec.accessModes and _NOT_NEEDED not in claim.metadata.annotations
    is_wanted = (is_told and is_shared) or status in (PENDING, IN_PROGRESS)
    return Outlook(is_wanted=is_wanted, is_told=is_told, is_final=is_final)


def begun(claim: PersistentVolumeClaim) -> dict[str, Any]:
    return _checked(claim, {"allocatedResourceStatuses": {STORAGE: IN_PROGRESS}})


def finished(claim: PersistentVolumeClaim, size: Quantity) -> dict[str, Any]:
    remaining = [condition for condition in claim.status.conditions if condition.type not in _CONDITIONS]
    status: dict[str, Any] = {"capacity": {STORAGE: str(size)}, "conditions": _values(remaining)}
    if claim.status.allocatedResourceStatuses:
        status["allocatedResourceStatuses"] = {STORAGE: None}
    return _checked(claim, status)


def failed(claim: PersistentVolumeClaim, why: str, now: float, *, is_final: bool) -> dict[str, Any]:
    failure = PersistentVolumeClaimCondition(
        type=NODE_ERROR,
        status="True",
        lastTransitionTime=times.format_time(now),
        message=f"failed to expand pvc with {why}",
    )
    before = claim.status.conditions
    is_known = any(condition.type == NODE_ERROR and condition.status == "True" for condition in before)
    others = before if is_known else [condition for condition in before if condition.type != NODE_ERROR]
    status: dict[str, Any] = {"conditions": _values(others if is_known else [*others, failure])}
    if is_final:
        status["allocatedResourceStatuses"] = {STORAGE: INFEASIBLE}
    return {"status": status}


def _checked(claim: PersistentVolumeClaim, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a patch that fails with Conflict if the claim has changed meanwhile."""
    return {"metadata": {"resourceVersion": claim.metadata.resourceVersion}, "status": dict(status)}


def _values(conditions: Sequence[PersistentVolumeClaimCondition]) -> list[Any]:
    return [json.to_value(condition) for condition in conditions]
