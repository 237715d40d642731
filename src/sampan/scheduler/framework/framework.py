"""The framework of one profile: its plugins in their order, and how they select a node for a pod."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sampan.scheduler.cache.arrays import Codes, Flags, Ints, Rows, count_of
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.pod_signature import PodSignature
from sampan.scheduler.framework.binding_points import BindingPoints
from sampan.scheduler.framework.contract import (
    Code,
    CycleState,
    PluginScope,
    PodGroupAttempt,
    PostFilterResult,
    PreFilterResult,
    ScheduleResult,
    Status,
)
from sampan.scheduler.framework.diagnosis import Diagnosis, RejectionTable
from sampan.scheduler.framework.extension_points import (
    ExtensionPoints,
    FilterPlugin,
    PodGroupPlugin,
    PostFilterPlugin,
    PreFilterPlugin,
    PreparePlugin,
    SchedulerPlugin,
    SignatureCondition,
)
from sampan.scheduler.framework.metrics import PointMetrics, sampled_methods
from sampan.scheduler.framework.plugin_failure import PluginFailure, find_plugin_failure
from sampan.scheduler.framework.signature_cache import INFEASIBLE, LocalFilter, Scorer, SignatureCache

_MAX_SIGNATURES = 1024

NominatedPods = Sequence[tuple[int, Sequence[PodInfo]]]
"""Nominated pods by row: they are not on the node yet, but its resources are kept for them."""


class RoundRobin:
    """Picks the next row after the last one picked, in the order of rows."""

    def __init__(self) -> None:
        self._last = -1

    def pick(self, rows: NDArray[np.intp]) -> int:
        index = int(np.searchsorted(rows, self._last, side="right"))
        self._last = int(rows[index] if index < len(rows) else rows[0])
        return self._last


class SeededRandom:
    """Picks at random, reproducibly for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, rows: NDArray[np.intp]) -> int:
        return int(rows[self._random.randrange(len(rows))])


TieBreaker = RoundRobin | SeededRandom


