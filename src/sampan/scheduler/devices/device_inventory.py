"""The devices of the cluster: resource slices by pool and node, the pools that each node sees, and device classes.

A view number for each row of the node table says which pools the node sees: nodes with the same number see the same
pools. Number 0 stands for no devices. Nodes with exclusive devices have a number each. Nodes that see only devices
which are offered to several nodes share numbers. `DeviceInventory` is one object for all profiles of a scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sampan.api.types.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from sampan.machinery.informer import Informer, by_owner
from sampan.scheduler.cache.arrays import ChangeLog, Ints, grow_array
from sampan.scheduler.cache.node_selectors import matches_any
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.devices.allocated_devices import AllocatedDevices
from sampan.scheduler.devices.pools import DeviceOffer, PoolId, PoolView, offers, view_pool
from sampan.scheduler.devices.tainted_slices import TaintedSlices
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource
from sampan.scheduler.framework.handle import Handle


class ResourceSliceIndex:
    def __init__(self, slices: Informer[ResourceSlice] | TaintedSlices) -> None:
        self.slices: dict[PoolId, dict[str, ResourceSlice]] = {}
        """Slices of each pool by name, including those of outdated generations."""
        self.local: dict[str, dict[PoolId, dict[str, list[DeviceOffer]]]] = {}
        """Offers to a single node, by node, pool and slice."""
        self.shared: dict[PoolId, dict[str, list[DeviceOffer]]] = {}
        """Offers to several nodes, by pool and slice."""
        self.changed_pools: set[PoolId] = set()
        """Pools that changed since the reader last cleared this set."""
        self.changed_nodes: set[str] = set()
        """Nodes that gained or lost an offer since the reader last cleared this set."""
        self.is_shared_changed = False
        slices.subscribe(self._on_slice_changed)

    def nodes(self, pool: PoolId) -> set[str]:
        """Return the nodes that devices of the pool are offered to exclusively."""
        slices = self.slices.get(pool, {}).values()
        return {offer.node for resource_slice in slices for offer in offers(resource_slice) if offer.node}

    def _on_slice_changed(self, old: Any, new: Any) -> None:
        if old is not None:
            self._remove(old)
        if new is not None:
            self._put(new)

    def _put(self, resource_slice: ResourceSlice) -> None:
        pool, name = _pool_of(resource_slice), resource_slice.metadata.name
        self.slices.setdefault(pool, {})[name] = resource_slice
        for offer in offers(resource_slice):
            by_pool = self.local.setdefault(offer.node, {}) if offer.node else self.shared
            by_pool.setdefault(pool, {}).setdefault(name, []).append(offer)
        self._note(pool, resource_slice)

    def _remove(self, resource_slice: ResourceSlice) -> None:
        pool, name = _pool_of(resource_slice), resource_slice.metadata.name
        self._note(pool, resource_slice)
        self.slices.get(pool, {}).pop(name, None)
        if not self.slices.get(pool, True):
            del self.slices[pool]
        for offer in offers(resource_slice):
            by_pool = self.local.get(offer.node, {}) if offer.node else self.shared
            by_pool.get(pool, {}).pop(name, None)
            if not by_pool.get(pool, True):
                del by_pool[pool]
            if offer.node and not by_pool:
                self.local.pop(offer.node, None)

    def _note(self, pool: PoolId, resource_slice: ResourceSlice) -> None:
        self.changed_pools.add(pool)
        self.changed_nodes |= {offer.node for offer in offers(resource_slice) if offer.node}
        self.is_shared_changed |= pool in self.shared


def _pool_of(resource_slice: ResourceSlice) -> PoolId:
    return PoolId(resource_slice.spec.driver, resource_slice.spec.pool.name)


NodePools = tuple[PoolView, ...]
"""The pools of a node in the order in which they are tried."""

_NodeOffers = dict[PoolId, list[DeviceOffer]]
_SharedOffers = tuple[tuple[PoolId, tuple[DeviceOffer, ...]], ...]


class NodeViews:
    def __init__(self, *, table: NodeTable, index: ResourceSliceIndex) -> None:
        self._table, self._index = table, index
        self.numbers: Ints = np.zeros(table.size, dtype=np.int64)
        """The view number of each row."""
        self._offered: list[_NodeOffers] = [{}]
        """The offers to the nodes with a view number, indexed by that number."""
        self._pools: dict[int, NodePools] = {}
        self.log = ChangeLog()
        """The numbers of the views whose pools changed, in the order of the changes."""
        self._free: list[int] = []
        self._owned: dict[int, int] = {}
        """For each row, the view number that it shares with no other row."""
        self._patterns: dict[_SharedOffers, int] = {}
        """View numbers of nodes that see only devices which are offered to several nodes."""
        self._known_shared: dict[_SharedOffers, _SharedOffers] = {}
        """Interned sets of offers to several nodes: equal sets are one object."""
        self._of_row: list[_SharedOffers] = []
        """The offers to several nodes that apply to each row; empty if there are none."""
        self._pool_views: dict[PoolId, dict[tuple[int, ...], PoolView | None]] = {}
        self._node_at, self._shape = -1, -1

    @property
    def count(self) -> int:
        """The exclusive upper bound of view numbers."""
        return len(self._offered)

    def pools_of(self, number: int) -> NodePools:
        """Return the pools of a view; they are computed on demand because that is slow for many nodes."""
        pools = self._pools.get(number)
        if pools is None:
            views = [self._pool_view(pool, pool_offers) for pool, pool_offers in self._offered[number].items()]
            pools = tuple(sorted((view for view in views if view is not None), key=lambda view: view.order))
            self._pools[number] = pools
        return pools

    def pools(self) -> Iterator[PoolView]:
        """Yield the pool views that were requested and are still valid."""
        return (view for views in self._pool_views.values() for view in views.values() if view is not None)

    def refresh(self) -> None:
        """Recompute what changed in the node table and the resource slices."""
        table, index = self._table, self._index
        noted = table.node_log.list_changes_since(self._node_at) if self._node_at >= 0 else None
        rows = set(noted.tolist()) if noted is not None else self._find_device_rows()
        for pool in index.changed_pools:
            self._pool_views.pop(pool, None)
            index.changed_nodes |= index.nodes(pool)
        rows |= {table.rows[name] for name in index.changed_nodes if name in table.rows}
        if len(self.numbers) != table.size:
            self.numbers = grow_array(self.numbers, table.size)
        if index.is_shared_changed or (index.shared and self._shape != table.shape):
            rows |= self._refresh_shared()
        for row in rows:
            self._number_row(row)
        self._drop_unused()
        self._node_at, self._shape = table.node_log.position, table.shape
        index.changed_pools, index.changed_nodes, index.is_shared_changed = set(), set(), False

    # -- parts -------------------------------------------------------------------------------------------------------

    def _find_device_rows(self) -> set[int]:
        """Return every row that has devices or had some."""
        rows = {self._table.rows[name] for name in self._index.local if name in self._table.rows}
        return rows.union(self._owned, range(len(self._of_row)), np.flatnonzero(self.numbers).tolist())

    def _refresh_shared(self) -> set[int]:
        """Return the rows for which the offers to several nodes changed."""
        before, now = self._of_row, self._list_shared_offers_by_row()
        stale = {shared for shared in self._patterns if any(pool in self._index.changed_pools for pool, _ in shared)}
        for shared in stale:
            self._forget(self._patterns.pop(shared))
        self._of_row = now
        used = self._table.used
        is_stale = {id(shared): any(pool in self._index.changed_pools for pool, _ in shared) for shared in set(now)}
        return {
            row
            for row in range(used)
            if row >= len(before) or row >= len(now) or before[row] is not now[row] or is_stale[id(now[row])]
        }

    def _list_shared_offers_by_row(self) -> list[_SharedOffers]:
        """Return the offers to several nodes by row; empty if there are none."""
        offered = [
            (pool, offer)
            for pool, slices in self._index.shared.items()
            for slice_offers in slices.values()
            for offer in slice_offers
        ]
        if not offered:
            self._known_shared = {}
            return []
        flags = np.array([self._rows_of_offer(offer) for _, offer in offered], dtype=np.bool_)
        patterns, which = np.unique(flags, axis=1, return_inverse=True)
        combinations = [
            _group_offers([pair for pair, has in zip(offered, column, strict=True) if has]) for column in patterns.T
        ]
        meanings = [self._known_shared.get(shared, shared) for shared in combinations]
        self._known_shared = {shared: shared for shared in meanings}
        return [meanings[number] for number in which.reshape(-1).tolist()]

    def _drop_unused(self) -> None:
        if len(self._patterns) > len(self._known_shared):
            for shared in [shared for shared in self._patterns if shared not in self._known_shared]:
                self._forget(self._patterns.pop(shared))

    def _rows_of_offer(self, offer: DeviceOffer) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        every = self._table.every_row
        if offer.selector is None:
            return np.ones(self._table.used, dtype=np.bool_)
        return matches_any(self._table, offer.selector.nodeSelectorTerms or (), every)

    def _number_row(self, row: int) -> None:
        if row in self._owned:
            self._forget(self._owned.pop(row))
        is_node = bool(self._table.valid[row])
        local = self._index.local.get(self._table.names[row], {}) if is_node else {}
        shared = self._of_row[row] if is_node and row < len(self._of_row) else ()
        if local:
            number = self._owned[row] = self._allocate_number(_merge_offers(local, shared))
        elif shared:
            if shared not in self._patterns:
                self._patterns[shared] = self._allocate_number(_merge_offers({}, shared))
            number = self._patterns[shared]
        else:
            number = 0
        self.numbers[row] = number

    def _pool_view(self, pool: PoolId, offered: Sequence[DeviceOffer]) -> PoolView | None:
        views = self._pool_views.setdefault(pool, {})
        key = tuple(sorted(id(offer) for offer in offered))
        if key not in views:
            views[key] = view_pool(pool, self._index.slices[pool].values(), offered)
        return views[key]

    def _allocate_number(self, offered: _NodeOffers) -> int:
        if self._free:
            number = self._free.pop()
            self._offered[number] = offered
        else:
            number = len(self._offered)
            self._offered.append(offered)
        self.log.note(number)
        return number

    def _forget(self, number: int) -> None:
        self._offered[number] = {}
        self._pools.pop(number, None)
        self._free.append(number)


def _merge_offers(local: dict[PoolId, dict[str, list[DeviceOffer]]], shared: _SharedOffers) -> _NodeOffers:
    merged = {pool: list(group) for pool, group in shared}
    for pool, slices in local.items():
        merged.setdefault(pool, []).extend(offer for group in slices.values() for offer in group)
    return merged


def _group_offers(offered: Sequence[tuple[PoolId, DeviceOffer]]) -> _SharedOffers:
    by_pool: dict[PoolId, list[DeviceOffer]] = {}
    for pool, offer in offered:
        by_pool.setdefault(pool, []).append(offer)
    return tuple((pool, tuple(group)) for pool, group in by_pool.items())


PREFIX = "deviceclass.resource.kubernetes.io/"


class ExtendedResourceClasses:
    def __init__(self, classes: Informer[DeviceClass], *, on_change: Callable[[frozenset[str]], None]) -> None:
        """Call `on_change` with the set of provided resources whenever it changes."""
        self._classes, self._on_change = classes.lister, on_change
        self._by_resource: Mapping[str, DeviceClass] = {}
        classes.subscribe(self._on_class_changed)

    def find_class(self, resource: str) -> DeviceClass | None:
        return self._by_resource.get(resource)

    def _on_class_changed(self, old: Any, new: Any) -> None:
        before = self._by_resource.keys()
        self._by_resource = classes_by_resource(self._classes)
        if self._by_resource.keys() != before:
            self._on_change(frozenset(self._by_resource))


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Return the device class for each extended resource.

    If several classes declare the same `extendedResourceName`, the newest provides it; among those of the same age, the
    one whose name sorts first.
    """
    by_resource: dict[str, DeviceClass] = {}
    by_name = sorted(classes, key=lambda device_class: device_class.metadata.name)
    for device_class in sorted(
        by_name, key=lambda device_class: device_class.metadata.creationTimestamp or "", reverse=True
    ):
        by_resource[PREFIX + device_class.metadata.name] = device_class
        if device_class.spec.extendedResourceName:
            by_resource.setdefault(device_class.spec.extendedResourceName, device_class)
    return by_resource


