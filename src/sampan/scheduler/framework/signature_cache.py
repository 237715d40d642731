"""Cached per-node results for pods with equal needs, recomputed only for nodes that change.

`total` holds for every row the weighted scores of the plug-ins whose scope is a single node, or REFUSED where one of
them rejects the node. Plug-ins with Scope.CLUSTER run for every pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sampan.scheduler.cache.arrays import Flags, Ints, Rows, count_of
from sampan.scheduler.framework.contract import Code, CycleState, PluginScope, PreFilterResult, Status

INFEASIBLE = -(1 << 40)


class Scorer(NamedTuple):
    plugin: Any
    weight: int


class SignatureCache:
    def __init__(self, cycle: CycleState, filters: Sequence[Any], scorers: Sequence[Scorer]) -> None:
        self.node_names: frozenset[str] | None = None
        """The only nodes to consider; None for all nodes."""
        self.restricting: set[str] = set()
        """The plug-ins that restricted the nodes."""
        self.rejection: Status | None = None
        """The PreFilter status that rejects such pods on every node."""
        self.skipped: set[str] = set()
        """Filter plug-ins that skip such pods."""
        for plugin in filters:
            if plugin.scope is not PluginScope.CLUSTER and hasattr(plugin, "pre_filter"):
                self._apply_pre_filter(plugin, plugin.pre_filter(cycle))
        local = [
            candidate
            for candidate in filters
            if candidate.scope is not PluginScope.CLUSTER and candidate.name not in self.skipped
        ]
        self._node_filters = [candidate for candidate in local if candidate.scope is PluginScope.NODE]
        self._pod_filters = [candidate for candidate in local if candidate.scope is PluginScope.PODS]
        local_scorers = [
            candidate
            for candidate in scorers
            if candidate.plugin.scope is not PluginScope.CLUSTER and _is_scoring(candidate, cycle)
        ]
        plain = [candidate for candidate in local_scorers if not hasattr(candidate.plugin, "normalize")]
        self._node_scorers = [candidate for candidate in plain if candidate.plugin.scope is PluginScope.NODE]
        self._pod_scorers = [candidate for candidate in plain if candidate.plugin.scope is PluginScope.PODS]
        self._relative = [candidate for candidate in local_scorers if hasattr(candidate.plugin, "normalize")]
        self._size = -1
        self._node_at = self._pod_at = 0

    def _apply_pre_filter(self, plugin: Any, result: Status | PreFilterResult | None) -> None:
        if isinstance(result, PreFilterResult):
            self.node_names = result.names if self.node_names is None else self.node_names & result.names
            self.restricting.add(plugin.name)
        elif result is not None and result.code is Code.SKIP:
            self.skipped.add(plugin.name)
        elif result is not None:
            self.rejection = self.rejection or Status(result.code, result.reasons, plugin.name)

    # -- over all nodes, cached --------------------------------------------------------------------------------------

    def refresh(self, cycle: CycleState) -> None:
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
        self._node_part: Ints = np.full(size, INFEASIBLE, dtype=np.int64)
        self.total: Ints = np.full(size, INFEASIBLE, dtype=np.int64)
        self.raw: list[Ints] = [np.zeros(size, dtype=np.int64) for _ in self._relative]

    def _compute(self, cycle: CycleState, rows: Rows, *, with_nodes: bool) -> None:
        if with_nodes:
            ok = cycle.table.valid[rows].copy()
            _filter(cycle, self._node_filters, rows, ok)
            self._node_part[rows] = np.where(ok, _score(cycle, self._node_scorers, rows), INFEASIBLE)
            for scorer, raw in zip(self._relative, self.raw, strict=True):
                raw[rows] = scorer.plugin.score(cycle, rows)
            self.relative = self._differing(cycle)
        ok = np.ones(count_of(rows), dtype=np.bool_)
        _filter(cycle, self._pod_filters, rows, ok)
        self.total[rows] = np.where(ok, self._node_part[rows] + _score(cycle, self._pod_scorers, rows), INFEASIBLE)

    def _differing(self, cycle: CycleState) -> list[tuple[Scorer, Ints]]:
        """Return the normalizing scorers whose scores differ between nodes; equal scores do not affect the choice."""
        valid = cycle.table.valid[cycle.table.every_row]
        differing = []
        for scorer, raw in zip(self._relative, self.raw, strict=True):
            scores = raw[: len(valid)][valid]
            if len(scores) and scores.min() != scores.max():
                differing.append((scorer, raw))
        return differing

    # -- over some nodes, not cached ---------------------------------------------------------------------------------

    def totals(self, cycle: CycleState, rows: Rows) -> Ints:
        """Return the summed scores of feasible rows."""
        return _score(cycle, [*self._node_scorers, *self._pod_scorers], rows)

    def relatives(self, cycle: CycleState, rows: Rows) -> list[tuple[Scorer, Ints]]:
        return [(scorer, scorer.plugin.score(cycle, rows)) for scorer in self._relative]


def _is_scoring(scorer: Scorer, cycle: CycleState) -> bool:
    if not hasattr(scorer.plugin, "pre_score"):
        return True
    status = scorer.plugin.pre_score(cycle, cycle.table.every_row)
    return status is None or status.code is not Code.SKIP


def _filter(cycle: CycleState, filters: Sequence[Any], rows: Rows, ok: Flags) -> None:
    for plugin in filters:
        ok &= plugin.filter(cycle, rows) == 0


def _score(cycle: CycleState, scorers: Sequence[Scorer], rows: Rows) -> Ints:
    total = np.zeros(count_of(rows), dtype=np.int64)
    for plugin, weight in scorers:
        total += weight * plugin.score(cycle, rows)
    return total