class Framework:
    """The plugins of one profile, which select a node for a pod (compare `frameworkImpl` in `framework/runtime`)."""

    def __init__(
        self,
        *,
        name: str,
        table: NodeTable,
        points: ExtensionPoints,
        weights: dict[str, int],
        tie_breaker: TieBreaker,
        metrics: PointMetrics,
    ) -> None:
        self.name, self.table, self.points, self.weights = name, table, points, weights
        self.rejections = RejectionTable()
        self.tie_breaker, self.metrics = tie_breaker, metrics
        self.plugins: Sequence[SchedulerPlugin] = points.plugins()
        self.binding_points = BindingPoints(points, metrics)
        """Runs the extension points from Reserve on."""
        scorers = [Scorer.from_plugin(plugin, weights.get(plugin.name) or 1) for plugin in points.score]
        self._local_filters = [
            LocalFilter(plugin, plugin if isinstance(plugin, PreFilterPlugin) else None)
            for plugin in points.filter
            if plugin.scope is not PluginScope.CLUSTER
        ]
        self._local_scorers = [scorer for scorer in scorers if scorer.plugin.scope is not PluginScope.CLUSTER]
        self._cluster_filters = [plugin for plugin in points.filter if plugin.scope is PluginScope.CLUSTER]
        self._cluster_pre_filters = [plugin for plugin in points.pre_filter if plugin.scope is PluginScope.CLUSTER]
        self._cluster_scorers = [scorer for scorer in scorers if scorer.plugin.scope is PluginScope.CLUSTER]
        self._prepare = [plugin for plugin in self.plugins if isinstance(plugin, PreparePlugin)]
        self._pod_groups = [plugin for plugin in self.plugins if isinstance(plugin, PodGroupPlugin)]
        self._conditions = [plugin for plugin in self.plugins if isinstance(plugin, SignatureCondition)]
        self._sampled = sampled_methods(points)
        self._signature_caches: OrderedDict[PodSignature, SignatureCache] = OrderedDict()

    def find_failure(self, error: Exception) -> PluginFailure | None:
        """Return the failure of the plugin that raised the exception, or None if no plugin did."""
        names = {id(plugin): plugin.name for plugin in self.plugins}
        return find_plugin_failure(error, lambda value: names.get(id(value), ""))

    def describe_failure(self, error: Exception) -> str:
        """Return the message of an exception, with the plugin, the file and the line if a plugin raised it."""
        return str(self.find_failure(error) or error) or type(error).__name__

    def cycle(self, info: PodInfo, now: float) -> CycleState:
        return CycleState(info=info, table=self.table, rejections=self.rejections, filters=self, now=now)

    def pre_enqueue(self, info: PodInfo) -> Status | None:
        """Return why PreEnqueue keeps the pod out of the queue, or None if it may enter."""
        for plugin in self.points.pre_enqueue:
            status = plugin.pre_enqueue(info)
            if status is not None:
                return Status(status.code, status.reasons, plugin.name)
        return None

    def pod_group(self, info: PodInfo) -> PodGroupAttempt | None:
        for plugin in self._pod_groups:
            group = plugin.pod_group(info)
            if group is not None:
                return group
        return None

    async def prepare(self, cycle: CycleState) -> None:
        """Run the long-running preparations of plugins, to be awaited before `select_node`."""
        for plugin in self._prepare:
            work = plugin.prepare(cycle)
            if work is not None:
                await work

    # -- node selection ----------------------------------------------------------------------------------------------

    def select_node(self, cycle: CycleState, nominated: NominatedPods = ()) -> ScheduleResult:
        if not self.metrics.start_cycle():
            return self._select_node(cycle, nominated)
        with self.metrics.measure_methods(self._sampled):
            return self._select_node(cycle, nominated)

    def _select_node(self, cycle: CycleState, nominated: NominatedPods) -> ScheduleResult:
        cached = self._signature_cache(cycle)
        rejection, node_names, skipped = self._pre_filter(cycle, cached)
        if rejection is not None:
            return ScheduleResult(diagnosis=self._diagnose_pre_filter(rejection))
        if node_names is not None:
            return self._select_from(cycle, cached, node_names, nominated)
        cached.refresh(cycle)
        cluster_filters = [plugin for plugin in self._cluster_filters if plugin.name not in skipped]
        if not cluster_filters and not nominated and not cached.relative:
            scorers = self._active_scorers(cycle, self.table.every_row)
            if not scorers:
                return self._select_from_totals(cycle, cached)
        return self._select_from_all(cycle, cached, cluster_filters, nominated)

    def _select_from_totals(self, cycle: CycleState, cached: SignatureCache) -> ScheduleResult:
        """Select a node from the cached totals alone."""
        total = cached.total[: self.table.used]
        best = int(total.max()) if len(total) else INFEASIBLE
        if best < 0:
            return ScheduleResult(diagnosis=self.diagnose(cycle))
        rows = np.flatnonzero(total == best)
        return ScheduleResult(self.tie_breaker.pick(rows), len(rows), best)

    def _select_from_all(
        self,
        cycle: CycleState,
        cached: SignatureCache,
        cluster_filters: Sequence[FilterPlugin],
        nominated: NominatedPods,
    ) -> ScheduleResult:
        every = self.table.every_row
        total = cached.total[every]
        ok = total >= 0
        for plugin in cluster_filters:
            ok &= plugin.filter(cycle, every) == 0
        self._filter_with_nominated(cycle, ok, nominated)
        rows = np.flatnonzero(ok)
        if not len(rows):
            return ScheduleResult(diagnosis=self.diagnose(cycle, nominated=nominated))
        if len(rows) == 1:
            return ScheduleResult(int(rows[0]), 1)
        return self._best(cycle, rows, total[rows], [(scorer, raw[rows]) for scorer, raw in cached.relative])

    def _select_from(
        self,
        cycle: CycleState,
        cached: SignatureCache,
        names: frozenset[str],
        nominated: NominatedPods,
    ) -> ScheduleResult:
        rows = self._feasible_rows(cycle, self.table.rows_of(names), nominated)
        if not len(rows):
            return ScheduleResult(diagnosis=self.diagnose(cycle, names=names, nominated=nominated))
        return self._best(cycle, rows, cached.totals(cycle, rows), cached.compute_relative_scores(cycle, rows))

    def _feasible_rows(self, cycle: CycleState, rows: NDArray[np.intp], nominated: NominatedPods) -> NDArray[np.intp]:
        ok = self.codes(cycle, rows) == 0
        pods_by_row = dict(nominated)
        for index, row in enumerate(rows):
            if ok[index] and int(row) in pods_by_row:
                ok[index] = self.fits_with(cycle, int(row), pods_by_row[int(row)])
        feasible: NDArray[np.intp] = rows[ok]
        return feasible

    def feasible(self, cycle: CycleState, nominated: NominatedPods = ()) -> tuple[NDArray[np.intp], Diagnosis | None]:
        """Return the feasible rows, or the diagnosis if there are none; extenders run between this and `best`."""
        rejection, node_names, _ = self._pre_filter(cycle, self._signature_cache(cycle))
        if rejection is not None:
            return np.zeros(0, dtype=np.intp), self._diagnose_pre_filter(rejection)
        rows = (
            np.flatnonzero(self.table.valid[self.table.every_row])
            if node_names is None
            else self.table.rows_of(node_names)
        )
        rows = self._feasible_rows(cycle, rows, nominated)
        return rows, None if len(rows) else self.diagnose(cycle, names=node_names, nominated=nominated)

    def best(self, cycle: CycleState, rows: NDArray[np.intp], extra: Ints) -> ScheduleResult:
        """Select the best of the feasible rows, with `extra` added to their scores."""
        cached = self._signature_cache(cycle)
        return self._best(cycle, rows, cached.totals(cycle, rows) + extra, cached.compute_relative_scores(cycle, rows))

    def _best(
        self, cycle: CycleState, rows: NDArray[np.intp], total: Ints, relative: Sequence[tuple[Scorer, Ints]]
    ) -> ScheduleResult:
        for scorer, raw in relative:
            total = total + scorer.weight * (
                raw if scorer.normalizer is None else scorer.normalizer.normalize(cycle, raw)
            )
        for scorer in self._active_scorers(cycle, rows):
            scores = scorer.plugin.score(cycle, rows)
            if scorer.normalizer is not None:
                scores = scorer.normalizer.normalize(cycle, scores)
            total = total + scorer.weight * scores
        best = int(total.max())
        return ScheduleResult(self.tie_breaker.pick(rows[total == best]), len(rows), best)

    def _active_scorers(self, cycle: CycleState, rows: Rows) -> list[Scorer]:
        return [scorer for scorer in self._cluster_scorers if not scorer.is_skipped(cycle, rows)]

    def _filter_with_nominated(self, cycle: CycleState, ok: Flags, nominated: NominatedPods) -> None:
        for row, pods in nominated:
            if ok[row]:
                ok[row] = self.fits_with(cycle, row, pods)

    def fits_with_nominated(self, cycle: CycleState, row: int, nominated: NominatedPods) -> bool:
        """Whether the pod fits the node now, and still does with the pods that are nominated to it."""
        return self.fits(cycle, row) and all(
            self.fits_with(cycle, node_row, pods) for node_row, pods in nominated if node_row == row
        )

    def fits_with(self, cycle: CycleState, row: int, pods: Sequence[PodInfo]) -> bool:
        """Whether the pod fits the node with these pods on it."""
        return not self._code_with(cycle, row, pods)

    def fits(self, cycle: CycleState, row: int) -> bool:
        return not self.codes(cycle, np.array([row], dtype=np.intp), again=True)[0]

    # -- filters in their order --------------------------------------------------------------------------------------

    def codes(self, cycle: CycleState, rows: Rows, *, again: bool = False) -> Codes:
        """Return, for each row, the code of the first plugin that rejects it.

        `again` is set if the table changed since the cycle started, so that PreFilter has to run again.
        """
        cached = self._signature_cache(cycle)
        skipped: set[str] = cycle.memo.get(_SKIPPED, cached.skipped)
        if again:
            rejection, _, skipped = self._pre_filter(cycle, cached)
            if rejection is not None:
                return np.full(count_of(rows), self._code_of(rejection), dtype=np.int32)
        codes = np.zeros(count_of(rows), dtype=np.int32)
        for plugin in self.points.filter:
            if plugin.name not in skipped:
                codes = np.where(codes == 0, plugin.filter(cycle, rows), codes)
                if codes.all():
                    break
        return codes

    def diagnose(
        self,
        cycle: CycleState,
        *,
        names: frozenset[str] | None = None,
        nominated: NominatedPods = (),
    ) -> Diagnosis:
        """Return why each node does not fit."""
        table = self.table
        codes = self.codes(cycle, table.every_row)
        valid = table.valid[table.every_row]
        codes[~valid] = 0
        if names is not None:
            outside = valid.copy()
            outside[self.table.rows_of(names)] = False
            plugins = sorted(cycle.memo.get(_RESTRICTING, ()))
            codes[outside] = self.rejections.code(
                plugins[0] if plugins else "", f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}]", is_final=True
            )
        for row, pods in nominated:
            if codes[row] == 0 and valid[row]:
                codes[row] = self._code_with(cycle, row, pods)
        diagnosis = Diagnosis(count=table.count, codes=codes, rejections=self.rejections)
        diagnosis.plugins = {rejection.plugin for rejection, _ in diagnosis.count_rejections()}
        return diagnosis

    def _code_with(self, cycle: CycleState, row: int, pods: Sequence[PodInfo]) -> int:
        node = self.table.names[row]
        for info in pods:
            self.table.add_pod(info, node)
        try:
            return int(self.codes(cycle, np.array([row], dtype=np.intp), again=True)[0])
        finally:
            for info in pods:
                self.table.remove_pod(info.uid, node)

    def _diagnose_pre_filter(self, status: Status) -> Diagnosis:
        table = self.table
        codes = np.where(table.valid[table.every_row], self._code_of(status), 0).astype(np.int32)
        return Diagnosis(
            count=table.count,
            codes=codes,
            rejections=self.rejections,
            pre_filter=status.message,
            plugins={status.plugin},
        )

    def _code_of(self, status: Status) -> int:
        return self.rejections.code(status.plugin, *status.reasons, is_final=status.code is Code.UNRESOLVABLE)

    # -- PreFilter ---------------------------------------------------------------------------------------------------

    def _signature_cache(self, cycle: CycleState) -> SignatureCache:
        cached = self._signature_caches.get(cycle.signature)
        if cached is None:
            cached = self._signature_caches[cycle.signature] = SignatureCache(
                cycle, self._local_filters, self._local_scorers, self._conditions
            )
            if len(self._signature_caches) > _MAX_SIGNATURES:
                self._signature_caches.popitem(last=False)
        else:
            self._signature_caches.move_to_end(cycle.signature)
        cycle.inapplicable = cached.inapplicable
        return cached

    def _pre_filter(
        self, cycle: CycleState, cached: SignatureCache
    ) -> tuple[Status | None, frozenset[str] | None, set[str]]:
        """Run the PreFilter plugins. Return the rejection or None, the names of the only nodes to consider or None for
        all nodes, and the names of the filters to skip."""
        skipped, node_names = cached.skipped, cached.node_names
        restricting = set(cached.restricting)
        if cached.rejection is not None:
            return cached.rejection, None, skipped
        for plugin in self._cluster_pre_filters:
            if plugin.name in cached.inapplicable:
                continue
            result = plugin.pre_filter(cycle)
            if result is None:
                continue
            if isinstance(result, PreFilterResult):
                node_names = result.names if node_names is None else node_names & result.names
                restricting.add(plugin.name)
            elif result.code is Code.SKIP:
                skipped = skipped | {plugin.name}
            else:
                return replace(result, plugin=plugin.name), None, skipped
        cycle.memo[_SKIPPED], cycle.memo[_RESTRICTING] = skipped, restricting
        return None, node_names, skipped

    # -- PostFilter --------------------------------------------------------------------------------------------------

    async def post_filter(
        self, cycle: CycleState, diagnosis: Diagnosis, *, is_for_group: bool = False
    ) -> PostFilterResult:
        """Return the result of the first plugin that succeeds, otherwise the messages of all of them."""
        point = "PodGroupPostFilter" if is_for_group else "PostFilter"
        plugins = self.points.pod_group_post_filter if is_for_group else self.points.post_filter
        with self.metrics.point(point) as outcome:
            result = await self._post_filter(cycle, diagnosis, point, plugins)
            outcome.code = Code.SUCCESS if result.is_success else Code.UNSCHEDULABLE
        return result

    async def _post_filter(
        self, cycle: CycleState, diagnosis: Diagnosis, point: str, plugins: Sequence[PostFilterPlugin]
    ) -> PostFilterResult:
        nominated: str | None = None
        messages: list[str] = []
        for plugin in plugins:
            with self.metrics.plugin(point, plugin.name) as outcome:
                result = await plugin.post_filter(cycle, diagnosis)
                outcome.code = Code.SUCCESS if result.is_success else Code.UNSCHEDULABLE
            if result.is_success:
                return result
            messages += [result.message] if result.message else []
            nominated = nominated if result.nominated is None else result.nominated
        return PostFilterResult(nominated=nominated, message=", ".join(messages))


_SKIPPED, _RESTRICTING = "framework/skipped", "framework/narrowing"
