"""The scheduling cycle of one pod: it gets a node and its binding starts, or its failure is published.

The counterpart is `ScheduleOne` in `pkg/scheduler/schedule_one.go`.
"""

from __future__ import annotations

import logging
import time

from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cycle.binder import Binder
from sampan.scheduler.cycle.decision_recorder import DecisionRecorder
from sampan.scheduler.cycle.failure_handler import FailureHandler
from sampan.scheduler.cycle.pod_group_cycle import PodGroupCycle
from sampan.scheduler.cycle.schedule_algorithm import ScheduleAlgorithm
from sampan.scheduler.extenders.http_extender import ExtenderError
from sampan.scheduler.plugins.registry import Profiles
from sampan.scheduler.queue.queued_pod import QueuedPodInfo
from sampan.scheduler.queue.scheduling_queue import SchedulingQueue

log = logging.getLogger(__name__)


class SchedulingCycle:
    def __init__(
        self,
        *,
        profiles: Profiles,
        algorithm: ScheduleAlgorithm,
        group_cycle: PodGroupCycle,
        table: NodeTable,
        queue: SchedulingQueue,
        binder: Binder,
        failures: FailureHandler,
        decisions: DecisionRecorder,
    ) -> None:
        self._profiles, self._algorithm, self._group_cycle, self._table = profiles, algorithm, group_cycle, table
        self._queue, self._binder, self._failures, self._decisions = queue, binder, failures, decisions

    async def run(self, queued: QueuedPodInfo) -> None:
        """Schedule the pod, and with it the other pods of its group; an error requeues it."""
        try:
            await self._schedule(queued)
        except ExtenderError as error:
            self._failures.handle_error(queued, str(error))
        except Exception as exception:
            log.exception("scheduling of pod %s failed unexpectedly", queued.info.full_name)
            self._failures.handle_error(queued, str(exception) or type(exception).__name__)

    async def _schedule(self, queued: QueuedPodInfo) -> None:
        info = queued.info
        queued.began = time.perf_counter()
        if info.pod.metadata.deletionTimestamp is not None:
            self._queue.remove(info.uid)
            self._decisions.skipped(info)
            return
        framework = self._profiles.framework_for(info)
        if (group := framework.pod_group(info)) is not None:
            await self._group_cycle.run(framework, group, queued)
            return
        cycle = self._algorithm.new_cycle(framework, info)
        result = await self._algorithm.schedule(framework, cycle)
        if result.diagnosis is not None:
            await self._failures.handle_unschedulable(queued, framework, cycle, result.diagnosis)
            return
        node = self._table.names[result.row]
        self._decisions.node_selected(queued, result, node)
        if (status := self._binder.reserve(framework, cycle, node)) is not None:
            self._failures.handle_rejected(queued, status)
            return
        await self._binder.start_binding(queued, framework, cycle, node)
