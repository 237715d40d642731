"""One scheduling attempt for all pods of a group, for gang scheduling (compare `schedule_one_podgroup.go`).

The pods are assumed on their nodes one after the other and stay there if there are enough of them; otherwise all are
removed again before any binding starts. Before giving up, the cycle checks whether preemption for all pods without a
node together would suffice: no pod is evicted for a group that would still be incomplete.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.scheduler_cache import Nominator, SchedulerCache
from sampan.scheduler.cycle.binding_cycle import BindingCycle
from sampan.scheduler.cycle.decision_recorder import DecisionRecorder
from sampan.scheduler.cycle.failure_handler import FailureHandler, StartTask
from sampan.scheduler.cycle.scheduling_cycle import ScheduleAlgorithm
from sampan.scheduler.extenders.http_extender import ExtenderError
from sampan.scheduler.framework.contract import (
    Code,
    CycleState,
    PodGroupAttempt,
    PostFilterResult,
    ScheduleResult,
    Status,
)
from sampan.scheduler.framework.diagnosis import Diagnosis
from sampan.scheduler.framework.framework import Framework
from sampan.scheduler.scheduling_queue import QueuedPodInfo, SchedulingQueue

log = logging.getLogger(__name__)

UNSCHEDULABLE = "pod group is unschedulable"
NO_VICTIMS = "No preemption victims found for incoming preemptor"
_UNSCHEDULABLE_REASON, _ERROR_REASON = "Unschedulable", "SchedulerError"


class _ReservedPod(NamedTuple):
    queued: QueuedPodInfo
    cycle: CycleState
    result: ScheduleResult
    node: str


class _UnschedulablePod(NamedTuple):
    """A pod that fits no node, or whose node was rejected."""

    queued: QueuedPodInfo
    cycle: CycleState
    why: Diagnosis | Status

    @property
    def plugins(self) -> set[str]:
        return {self.why.plugin} if isinstance(self.why, Status) else set(self.why.plugins)


class _PreemptionPlan(NamedTuple):
    """A node for an unschedulable pod once its victims are evicted."""

    pod: _UnschedulablePod
    result: PostFilterResult
    node: str


@dataclass(slots=True)
class _PodGroupPlacement:
    framework: Framework
    group: PodGroupAttempt
    reserved: list[_ReservedPod] = field(default_factory=list)
    unschedulable: list[_UnschedulablePod] = field(default_factory=list)
    plans: list[_PreemptionPlan] = field(default_factory=list)
    shortage: str = ""
    """Why the group cannot become complete, as soon as too few pods remain."""
    late: set[str] = field(default_factory=set)
    """The UIDs of pods that were tried after that, only to find out whether preemption helps."""

    def note_progress(self, remaining: int) -> None:
        scheduled, min_count = self.group.count_scheduled(), self.group.min_count
        if not self.shortage and scheduled + remaining < min_count:
            self.shortage = describe_shortage(min_count, scheduled, remaining)


class PodGroupCycle:
    def __init__(
        self,
        *,
        algorithm: ScheduleAlgorithm,
        table: NodeTable,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        nominator: Nominator,
        binding_cycle: BindingCycle,
        failures: FailureHandler,
        decisions: DecisionRecorder,
        turn_s: float,
        start_task: StartTask,
    ) -> None:
        """Create the cycle. It yields to other tasks after `turn_s` seconds, and `start_task` starts a concurrent
        task."""
        self._algorithm, self._table, self._cache, self._queue = algorithm, table, cache, queue
        self._nominator, self._binding_cycle, self._failures, self._decisions = (
            nominator,
            binding_cycle,
            failures,
            decisions,
        )
        self._turn_s, self._start_task = turn_s, start_task

    async def run(self, framework: Framework, group: PodGroupAttempt, first: QueuedPodInfo) -> None:
        """Schedule the pod and the other pods of its group that are in the queue."""
        attempt = _PodGroupPlacement(framework, group)
        began = time.perf_counter()
        members = [first, *self._queue.pop_pods(group.uids)]
        if mismatch := group.find_mismatch([queued.info.pod for queued in members]):
            self._start_task(group.publish(_ERROR_REASON, mismatch))
            for queued in members:
                self._failures.handle_error(queued, mismatch)
            return
        attempt.note_progress(len(members))
        for index, queued in enumerate(members):
            if attempt.shortage:
                attempt.late.add(queued.uid)
            await self._try(attempt, queued)
            attempt.note_progress(len(members) - index - 1)
            if time.perf_counter() - began > self._turn_s:
                await asyncio.sleep(0)
                began = time.perf_counter()
        if attempt.unschedulable and not group.is_enough():
            await self._give_up(attempt)
        else:
            await self._bind(attempt)

    async def _try(self, attempt: _PodGroupPlacement, queued: QueuedPodInfo) -> None:
        """Reserve a node for the pod, or note why that is not possible."""
        queued.began = time.perf_counter()
        if queued.info.pod.metadata.deletionTimestamp is not None:
            self._queue.remove(queued.uid)
            return
        cycle = self._algorithm.make_cycle_state(attempt.framework, queued.info)
        try:
            result = await self._algorithm.schedule(attempt.framework, cycle)
        except Exception as error:  # an error for one pod must not leave the others stuck between queue and node
            is_unexpected = not isinstance(error, ExtenderError)
            log.warning("cannot schedule pod %s: %s", queued.info.full_name, error, exc_info=is_unexpected)
            status = Status(Code.ERROR, (attempt.framework.describe_failure(error),))
            attempt.unschedulable.append(_UnschedulablePod(queued, cycle, status))
            return
        if result.diagnosis is not None:
            attempt.unschedulable.append(_UnschedulablePod(queued, cycle, result.diagnosis))
            return
        node = self._table.names[result.row]
        rejection = self._binding_cycle.reserve(attempt.framework, cycle, node)
        if rejection is not None:
            attempt.unschedulable.append(_UnschedulablePod(queued, cycle, rejection))
        else:
            attempt.reserved.append(_ReservedPod(queued, cycle, result, node))

    async def _bind(self, attempt: _PodGroupPlacement) -> None:
        """Bind the reserved pods; the group is complete, or its missing pods are not in this queue."""
        if attempt.group.is_enough():
            self._start_task(attempt.group.publish("", ""))
        for queued, cycle, result, node in attempt.reserved:
            self._decisions.record_selected_node(queued, result, node)
            await self._binding_cycle.start_binding(queued, attempt.framework, cycle, node)
        for queued, cycle, why in attempt.unschedulable:
            if isinstance(why, Status):
                self._failures.handle_rejected(queued, why)
            else:
                await self._failures.handle_unschedulable(queued, attempt.framework, cycle, why)

    async def _give_up(self, attempt: _PodGroupPlacement) -> None:
        try:
            await self._plan_preemption(attempt)
            has_plan = attempt.group.is_enough()
            outcome = self._describe_preemption(attempt, has_plan)
        finally:
            self._rollback(attempt)
        message = f"{attempt.shortage}, pod group preemption: {outcome}"
        self._start_task(attempt.group.publish(_UNSCHEDULABLE_REASON, message))
        self._publish_failure(attempt, message, has_plan)

    def _describe_preemption(self, attempt: _PodGroupPlacement, has_plan: bool) -> str:
        if has_plan:
            victims = sum(len(plan.result.victims) for plan in attempt.plans)
            return f"found a placement for podgroup, preempting {victims} victims"
        cycle = attempt.unschedulable[0].cycle
        if cycle.pod.spec.preemptionPolicy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        priority = cycle.info.priority
        own = {reserved.queued.uid for reserved in attempt.reserved} | {plan.pod.queued.uid for plan in attempt.plans}
        if not attempt.plans and not any(
            info.priority < priority and info.uid not in own for pods in self._table.pods for info in pods.values()
        ):
            return NO_VICTIMS
        return describe_shortage(attempt.group.min_count, attempt.group.count_scheduled(), 0)

    # -- preemption --------------------------------------------------------------------------------------------------

    async def _plan_preemption(self, attempt: _PodGroupPlacement) -> None:
        """Plan preemption for unschedulable pods until the group would be complete."""
        for pod in attempt.unschedulable:
            if isinstance(pod.why, Status) or attempt.group.is_enough() or not pod.why.count:
                continue
            result = await self._failures.run_post_filter(attempt.framework, pod.cycle, pod.why, is_for_group=True)
            node = result.nominated
            if not node or not result.is_success or node not in self._table.rows:
                continue
            self._cache.remove_victims(result.victims, node)
            attempt.plans.append(_PreemptionPlan(pod, result, node))
            self._binding_cycle.reserve(attempt.framework, pod.cycle, node)

    def _rollback(self, attempt: _PodGroupPlacement) -> None:
        """Restore the node table and reservations to the state before the attempt."""
        binding_points = attempt.framework.binding_points
        for plan in reversed(attempt.plans):
            binding_points.unreserve(plan.pod.cycle, plan.node)
            self._cache.forget(plan.pod.queued.uid)
            self._cache.restore_victims(plan.result.victims, plan.node)
        for reserved in reversed(attempt.reserved):
            binding_points.unreserve(reserved.cycle, reserved.node)
            self._cache.forget(reserved.queued.uid)

    def _publish_failure(self, attempt: _PodGroupPlacement, message: str, has_plan: bool) -> None:
        """Publish the failure; pods that had a node wait for the same events as those that had none."""
        plugins = set[str]().union(*(pod.plugins for pod in attempt.unschedulable))
        plans = {plan.pod.queued.uid: plan.result for plan in attempt.plans} if has_plan else {}
        for queued, cycle, why in attempt.unschedulable:
            if isinstance(why, Status):
                self._failures.handle_rejected(queued, why)
            elif queued.uid in attempt.late and queued.uid not in plans:
                self._failures.handle_incomplete_group(queued, plugins, attempt.shortage)
            else:
                why.post_filter = ""
                result = plans.get(queued.uid, PostFilterResult(nominated=""))
                self._failures.publish_unschedulable(queued, cycle, why, result)
        for reserved in attempt.reserved:
            if has_plan:
                self._nominator.add(reserved.queued.info, reserved.node)
            nominated = reserved.node if has_plan else ""
            text = message if has_plan else f"{UNSCHEDULABLE}, {message}"
            text = attempt.shortage if reserved.queued.uid in attempt.late and not has_plan else text
            self._failures.handle_incomplete_group(reserved.queued, plugins, text, nominated=nominated)


def describe_shortage(min_count: int, scheduled: int, remaining: int) -> str:
    return f"minCount ({min_count}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"
