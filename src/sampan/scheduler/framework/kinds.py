"""Cached per-node results for pods with equal needs, recomputed only for nodes that change.

`total` holds for every row the weighted scores of the plug-ins whose scope is a single node, or REFUSED where one of
them rejects the node. Plug-ins with Scope.CLUSTER run for every pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sampan.scheduler.arrays import Flags, Ints, Rows, count_of
from sampan.scheduler.framework.contract import Code, Cycle, Narrowed, Scope, Status

REFUSED = -(1 << 40)


class Scorer(NamedTuple):
    plugin: Any
    weight: int


class Kind:
    def __init__(self, cycle: Cycle, filters: Sequence[Any], scorers: Sequence[Scorer]) -> None:
        self.narrowed: frozenset[str] | None = None
        """The only nodes to consider; None for all nodes."""
        self.narrowing: set[str] = set()
        """The plug-ins that restricted the nodes."""
        self.rejection: Status | None = None
        """The PreFilter status that rejects such pods on every node."""
        self.skipped: set[str] = set()
        """Filter plug-ins that skip such pods."""
        for plugin in filters:
            if plugin.scope is not Scope.CLUSTER and hasattr(plugin, "pre_filter"):
                self._take(plugin, plugin.pre_filter(cycle))
        local = [
            candidate
            for candidate in filters
            if candidate.scope is not Scope.CLUSTER and candidate.name not in self.skipped
        ]
        self._node_filters = [candidate for candidate in local if candidate.scope is Scope.NODE]
        self._pod_filters = [candidate for candidate in local if candidate.scope is Scope.PODS]
        local_scorers = [
            candidate
            for candidate in scorers
            if candidate.plugin.scope is not Scope.CLUSTER and _has_say(candidate, cycle)
        ]
        plain = [candidate for candidate in local_scorers if not hasattr(candidate.plugin, "normalize")]
        self._node_scorers = [candidate for candidate in plain if candidate.plugin.scope is Scope.NODE]
        self._pod_scorers = [candidate for candidate in plain if candidate.plugin.scope is Scope.PODS]
        self._relative = [candidate for candidate in local_scorers if hasattr(candidate.plugin, "normalize")]
        self._size = -1
        self._node_at = self._pod_at = 0

    def _take(self, plugin: Any, said: Status | Narrowed | None) -> None:
        if isinstance(said, Narrowed):
            self.narrowed = said.names if self.narrowed is None else self.narrowed & said.names
            self.narrowing.add(plugin.name)
        elif said is not None and said.code is Code.SKIP:
            self.skipped.add(plugin.name)
        elif said is not None:
            self.rejection = self.rejection or Status(said.code, said.reasons, plugin.name)

    # -- over all nodes, cached --------------------------------------------------------------------------------------

    def refresh(self, cycle: Cycle) -> None:
        """Recompute the rows that changed."""
        table = cycle.table
        nodes, pods = table.node_log.since(self._node_at), table.pod_log.since(self._pod_at)
        self._node_at, self._pod_at = table.node_log.position, table.pod_log.position
        if self._size != table.size or nodes is None or pods is None:
            self._allocate(table.size)
            self._compute(cycle, table.every_row, with_nodes=True)
            return
        if len(nodes):
            self._compute(cycle, nodes, with_nodes=True)
        if len(pods):
            self._compute(cycle, pods, with_nodes=False)

    def _allocate(self, size: int) -> None:
        self._size = size
        self._node_part: Ints = np.full(size, REFUSED, dtype=np.int64)
        self.total: Ints = np.full(size, REFUSED, dtype=np.int64)
        self.raw: list[Ints] = [np.zeros(size, dtype=np.int64) for _ in self._relative]

    def _compute(self, cycle: Cycle, rows: Rows, *, with_nodes: bool) -> None:
        if with_nodes:
            ok = cycle.table.valid[rows].copy()
            _filter(cycle, self._node_filters, rows, ok)
            self._node_part[rows] = np.where(ok, _score(cycle, self._node_scorers, rows), REFUSED)
            for scorer, raw in zip(self._relative, self.raw, strict=True):
                raw[rows] = scorer.plugin.score(cycle, rows)
            self.relative = self._telling(cycle)
        ok = np.ones(count_of(rows), dtype=np.bool_)
        _filter(cycle, self._pod_filters, rows, ok)
        self.total[rows] = np.where(ok, self._node_part[rows] + _score(cycle, self._pod_scorers, rows), REFUSED)

    def _telling(self, cycle: Cycle) -> list[tuple[Scorer, Ints]]:
        """Return the normalizing scorers whose scores differ between nodes; equal scores do not affect the choice."""
        valid = cycle.table.valid[cycle.table.every_row]
        differing = []
        for scorer, raw in zip(self._relative, self.raw, strict=True):
            scores = raw[: len(valid)][valid]
            if len(scores) and scores.min() != scores.max():
                differing.append((scorer, raw))
        return differing

    # -- over some nodes, not cached ---------------------------------------------------------------------------------

    def totals(self, cycle: Cycle, rows: Rows) -> Ints:
        """Return the summed scores of feasible rows."""
        return _score(cycle, [*self._node_scorers, *self._pod_scorers], rows)

    def relatives(self, cycle: Cycle, rows: Rows) -> list[tuple[Scorer, Ints]]:
        return [(scorer, scorer.plugin.score(cycle, rows)) for scorer in self._relative]


def _has_say(scorer: Scorer, cycle: Cycle) -> bool:
    if not hasattr(scorer.plugin, "pre_score"):
        return True
    status = scorer.plugin.pre_score(cycle, cycle.table.every_row)
    return status is None or status.code is not Code.SKIP


def _filter(cycle: Cycle, filters: Sequence[Any], rows: Rows, ok: Flags) -> None:
    for plugin in filters:
        ok &= plugin.filter(cycle, rows) == 0


def _score(cycle: Cycle, scorers: Sequence[Scorer], rows: Rows) -> Ints:
    total = np.zeros(count_of(rows), dtype=np.int64)
    for plugin, weight in scorers:
        total += weight * plugin.score(cycle, rows)
    return total
