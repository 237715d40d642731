"""One scheduling attempt for all pods of a group (gang scheduling).

The pods are assumed on their nodes one after the other and stay there if there are enough of them; otherwise all are
removed again before any binding starts. Before giving up, the cycle checks whether preemption for all unplaced pods
together would suffice: no pod is evicted for a group that would still be incomplete.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from sampan.scheduler.extenders.http_extender import ExtenderError
from sampan.scheduler.framework.contract import Code, CycleState, PodGroupAttempt, PostFilterResult, Status
from sampan.scheduler.framework.diagnosis import Diagnosis
from sampan.scheduler.framework.framework import Framework, ScheduleResult
from sampan.scheduler.queue.queued_pod import QueuedPodInfo

if TYPE_CHECKING:
    from sampan.scheduler.scheduler import Scheduler

log = logging.getLogger(__name__)

UNSCHEDULABLE = "pod group is unschedulable"
PREEMPTING = f"{UNSCHEDULABLE}, pod group is waiting for preemption to complete"


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


class _PreemptionPlan(NamedTuple):
    """A node for an unplaced pod once its victims are evicted."""

    unschedulable: _UnschedulablePod
    why: Diagnosis
    result: PostFilterResult


class GroupCycle:
    def __init__(self, scheduler: Scheduler, profile: Framework, group: PodGroupAttempt) -> None:
        self._scheduler, self._profile, self._group = scheduler, profile, group
        self._reserved: list[_ReservedPod] = []
        self._unschedulable: list[_UnschedulablePod] = []
        self._plans: list[_PreemptionPlan] = []

    async def run(self, first: QueuedPodInfo) -> None:
        began = time.perf_counter()
        for queued in (first, *self._scheduler.queue.pop_pods(self._group.uids)):
            await self._try(queued)
            if time.perf_counter() - began > self._scheduler.config.turn_s:
                await asyncio.sleep(0)
                began = time.perf_counter()
        if self._unschedulable and not self._group.is_enough():
            await self._give_up()
        else:
            await self._bind()

    async def _try(self, queued: QueuedPodInfo) -> None:
        scheduler, profile = self._scheduler, self._profile
        queued.began = time.perf_counter()
        if queued.info.pod.metadata.deletionTimestamp is not None:
            scheduler.queue.remove(queued.uid)
            return
        cycle = profile.cycle(queued.info, scheduler.now())
        try:
            result = await scheduler.select_node(profile, cycle)
        except Exception as error:  # an error for one pod must not leave the others stuck between queue and node
            is_surprise = not isinstance(error, ExtenderError)
            log.warning("cannot schedule pod %s: %s", queued.info.full_name, error, exc_info=is_surprise)
            self._unschedulable.append(
                _UnschedulablePod(queued, cycle, Status(Code.ERROR, (str(error) or type(error).__name__,)))
            )
            return
        scheduler.metrics.algorithm_finished(time.perf_counter() - queued.began)
        if result.diagnosis is not None:
            self._unschedulable.append(_UnschedulablePod(queued, cycle, result.diagnosis))
            return
        node = scheduler.table.names[result.row]
        status = scheduler.binder.reserve(profile, cycle, node)
        if status is not None:
            self._unschedulable.append(_UnschedulablePod(queued, cycle, status))
        else:
            self._reserved.append(_ReservedPod(queued, cycle, result, node))

    async def _bind(self) -> None:
        """Bind the placed pods; the group is complete, or its missing pods are not in this queue."""
        scheduler = self._scheduler
        if self._group.is_enough():
            scheduler.start_task(self._group.tell(""))
        for reserved in self._reserved:
            scheduler.decisions.node_selected(reserved.queued, reserved.result, reserved.node)
            await scheduler.binder.start_binding(reserved.queued, self._profile, reserved.cycle, reserved.node)
        for unschedulable in self._unschedulable:
            if isinstance(unschedulable.why, Status):
                scheduler.failures.handle_rejected(unschedulable.queued, unschedulable.why)
            else:
                await scheduler.failures.handle_unschedulable(
                    unschedulable.queued, self._profile, unschedulable.cycle, unschedulable.why
                )

    async def _give_up(self) -> None:
        try:
            await self._plan()
            has_plan = self._group.is_enough()
        finally:
            self._rollback()
        self._scheduler.start_task(self._group.tell(PREEMPTING if has_plan else UNSCHEDULABLE))
        self._publish_failure(has_plan)

    # -- preemption --------------------------------------------------------------------------------------------------

    async def _plan(self) -> None:
        """Plan preemption for unplaced pods until the group would be complete."""
        scheduler, table = self._scheduler, self._scheduler.table
        for unschedulable in self._unschedulable:
            if isinstance(unschedulable.why, Status) or self._group.is_enough() or not unschedulable.why.count:
                continue
            result = await scheduler.failures.run_post_filter(self._profile, unschedulable.cycle, unschedulable.why)
            node = result.nominated
            if not node or not result.is_success or node not in table.rows:
                continue
            scheduler.feed.remove_victims(result.victims, node)
            self._plans.append(_PreemptionPlan(unschedulable, unschedulable.why, result))
            scheduler.binder.reserve(self._profile, unschedulable.cycle, node)

    def _rollback(self) -> None:
        """Restore the node table and reservations to the state before the attempt."""
        scheduler, binding_cycle = self._scheduler, self._profile.binding_cycle
        for plan in reversed(self._plans):
            node = plan.result.nominated or ""
            binding_cycle.unreserve(plan.unschedulable.cycle, node)
            scheduler.feed.forget(plan.unschedulable.queued.uid)
            scheduler.feed.restore_victims(plan.result.victims, node)
        for reserved in reversed(self._reserved):
            binding_cycle.unreserve(reserved.cycle, reserved.node)
            scheduler.feed.forget(reserved.queued.uid)

    def _publish_failure(self, has_plan: bool) -> None:
        """Publish the failure; pods that had a node wait for the same events as those that had none."""
        failures, nominator = self._scheduler.failures, self._scheduler.nominator
        plugins = set[str]().union(*(_plugins(unschedulable.why) for unschedulable in self._unschedulable))
        message = PREEMPTING if has_plan else f"{UNSCHEDULABLE}, {self._group.waiting}"
        plans = {plan.unschedulable.queued.uid: plan for plan in self._plans}
        for unschedulable in self._unschedulable:
            if isinstance(unschedulable.why, Status):
                failures.handle_rejected(unschedulable.queued, unschedulable.why)
            elif unschedulable.queued.uid not in plans:
                failures.publish_unschedulable(
                    unschedulable.queued, unschedulable.cycle, unschedulable.why, PostFilterResult()
                )
            elif has_plan:
                failures.publish_unschedulable(
                    unschedulable.queued, unschedulable.cycle, unschedulable.why, plans[unschedulable.queued.uid].result
                )
            else:
                failures.handle_incomplete_group(unschedulable.queued, plugins, message)
        for reserved in self._reserved:
            if has_plan:
                nominator.add(reserved.queued.info, reserved.node)
            failures.handle_incomplete_group(
                reserved.queued, plugins, message, nominated=reserved.node if has_plan else ""
            )


def _plugins(why: Diagnosis | Status) -> set[str]:
    return {why.plugin} if isinstance(why, Status) else set(why.plugins)
