"""The resource slices of the cluster, by pool and by the nodes that they are offered to."""

from __future__ import annotations

from typing import Any

from sampan.api.types.resource_v1 import ResourceSlice
from sampan.machinery.informer import Informer
from sampan.scheduler.devices.pools import Offer, PoolId, offers


class Stock:
    def __init__(self, slices: Informer[ResourceSlice]) -> None:
        self.slices: dict[PoolId, dict[str, ResourceSlice]] = {}
        """Slices of each pool by name, including those of outdated generations."""
        self.local: dict[str, dict[PoolId, dict[str, list[Offer]]]] = {}
        """Offers to a single node, by node, pool and slice."""
        self.wide: dict[PoolId, dict[str, list[Offer]]] = {}
        """Offers to several nodes, by pool and slice."""
        self.changed: set[PoolId] = set()
        """Pools that changed since the reader last cleared this set."""
        self.moved: set[str] = set()
        """Nodes that gained or lost an offer since the reader last cleared this set."""
        self.is_wide_changed = False
        slices.subscribe(self._changed)

    def nodes(self, pool: PoolId) -> set[str]:
        """Return the nodes that devices of the pool are offered to exclusively."""
        slices = self.slices.get(pool, {}).values()
        return {offer.node for resource_slice in slices for offer in offers(resource_slice) if offer.node}

    def _changed(self, old: Any, new: Any) -> None:
        if old is not None:
            self._remove(old)
        if new is not None:
            self._put(new)

    def _put(self, one: ResourceSlice) -> None:
        pool, name = _pool_of(one), one.metadata.name
        self.slices.setdefault(pool, {})[name] = one
        for offer in offers(one):
            by_pool = self.local.setdefault(offer.node, {}) if offer.node else self.wide
            by_pool.setdefault(pool, {}).setdefault(name, []).append(offer)
        self._note(pool, one)

    def _remove(self, one: ResourceSlice) -> None:
        pool, name = _pool_of(one), one.metadata.name
        self._note(pool, one)
        self.slices.get(pool, {}).pop(name, None)
        if not self.slices.get(pool, True):
            del self.slices[pool]
        for offer in offers(one):
            by_pool = self.local.get(offer.node, {}) if offer.node else self.wide
            by_pool.get(pool, {}).pop(name, None)
            if not by_pool.get(pool, True):
                del by_pool[pool]
            if offer.node and not by_pool:
                self.local.pop(offer.node, None)

    def _note(self, pool: PoolId, one: ResourceSlice) -> None:
        self.changed.add(pool)
        self.moved |= {offer.node for offer in offers(one) if offer.node}
        self.is_wide_changed |= pool in self.wide


def _pool_of(one: ResourceSlice) -> PoolId:
    return PoolId(one.spec.driver, one.spec.pool.name)
