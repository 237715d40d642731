"""Cached per-node results for pods with equal signatures, recomputed only for nodes that change.

`total` holds for every row the weighted scores of the plugins whose scope is a single node, or INFEASIBLE where one of
them rejects the node. Plugins with PluginScope.CLUSTER run for every pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sampan.scheduler.cache.arrays import Flags, Ints, Rows, count_of
from sampan.scheduler.framework.contract import Code, CycleState, PluginScope, PreFilterResult, Status
from sampan.scheduler.framework.extension_points import (
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScoreExtensions,
    ScorePlugin,
    SignatureCondition,
)

INFEASIBLE = -(1 << 40)


class LocalFilter(NamedTuple):
    """A Filter plugin whose results depend on one node only, and its PreFilter."""

    plugin: FilterPlugin
    pre_filter: PreFilterPlugin | None


class Scorer(NamedTuple):
    """A Score plugin with its weight and the optional extension points of scoring that it implements."""

    plugin: ScorePlugin
    weight: int
    pre_score: PreScorePlugin | None
    normalizer: ScoreExtensions | None

    @classmethod
    def from_plugin(cls, plugin: ScorePlugin, weight: int) -> Scorer:
        return cls(
            plugin,
            weight,
            plugin if isinstance(plugin, PreScorePlugin) else None,
            plugin if isinstance(plugin, ScoreExtensions) else None,
        )

    def is_skipped(self, cycle: CycleState, rows: Rows) -> bool:
        """Run PreScore and return whether it omits the plugin for this pod."""
        status = None if self.pre_score is None else self.pre_score.pre_score(cycle, rows)
        return status is not None and status.code is Code.SKIP


class SignatureCache:
    def __init__(
        self,
        cycle: CycleState,
        filters: Sequence[LocalFilter],
        scorers: Sequence[Scorer],
        conditions: Sequence[SignatureCondition],
    ) -> None:
        """Run PreFilter and PreScore of `filters` and `scorers`, none of which has PluginScope.CLUSTER."""
        self.inapplicable = frozenset(plugin.name for plugin in conditions if not plugin.applies_to(cycle.signature))
        """The plugins that have nothing to do for such pods."""
        self.node_names: frozenset[str] | None = None
        """The only nodes to consider; None for all nodes."""
        self.restricting: set[str] = set()
        """The plugins that restricted the nodes."""
        self.rejection: Status | None = None
        """The PreFilter status that rejects such pods on every node."""
        self.skipped: set[str] = set(self.inapplicable)
        """Filter plugins that skip such pods."""
        for _, pre_filter in filters:
            if pre_filter is not None and pre_filter.name not in self.inapplicable:
                self._apply_pre_filter(pre_filter.name, pre_filter.pre_filter(cycle))
        active = [entry.plugin for entry in filters if entry.plugin.name not in self.skipped]
        self._node_filters = [plugin for plugin in active if plugin.scope is PluginScope.NODE]
        self._pod_filters = [plugin for plugin in active if plugin.scope is PluginScope.PODS]
        scorers = [scorer for scorer in scorers if not scorer.is_skipped(cycle, cycle.table.every_row)]
        plain = [scorer for scorer in scorers if scorer.normalizer is None]
        self._node_scorers = [scorer for scorer in plain if scorer.plugin.scope is PluginScope.NODE]
        self._pod_scorers = [scorer for scorer in plain if scorer.plugin.scope is PluginScope.PODS]
        self._normalized = [scorer for scorer in scorers if scorer.normalizer is not None]
        self._size = -1
        self._node_at = self._pod_at = 0

    def _apply_pre_filter(self, plugin: str, result: Status | PreFilterResult | None) -> None:
        if isinstance(result, PreFilterResult):
            self.node_names = result.names if self.node_names is None else self.node_names & result.names
            self.restricting.add(plugin)
        elif result is not None and result.code is Code.SKIP:
            self.skipped.add(plugin)
        elif result is not None:
            self.rejection = self.rejection or Status(result.code, result.reasons, plugin)

    # -- over all nodes, cached --------------------------------------------------------------------------------------

    def refresh(self, cycle: CycleState) -> None:
        """Recompute the cached results of the nodes that changed."""
        table = cycle.table
        nodes, pods = table.node_log.list_changes_since(self._node_at), table.pod_log.list_changes_since(self._pod_at)
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
        self.raw: list[Ints] = [np.zeros(size, dtype=np.int64) for _ in self._normalized]

    def _compute(self, cycle: CycleState, rows: Rows, *, with_nodes: bool) -> None:
        if with_nodes:
            ok = cycle.table.valid[rows].copy()
            _filter(cycle, self._node_filters, rows, ok)
            self._node_part[rows] = np.where(ok, _score(cycle, self._node_scorers, rows), INFEASIBLE)
            for scorer, raw in zip(self._normalized, self.raw, strict=True):
                raw[rows] = scorer.plugin.score(cycle, rows)
            self.relative = self._find_differing_scorers(cycle)
        ok = np.ones(count_of(rows), dtype=np.bool_)
        _filter(cycle, self._pod_filters, rows, ok)
        self.total[rows] = np.where(ok, self._node_part[rows] + _score(cycle, self._pod_scorers, rows), INFEASIBLE)

    def _find_differing_scorers(self, cycle: CycleState) -> list[tuple[Scorer, Ints]]:
        """Return the normalizing scorers whose scores differ between nodes; equal scores do not affect the choice."""
        valid = cycle.table.valid[cycle.table.every_row]
        differing = []
        for scorer, raw in zip(self._normalized, self.raw, strict=True):
            scores = raw[: len(valid)][valid]
            if len(scores) and scores.min() != scores.max():
                differing.append((scorer, raw))
        return differing

    # -- over some nodes, not cached ---------------------------------------------------------------------------------

    def totals(self, cycle: CycleState, rows: Rows) -> Ints:
        """Return the summed scores of the nodes in these rows of the node table."""
        return _score(cycle, [*self._node_scorers, *self._pod_scorers], rows)

    def compute_relative_scores(self, cycle: CycleState, rows: Rows) -> list[tuple[Scorer, Ints]]:
        return [(scorer, scorer.plugin.score(cycle, rows)) for scorer in self._normalized]


def _filter(cycle: CycleState, filters: Sequence[FilterPlugin], rows: Rows, ok: Flags) -> None:
    for plugin in filters:
        ok &= plugin.filter(cycle, rows) == 0


def _score(cycle: CycleState, scorers: Sequence[Scorer], rows: Rows) -> Ints:
    total = np.zeros(count_of(rows), dtype=np.int64)
    for scorer in scorers:
        total += scorer.weight * scorer.plugin.score(cycle, rows)
    return total
