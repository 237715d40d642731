"""The selection of a node for one pod, with nominated pods and extenders (`schedulePod` in `schedule_one.go`)."""

from __future__ import annotations

import time

from sampan.machinery.activity import Activity
from sampan.machinery.clock import Clock
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.nominator import Nominator
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.extenders.extender_chain import ExtenderChain
from sampan.scheduler.framework.contract import CycleState
from sampan.scheduler.framework.framework import Framework, ScheduleResult
from sampan.scheduler.metrics import SchedulerMetrics


class ScheduleAlgorithm:
    def __init__(
        self,
        *,
        table: NodeTable,
        nominator: Nominator,
        extenders: ExtenderChain,
        metrics: SchedulerMetrics,
        clock: Clock,
        activity: Activity,
    ) -> None:
        self._table, self._nominator, self._extenders = table, nominator, extenders
        self._metrics, self._clock, self._activity = metrics, clock, activity

    def new_cycle(self, framework: Framework, info: PodInfo) -> CycleState:
        return framework.cycle(info, self._clock.now())

    async def schedule(self, framework: Framework, cycle: CycleState) -> ScheduleResult:
        """Return the nominated node of the pod if it still fits, otherwise the best node."""
        began = time.perf_counter()
        result = await self._select_node(framework, cycle)
        self._metrics.algorithm_finished(time.perf_counter() - began)
        return result

    async def _select_node(self, framework: Framework, cycle: CycleState) -> ScheduleResult:
        with self._activity:
            await framework.prepare(cycle)
        rows = self._table.rows
        nominated = self._nominator.of_higher_priority(cycle.info, rows) if self._nominator.by_node else []
        cycle.memo["nominated"] = nominated
        node = self._nominator.node_of(cycle.info.uid)
        row = rows.get(node, -1) if node else -1
        fits = row >= 0 and framework.fits_with_nominated(cycle, row, nominated)
        if self._extenders.extenders and self._extenders.is_interested(cycle.pod):
            if fits and await self._extenders.accepts(cycle, row) and rows.get(node) == row:
                return ScheduleResult(row, 1)
            return await self._extenders.select_node(framework, cycle, nominated)
        return ScheduleResult(row, 1) if fits else framework.select_node(cycle, nominated)
