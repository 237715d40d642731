"""Whether the devices of a claim are ready for a pod, according to their binding conditions. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.api import times
from sampan.api.types.meta_v1 import Condition
from sampan.api.types.resource_v1 import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim


class NotReady(Exception):
    """The devices can never become ready. The message becomes the text of the event."""


def has_conditions(claim: ResourceClaim) -> bool:
    return any(one.bindingConditions for one in _results(claim))


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all binding conditions are true; raise NotReady if a binding failure condition is."""
    for one in _results(claim):
        if not one.bindingConditions:
            continue
        status = _status(claim, one)
        if status is None:
            return False
        conditions = status.conditions or ()
        if (failed := _first_true(conditions, one.bindingFailureConditions)) is not None:
            why = f'claim={claim.metadata.name}, reason={failed.reason}, message="{failed.message}"'
            raise NotReady(f"device binding failed: {why}")
        if any(_first_true(conditions, [name]) is None for name in one.bindingConditions):
            return False
    return claim.status.allocation is not None


def is_late(claim: ResourceClaim, now: float, timeout_s: float) -> bool:
    allocation = claim.status.allocation
    if allocation is None or allocation.allocationTimestamp is None or not has_conditions(claim):
        return False
    return times.parse_time(allocation.allocationTimestamp) + timeout_s < now


def is_hopeless(claim: ResourceClaim, now: float, timeout_s: float) -> bool:
    """Whether the binding conditions failed or timed out, so that other devices should be tried."""
    try:
        return not is_ready(claim) and is_late(claim, now, timeout_s)
    except NotReady:
        return True


def _results(claim: ResourceClaim) -> Sequence[DeviceRequestAllocationResult]:
    return claim.status.allocation.devices.results if claim.status.allocation is not None else ()


def _status(claim: ResourceClaim, of: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    return next(
        (one for one in claim.status.devices if (one.driver, one.pool, one.device) == (of.driver, of.pool, of.device)),
        None,
    )


def _first_true(conditions: Sequence[Condition], names: Sequence[str]) -> Condition | None:
    return next((one for name in names for one in conditions if one.type == name and one.status == "True"), None)


__all__ = ["NotReady", "has_conditions", "is_hopeless", "is_late", "is_ready"]
