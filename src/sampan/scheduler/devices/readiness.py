"""Whether the devices of a claim are ready for a pod, according to their binding conditions. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.api import times
from sampan.api.types.meta_v1 import Condition
from sampan.api.types.resource_v1 import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim


class NotReady(Exception):
    """The devices can never become ready. The message becomes the text of the event."""


def has_conditions(claim: ResourceClaim) -> bool:
    return any(result.bindingConditions for result in _results(claim))


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all binding conditions are true; raise NotReady if a binding failure condition is."""
    for result in _results(claim):
        if not result.bindingConditions:
            continue
        status = _status(claim, result)
        if status is None:
            return False
        conditions = status.conditions or ()
        if (failed := _first_true(conditions, result.bindingFailureConditions)) is not None:
            why = f'claim={claim.metadata.name}, reason={failed.reason}, message="{failed.message}"'
            raise NotReady(f"device binding failed: {why}")
        if any(_first_true(conditions, [name]) is None for name in result.bindingConditions):
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
        (
            status
            for status in claim.status.devices
            if (status.driver, status.pool, status.device) == (of.driver, of.pool, of.device)
        ),
        None,
    )


def _first_true(conditions: Sequence[Condition], names: Sequence[str]) -> Condition | None:
    return next(
        (
            condition
            for name in names
            for condition in conditions
            if condition.type == name and condition.status == "True"
        ),
        None,
    )