class DeviceInventory:
    def __init__(self, handle: Handle) -> None:
        self.claims = handle.watch(ResourceClaim, EventResource.RESOURCE_CLAIM)
        self.claims.lister.add_index(by_owner)
        classes = handle.watch(DeviceClass, EventResource.DEVICE_CLASS)
        self.classes = classes.lister
        self.extended_resource_classes = ExtendedResourceClasses(classes, on_change=handle.table.set_device_resources)
        self.allocated_devices = AllocatedDevices(self.claims)
        slices: Informer[ResourceSlice] | TaintedSlices = handle.watch(ResourceSlice, EventResource.RESOURCE_SLICE)
        if handle.feature_gates.is_enabled("DRADeviceTaintRules"):
            rules = handle.informers.for_kind(DeviceTaintRule)
            slices = TaintedSlices(slices=handle.informers.for_kind(ResourceSlice), rules=rules)
            update = ClusterEvent(EventResource.RESOURCE_SLICE, ActionType.UPDATE)
            rules.subscribe(lambda old, new: handle.cluster_events.publish(update, None, None))
        self.views = NodeViews(table=handle.table, index=ResourceSliceIndex(slices))


def device_inventory(handle: Handle) -> DeviceInventory:
    """Return the inventory that the plugins of all profiles share."""
    return handle.share(DeviceInventory, lambda: DeviceInventory(handle))
