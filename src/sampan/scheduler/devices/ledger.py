"""Which devices are taken: by claims that say so, and by claims that are about to."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sampan.api.types.resource_v1 import AllocationResult, ResourceClaim
from sampan.machinery.informer import Informer
from sampan.scheduler.devices.claims import devices_of
from sampan.scheduler.devices.pools import DeviceId


class Ledger:
    def __init__(self, claims: Informer[ResourceClaim]) -> None:
        self._taken: Counter[DeviceId] = Counter()
        self._pending: dict[str, AllocationResult] = {}
        """By the uid of the claim: decided on, not yet seen as written."""
        claims.subscribe(self._changed)

    def allocated(self) -> frozenset[DeviceId]:
        pending = (device for found in self._pending.values() for device in devices_of(found))
        return frozenset([*self._taken, *pending])

    def pending(self, claim: ResourceClaim) -> AllocationResult | None:
        return self._pending.get(claim.metadata.uid)

    def promise(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        self._pending[claim.metadata.uid] = allocation

    def withdraw(self, claim: ResourceClaim) -> None:
        self._pending.pop(claim.metadata.uid, None)

    def _changed(self, old: Any, new: Any) -> None:
        for claim, by in ((old, -1), (new, 1)):
            for device in devices_of(claim.status.allocation) if claim is not None else ():
                self._taken[device] += by
                if not self._taken[device]:
                    del self._taken[device]
        if new is None or new.status.allocation is not None:
            self._pending.pop((new or old).metadata.uid, None)


__all__ = ["Ledger"]
