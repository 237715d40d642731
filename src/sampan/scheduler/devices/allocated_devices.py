"""The record of allocated devices and consumed capacity, from claims that are allocated and claims about to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sampan.api.types.resource_v1 import AllocationResult, DeviceRequestAllocationResult, ResourceClaim
from sampan.api.values.quantity import Quantity, parse
from sampan.machinery.informer import Informer
from sampan.scheduler.devices.device_constraints import NO_CAPACITY, Consumed
from sampan.scheduler.devices.pools import DeviceId, PoolId

_MAX_CHANGES = 4096


@dataclass(slots=True)
class DeviceUse:
    """The use of one device."""

    owners: int = 0
    """The number of claims that hold the device exclusively."""
    shares: int = 0
    """The number of shares that claims hold of the device."""
    consumed: dict[str, Quantity] = field(default_factory=dict)
    """The capacity that all shares consume together."""


class PoolChange(NamedTuple):
    pool: PoolId
    is_freed: bool
    """Whether a device of the pool became less used. False means that devices of the pool only became more used."""


@dataclass(slots=True)
class _PendingAllocation:
    allocation: AllocationResult
    version: int | None = None
    """The resource version in which the allocation was written; None before it is written."""


class AllocatedDevices:
    def __init__(self, claims: Informer[ResourceClaim]) -> None:
        self._pools: dict[PoolId, dict[str, DeviceUse]] = {}
        self._observed: dict[str, AllocationResult] = {}
        """Allocations in the informer cache, by claim UID."""
        self._pending: dict[str, _PendingAllocation] = {}
        """Allocations that were decided but are not in the informer cache yet, by claim UID."""
        self._changes: list[PoolChange] = []
        self._base = 0
        claims.subscribe(self._on_claim_changed)

    # -- reading -----------------------------------------------------------------------------------------------------

    def get_pool_use(self, pool: PoolId) -> Mapping[str, DeviceUse]:
        return self._pools.get(pool, {})

    def is_taken(self, device: DeviceId) -> bool:
        use = self.get_pool_use(device.pool_id).get(device.device)
        return use is not None and use.owners > 0

    def is_shared(self, device: DeviceId) -> bool:
        use = self.get_pool_use(device.pool_id).get(device.device)
        return use is not None and use.shares > 0

    def get_consumed_capacity(self, device: DeviceId) -> Consumed:
        use = self.get_pool_use(device.pool_id).get(device.device)
        return use.consumed if use is not None else NO_CAPACITY

    def is_pending(self, uid: str) -> bool:
        return uid in self._pending

    @property
    def position(self) -> int:
        return self._base + len(self._changes)

    def list_changes_since(self, position: int) -> list[PoolChange] | None:
        """Return the changes since the position, or None if the record no longer reaches back that far."""
        return self._changes[position - self._base :] if position >= self._base else None

    # -- pending allocations -----------------------------------------------------------------------------------------

    def add_pending(self, uid: str, allocation: AllocationResult) -> None:
        self._pending[uid] = _PendingAllocation(allocation)
        if uid not in self._observed:
            self._count(allocation, 1)

    def replace_uid(self, uid: str, new: str) -> None:
        """Replace the placeholder UID of an in-memory claim by the UID of the claim created on the server."""
        pending = self._pending.pop(uid, None)
        if pending is None:
            return
        if new in self._observed:
            self._count(pending.allocation, -1)
        else:
            self._pending[new] = pending

    def note_written(self, uid: str, version: str) -> None:
        """Record that the allocation was written; it counts until the informer delivers that version or a newer one."""
        if uid in self._pending:
            self._pending[uid].version = int(version)

    def remove_pending(self, uid: str) -> None:
        """Withdraw an allocation that was not written."""
        pending = self._pending.get(uid)
        if pending is not None and pending.version is None:
            self._drop_pending(uid)

    def _drop_pending(self, uid: str) -> None:
        pending = self._pending.pop(uid, None)
        if pending is not None and uid not in self._observed:
            self._count(pending.allocation, -1)

    # -- changes -----------------------------------------------------------------------------------------------------

    def _on_claim_changed(self, old: Any, new: Any) -> None:
        uid = (old if new is None else new).metadata.uid
        if new is not None and new.status.allocation is not None:
            self._confirm(uid, new.status.allocation)
            return
        self._observe(uid, None)
        if new is None or self._is_superseded(uid, int(new.metadata.resourceVersion)):
            self._drop_pending(uid)

    def _is_superseded(self, uid: str, version: int) -> bool:
        """Whether this version of the claim is at least as new as the one in which the allocation was written."""
        pending = self._pending.get(uid)
        return pending is not None and pending.version is not None and version >= pending.version

    def _confirm(self, uid: str, allocation: AllocationResult) -> None:
        """Record the allocation that the claim's status shows. It may be the pending allocation of the claim."""
        pending = self._pending.pop(uid, None)
        if pending is not None and uid not in self._observed:
            if _are_equal(pending.allocation, allocation):
                self._observed[uid] = allocation
                return
            self._count(pending.allocation, -1)
        self._observe(uid, allocation)

    def _observe(self, uid: str, allocation: AllocationResult | None) -> None:
        before = self._observed.pop(uid, None)
        if allocation is not None:
            self._observed[uid] = allocation
        if before is not None and allocation is not None and _are_equal(before, allocation):
            return
        if before is not None:
            self._count(before, -1)
        if allocation is not None:
            self._count(allocation, 1)

    def _count(self, allocation: AllocationResult, by: int) -> None:
        for result in _select_counted_results(allocation):
            pool = PoolId(result.driver, result.pool)
            uses = self._pools.setdefault(pool, {})
            use = uses.setdefault(result.device, DeviceUse())
            _add(use, result, by)
            if not use.owners and not use.shares:
                del uses[result.device]
            if not uses:
                del self._pools[pool]
            self._note(PoolChange(pool, by < 0))

    def _note(self, change: PoolChange) -> None:
        self._changes.append(change)
        if len(self._changes) > _MAX_CHANGES:
            del self._changes[: _MAX_CHANGES // 2]
            self._base += _MAX_CHANGES // 2


def _select_counted_results(allocation: AllocationResult) -> Iterator[DeviceRequestAllocationResult]:
    """Return the results that count as use: devices with admin access remain available to others."""
    return (result for result in allocation.devices.results if not result.adminAccess)


def _are_equal(first: AllocationResult, second: AllocationResult) -> bool:
    return first.devices.results == second.devices.results


def _add(use: DeviceUse, result: DeviceRequestAllocationResult, by: int) -> None:
    if result.shareID is None:
        use.owners += by
        return
    use.shares += by
    for name, amount in result.consumedCapacity.items():
        part = parse(amount) * by
        use.consumed[name] = use.consumed[name] + part if name in use.consumed else part
