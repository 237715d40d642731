"""The record of allocated devices and consumed capacity, from claims that are allocated and claims about to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sampan.api.quantity import Quantity, parse
from sampan.api.types.resource_v1 import AllocationResult, DeviceRequestAllocationResult, ResourceClaim
from sampan.machinery.informer import Informer
from sampan.scheduler.devices.capacity import NOTHING, Consumed
from sampan.scheduler.devices.pools import DeviceId, PoolId

_MOST_CHANGES = 4096


@dataclass(slots=True)
class Use:
    """The use of one device."""

    owners: int = 0
    """The number of claims that hold the device exclusively."""
    shares: int = 0
    """The number of shares that claims hold of the device."""
    consumed: dict[str, Quantity] = field(default_factory=dict)
    """The capacity that all shares consume together."""


class Change(NamedTuple):
    pool: PoolId
    is_freed: bool
    """Whether a device of the pool became less used; otherwise devices of the pool only became more used."""


@dataclass(slots=True)
class _Promise:
    allocation: AllocationResult
    version: int | None = None
    """The resource version in which the allocation was written; None before it is written."""


class Ledger:
    def __init__(self, claims: Informer[ResourceClaim]) -> None:
        self._pools: dict[PoolId, dict[str, Use]] = {}
        self._told: dict[str, AllocationResult] = {}
        """Allocations in the informer cache, by claim UID."""
        self._promised: dict[str, _Promise] = {}
        """Allocations that were decided but are not in the informer cache yet, by claim UID."""
        self._changes: list[Change] = []
        self._base = 0
        claims.subscribe(self._changed)

    # -- reading -----------------------------------------------------------------------------------------------------

    def used_in(self, pool: PoolId) -> Mapping[str, Use]:
        return self._pools.get(pool, {})

    def is_taken(self, device: DeviceId) -> bool:
        use = self.used_in(device.pool_id).get(device.device)
        return use is not None and use.owners > 0

    def is_shared(self, device: DeviceId) -> bool:
        use = self.used_in(device.pool_id).get(device.device)
        return use is not None and use.shares > 0

    def consumed(self, device: DeviceId) -> Consumed:
        use = self.used_in(device.pool_id).get(device.device)
        return use.consumed if use is not None else NOTHING

    def is_promised(self, uid: str) -> bool:
        return uid in self._promised

    @property
    def position(self) -> int:
        return self._base + len(self._changes)

    def since(self, position: int) -> list[Change] | None:
        """Return the changes since the position, or None if the record no longer reaches back that far."""
        return self._changes[position - self._base :] if position >= self._base else None

    # -- promises ----------------------------------------------------------------------------------------------------

    def promise(self, uid: str, allocation: AllocationResult) -> None:
        self._promised[uid] = _Promise(allocation)
        if uid not in self._told:
            self._count(allocation, 1)

    def rename(self, uid: str, new: str) -> None:
        """Replace the placeholder UID of an in-memory claim by the UID of the claim created on the server."""
        promise = self._promised.pop(uid, None)
        if promise is None:
            return
        if new in self._told:
            self._count(promise.allocation, -1)
        else:
            self._promised[new] = promise

    def wrote(self, uid: str, version: str) -> None:
        """Record that the allocation was written; it counts until the informer delivers that version or a newer one."""
        if uid in self._promised:
            self._promised[uid].version = int(version)

    def withdraw(self, uid: str) -> None:
        """Withdraw an allocation that was not written."""
        promise = self._promised.get(uid)
        if promise is not None and promise.version is None:
            self._drop(uid)

    def _drop(self, uid: str) -> None:
        promise = self._promised.pop(uid, None)
        if promise is not None and uid not in self._told:
            self._count(promise.allocation, -1)

    # -- changes -----------------------------------------------------------------------------------------------------

    def _changed(self, old: Any, new: Any) -> None:
        uid = (old if new is None else new).metadata.uid
        if new is not None and new.status.allocation is not None:
            self._keep(uid, new.status.allocation)
            return
        self._tell(uid, None)
        if new is None or self._is_over(uid, int(new.metadata.resourceVersion)):
            self._drop(uid)

    def _is_over(self, uid: str, version: int) -> bool:
        """Whether this version of the claim is at least as new as the one in which the allocation was written."""
        promise = self._promised.get(uid)
        return promise is not None and promise.version is not None and version >= promise.version

    def _keep(self, uid: str, allocation: AllocationResult) -> None:
        """Record the allocation in the claim's status, which may be the one that was promised."""
        promise = self._promised.pop(uid, None)
        if promise is not None and uid not in self._told:
            if _same(promise.allocation, allocation):
                self._told[uid] = allocation
                return
            self._count(promise.allocation, -1)
        self._tell(uid, allocation)

    def _tell(self, uid: str, allocation: AllocationResult | None) -> None:
        before = self._told.pop(uid, None)
        if allocation is not None:
            self._told[uid] = allocation
        if before is not None and allocation is not None and _same(before, allocation):
            return
        if before is not None:
            self._count(before, -1)
        if allocation is not None:
            self._count(allocation, 1)

    def _count(self, allocation: AllocationResult, by: int) -> None:
        for result in _counted(allocation):
            pool = PoolId(result.driver, result.pool)
            uses = self._pools.setdefault(pool, {})
            use = uses.setdefault(result.device, Use())
            _add(use, result, by)
            if not use.owners and not use.shares:
                del uses[result.device]
            if not uses:
                del self._pools[pool]
            self._note(Change(pool, by < 0))

    def _note(self, change: Change) -> None:
        self._changes.append(change)
        if len(self._changes) > _MOST_CHANGES:
            del self._changes[: _MOST_CHANGES // 2]
            self._base += _MOST_CHANGES // 2


def _counted(allocation: AllocationResult) -> Iterator[DeviceRequestAllocationResult]:
    """Return the results that count as use: devices with admin access remain available to others."""
    return (result for result in allocation.devices.results if not result.adminAccess)


def _same(one: AllocationResult, other: AllocationResult) -> bool:
    return one.devices.results == other.devices.results


def _add(use: Use, result: DeviceRequestAllocationResult, by: int) -> None:
    if result.shareID is None:
        use.owners += by
        return
    use.shares += by
    for name, amount in result.consumedCapacity.items():
        part = parse(amount) * by
        use.consumed[name] = use.consumed[name] + part if name in use.consumed else part
