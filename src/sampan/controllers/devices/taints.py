"""Evaluation of device taints: when a pod that uses a tainted device must be evicted. Pure."""

from collections.abc import Iterable, Sequence

from sampan.api import times
from sampan.api.semantics.taints import NO_EXECUTE, tolerates
from sampan.api.types.resource_v1 import (
    Device,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceToleration,
    ResourceSlice,
)


def drives_out(slice: ResourceSlice) -> bool:
    return any(taint.effect == NO_EXECUTE for device in slice.spec.devices for taint in device.taints)


def device_of(slices: Sequence[ResourceSlice], name: str) -> Device | None:
    """Return a device of a pool. Only the slices of the latest pool generation count."""
    latest = max((slice.spec.pool.generation for slice in slices), default=0)
    current = [slice for slice in slices if slice.spec.pool.generation == latest]
    return next((device for slice in current for device in slice.spec.devices if device.name == name), None)


def is_tolerated(taint: DeviceTaint, toleration: DeviceToleration) -> bool:
    return toleration.effect == NO_EXECUTE and tolerates(toleration, taint)


def leaves_at(device: Device, allocated: DeviceRequestAllocationResult) -> float | None:
    """Return when consumers of the device must be evicted, or None if all NoExecute taints are tolerated."""
    return soonest(_leaves_at(taint, allocated.tolerations) for taint in device.taints)


def _leaves_at(taint: DeviceTaint, tolerations: Sequence[DeviceToleration]) -> float | None:
    if taint.effect != NO_EXECUTE or taint.timeAdded is None:
        return None
    allowed = [entry.tolerationSeconds for entry in tolerations if is_tolerated(taint, entry)]
    if None in allowed:
        return None
    seconds = [max(entry, 0) for entry in allowed if entry is not None]
    return times.parse_time(taint.timeAdded) + min(seconds, default=0)


def soonest(moments: Iterable[float | None]) -> float | None:
    return min((moment for moment in moments if moment is not None), default=None)
