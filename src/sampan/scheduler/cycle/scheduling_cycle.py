"""The scheduling cycle of one pod, which ends with the start of its binding or with the publication of its failure.

The counterparts are `ScheduleOne` and `schedulePod` in `pkg/scheduler/schedule_one.go`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from sampan.host.activity import Activity
from sampan.host.clock import Clock
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import DEFAULT_SCHEDULER, PodInfo
from sampan.scheduler.cache.scheduler_cache import Nominator
from sampan.scheduler.cycle.binding_cycle import BindingCycle
from sampan.scheduler.cycle.decision_recorder import DecisionRecorder
from sampan.scheduler.cycle.failure_handler import FailureHandler
from sampan.scheduler.extenders.extender_chain import ExtenderChain
from sampan.scheduler.extenders.http_extender import ExtenderError
from sampan.scheduler.framework.cluster_event import ClusterEvent, QueueingHint
from sampan.scheduler.framework.contract import CycleState, PodGroupAttempt, ScheduleResult, Status
from sampan.scheduler.framework.extension_points import (
    EnqueueExtensions,
    FilterPlugin,
    PermitPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    QueueSortPlugin,
    ReservePlugin,
    SchedulerPlugin,
)
from sampan.scheduler.framework.framework import Framework
from sampan.scheduler.metrics import SchedulerMetrics
from sampan.scheduler.scheduling_queue import QueuedPodInfo, SchedulingQueue


class Profiles:
    """The frameworks of all profiles by scheduler name (compare `profile.Map`)."""

    def __init__(self, frameworks: Iterable[Framework]) -> None:
        self._frameworks = {framework.name: framework for framework in frameworks}

    @property
    def names(self) -> Collection[str]:
        return self._frameworks.keys()

    def get(self, scheduler_name: str) -> Framework | None:
        return self._frameworks.get(scheduler_name)

    def framework_for(self, info: PodInfo) -> Framework:
        return self._frameworks[info.pod.spec.schedulerName or DEFAULT_SCHEDULER]

    def pre_enqueue(self, info: PodInfo) -> Status | None:
        """Return why PreEnqueue keeps the pod out of the queue, or None if it may enter."""
        return self.framework_for(info).pre_enqueue(info)

    @property
    def queue_sort(self) -> QueueSortPlugin:
        """The plugin that sorts the queue, which is the same in all profiles."""
        return next(iter(self._frameworks.values())).points.queue_sort[0]

    def queueing_hints(self) -> dict[ClusterEvent, list[tuple[str, QueueingHint | None]]]:
        """Return the queueing hints of all plugins by event, each with the name of its plugin."""
        hints: dict[ClusterEvent, dict[str, QueueingHint | None]] = {}
        for plugin in self._plugins():
            if isinstance(plugin, EnqueueExtensions):
                for event, hint in plugin.events_to_register():
                    hints.setdefault(event, {})[plugin.name] = hint
        return {event: list(plugins.items()) for event, plugins in hints.items()}

    def plugins_without_hints(self) -> frozenset[str]:
        """Return the plugins that may reject a pod but have no queueing hints."""
        return frozenset(
            plugin.name
            for plugin in self._plugins()
            if not isinstance(plugin, EnqueueExtensions) and isinstance(plugin, _REJECTING)
        )

    def _plugins(self) -> Iterator[SchedulerPlugin]:
        return (plugin for framework in self._frameworks.values() for plugin in framework.plugins)


_REJECTING = (PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, ReservePlugin, PermitPlugin)


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

    def make_cycle_state(self, framework: Framework, info: PodInfo) -> CycleState:
        return framework.cycle(info, self._clock.now())

    async def schedule(self, framework: Framework, cycle: CycleState) -> ScheduleResult:
        """Return the nominated node of the pod if it still fits, otherwise the best node."""
        began = time.perf_counter()
        result = await self._select_node(framework, cycle)
        self._metrics.record_algorithm_time(time.perf_counter() - began)
        return result

    async def _select_node(self, framework: Framework, cycle: CycleState) -> ScheduleResult:
        with self._activity:
            await framework.prepare(cycle)
        rows = self._table.rows
        nominated = self._nominator.list_higher_priority_pods(cycle.info, rows) if self._nominator.by_node else []
        cycle.memo["nominated"] = nominated
        node = self._nominator.node_of(cycle.info.uid)
        row = rows.get(node, -1) if node else -1
        fits = row >= 0 and framework.fits_with_nominated(cycle, row, nominated)
        if self._extenders.extenders and self._extenders.is_interested(cycle.pod):
            if fits and await self._extenders.accepts(cycle, row) and rows.get(node) == row:
                return ScheduleResult(row, 1)
            return await self._extenders.select_node(framework, cycle, nominated)
        return ScheduleResult(row, 1) if fits else framework.select_node(cycle, nominated)


log = logging.getLogger(__name__)


class GroupCycle(Protocol):
    """Schedules the pods of a group in one attempt."""

    async def run(self, framework: Framework, group: PodGroupAttempt, first: QueuedPodInfo) -> None: ...


class SchedulingCycle:
    def __init__(
        self,
        *,
        profiles: Profiles,
        algorithm: ScheduleAlgorithm,
        group_cycle: GroupCycle,
        table: NodeTable,
        queue: SchedulingQueue,
        binding_cycle: BindingCycle,
        failures: FailureHandler,
        decisions: DecisionRecorder,
    ) -> None:
        self._profiles, self._algorithm, self._group_cycle, self._table = profiles, algorithm, group_cycle, table
        self._queue, self._binding_cycle, self._failures, self._decisions = queue, binding_cycle, failures, decisions

    async def run(self, queued: QueuedPodInfo) -> None:
        """Schedule the pod, and with it the other pods of its group; an error requeues it."""
        try:
            await self._schedule(queued)
        except ExtenderError as error:
            self._failures.handle_error(queued, str(error))
        except Exception as exception:
            log.exception("scheduling of pod %s failed unexpectedly", queued.info.full_name)
            framework = self._profiles.framework_for(queued.info)
            self._failures.handle_error(queued, framework.describe_failure(exception))

    async def _schedule(self, queued: QueuedPodInfo) -> None:
        info = queued.info
        queued.began = time.perf_counter()
        if info.pod.metadata.deletionTimestamp is not None:
            self._queue.remove(info.uid)
            self._decisions.record_skip(info)
            return
        framework = self._profiles.framework_for(info)
        if (group := framework.pod_group(info)) is not None:
            await self._group_cycle.run(framework, group, queued)
            return
        cycle = self._algorithm.make_cycle_state(framework, info)
        result = await self._algorithm.schedule(framework, cycle)
        if result.diagnosis is not None:
            await self._failures.handle_unschedulable(queued, framework, cycle, result.diagnosis)
            return
        node = self._table.names[result.row]
        self._decisions.record_selected_node(queued, result, node)
        if (status := self._binding_cycle.reserve(framework, cycle, node)) is not None:
            self._failures.handle_rejected(queued, status)
            return
        await self._binding_cycle.start_binding(queued, framework, cycle, node)
