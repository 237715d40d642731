"""The pools that each node sees, encoded as a number for each row: nodes with the same number see the same pools.

Number 0 stands for no devices. Nodes with exclusive devices have a number each; nodes that see only devices which are
offered to several nodes share one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sampan.scheduler.arrays import Ints, grown
from sampan.scheduler.change_log import ChangeLog
from sampan.scheduler.devices.pools import Offer, PoolId, PoolView, viewed
from sampan.scheduler.devices.stock import Stock
from sampan.scheduler.node_selection import matches_any
from sampan.scheduler.node_table import NodeTable

Seen = tuple[PoolView, ...]
"""The pools of a node in the order in which they are tried."""

_Offered = dict[PoolId, list[Offer]]
_Wide = tuple[tuple[PoolId, tuple[Offer, ...]], ...]


class Views:
    def __init__(self, *, table: NodeTable, stock: Stock) -> None:
        self._table, self._stock = table, stock
        self.numbers: Ints = np.zeros(table.size, dtype=np.int64)
        """The view number of each row."""
        self._offered: list[_Offered] = [{}]
        """The offers to the nodes with a view number, indexed by that number."""
        self._seen: dict[int, Seen] = {}
        self.log = ChangeLog()
        """View numbers whose meaning changed."""
        self._free: list[int] = []
        self._owned: dict[int, int] = {}
        """For each row, the view number that it shares with no other row."""
        self._patterns: dict[_Wide, int] = {}
        """View numbers of nodes that see only devices which are offered to several nodes."""
        self._known_wide: dict[_Wide, _Wide] = {}
        """Interned values: equal ones are one object."""
        self._of_row: list[_Wide] = []
        """The offers to several nodes that apply to each row; empty if there are none."""
        self._pool_views: dict[PoolId, dict[tuple[int, ...], PoolView | None]] = {}
        self._node_at, self._shape = -1, -1

    @property
    def count(self) -> int:
        """The exclusive upper bound of view numbers."""
        return len(self._offered)

    def seen(self, number: int) -> Seen:
        """Return the pools of a view; they are computed on demand because that is slow for many nodes."""
        pools = self._seen.get(number)
        if pools is None:
            views = [self._pool_view(pool, pool_offers) for pool, pool_offers in self._offered[number].items()]
            pools = tuple(sorted((view for view in views if view is not None), key=lambda view: view.order))
            self._seen[number] = pools
        return pools

    def pools(self) -> Iterator[PoolView]:
        """Yield the pool views that were requested and are still valid."""
        return (view for views in self._pool_views.values() for view in views.values() if view is not None)

    def refresh(self) -> None:
        """Recompute what changed in the node table and the resource slices."""
        table, stock = self._table, self._stock
        noted = table.node_log.since(self._node_at) if self._node_at >= 0 else None
        rows = set(noted.tolist()) if noted is not None else self._every_row()
        for pool in stock.changed:
            self._pool_views.pop(pool, None)
            stock.moved |= stock.nodes(pool)
        rows |= {table.rows[name] for name in stock.moved if name in table.rows}
        if len(self.numbers) != table.size:
            self.numbers = grown(self.numbers, table.size)
        if stock.is_wide_changed or (stock.wide and self._shape != table.shape):
            rows |= self._look_wide()
        for row in rows:
            self._place(row)
        self._drop_unused()
        self._node_at, self._shape = table.node_log.position, table.shape
        stock.changed, stock.moved, stock.is_wide_changed = set(), set(), False

    # -- parts -------------------------------------------------------------------------------------------------------

    def _every_row(self) -> set[int]:
        """Return every row that has devices or had some."""
        rows = {self._table.rows[name] for name in self._stock.local if name in self._table.rows}
        return rows.union(self._owned, range(len(self._of_row)), np.flatnonzero(self.numbers).tolist())

    def _look_wide(self) -> set[int]:
        """Return the rows for which the offers to several nodes changed."""
        before, now = self._of_row, self._wide_by_row()
        stale = {wide for wide in self._patterns if any(pool in self._stock.changed for pool, _ in wide)}
        for wide in stale:
            self._forget(self._patterns.pop(wide))
        self._of_row = now
        used = self._table.used
        is_stale = {id(wide): any(pool in self._stock.changed for pool, _ in wide) for wide in set(now)}
        return {
            row
            for row in range(used)
            if row >= len(before) or row >= len(now) or before[row] is not now[row] or is_stale[id(now[row])]
        }

    def _wide_by_row(self) -> list[_Wide]:
        """Return the offers to several nodes by row; empty if there are none."""
        offered = [
            (pool, offer)
            for pool, slices in self._stock.wide.items()
            for slice_offers in slices.values()
            for offer in slice_offers
        ]
        if not offered:
            self._known_wide = {}
            return []
        flags = np.array([self._reach(offer) for _, offer in offered], dtype=np.bool_)
        patterns, which = np.unique(flags, axis=1, return_inverse=True)
        combinations = [
            _grouped([pair for pair, has in zip(offered, column, strict=True) if has]) for column in patterns.T
        ]
        meanings = [self._known_wide.get(wide, wide) for wide in combinations]
        self._known_wide = {wide: wide for wide in meanings}
        return [meanings[number] for number in which.reshape(-1).tolist()]

    def _drop_unused(self) -> None:
        if len(self._patterns) > len(self._known_wide):
            for wide in [wide for wide in self._patterns if wide not in self._known_wide]:
                self._forget(self._patterns.pop(wide))

    def _reach(self, offer: Offer) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        every = self._table.every_row
        if offer.selector is None:
            return np.ones(self._table.used, dtype=np.bool_)
        return matches_any(self._table, offer.selector.nodeSelectorTerms or (), every)

    def _place(self, row: int) -> None:
        if row in self._owned:
            self._forget(self._owned.pop(row))
        is_node = bool(self._table.valid[row])
        local = self._stock.local.get(self._table.names[row], {}) if is_node else {}
        wide = self._of_row[row] if is_node and row < len(self._of_row) else ()
        if local:
            number = self._owned[row] = self._new(_merged(local, wide))
        elif wide:
            if wide not in self._patterns:
                self._patterns[wide] = self._new(_merged({}, wide))
            number = self._patterns[wide]
        else:
            number = 0
        self.numbers[row] = number

    def _pool_view(self, pool: PoolId, offered: Sequence[Offer]) -> PoolView | None:
        views = self._pool_views.setdefault(pool, {})
        key = tuple(sorted(id(offer) for offer in offered))
        if key not in views:
            views[key] = viewed(pool, self._stock.slices[pool].values(), offered)
        return views[key]

    def _new(self, offered: _Offered) -> int:
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
        self._seen.pop(number, None)
        self._free.append(number)


def _merged(local: dict[PoolId, dict[str, list[Offer]]], wide: _Wide) -> _Offered:
    merged = {pool: list(group) for pool, group in wide}
    for pool, slices in local.items():
        merged.setdefault(pool, []).extend(offer for group in slices.values() for offer in group)
    return merged


def _grouped(offered: Sequence[tuple[PoolId, Offer]]) -> _Wide:
    by_pool: dict[PoolId, list[Offer]] = {}
    for pool, offer in offered:
        by_pool.setdefault(pool, []).append(offer)
    return tuple((pool, tuple(group)) for pool, group in by_pool.items())
