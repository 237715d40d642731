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

from sampan.scheduler.diagnosis import Diagnosis
from sampan.scheduler.extenders.http_extender import ExtenderError
from sampan.scheduler.framework.contract import Code, Cycle, PostFilterResult, Status, Together
from sampan.scheduler.framework.profile import Placed, Profile
from sampan.scheduler.queued import Queued

if TYPE_CHECKING:
    from sampan.scheduler.scheduler import Scheduler

log = logging.getLogger(__name__)

UNSCHEDULABLE = "pod group is unschedulable"
EVICTING = f"{UNSCHEDULABLE}, pod group is waiting for preemption to complete"


class _Held(NamedTuple):
    queued: Queued
    cycle: Cycle
    placed: Placed
    node: str


class _Lost(NamedTuple):
    """A pod that fits no node, or whose node was rejected."""

    queued: Queued
    cycle: Cycle
    why: Diagnosis | Status


class _Plan(NamedTuple):
    """A node for an unplaced pod once its victims are evicted."""

    lost: _Lost
    why: Diagnosis
    result: PostFilterResult


class GroupCycle:
    def __init__(self, scheduler: Scheduler, profile: Profile, group: Together) -> None:
        self._scheduler, self._profile, self._group = scheduler, profile, group
        self._held: list[_Held] = []
        self._lost: list[_Lost] = []
        self._plans: list[_Plan] = []

    async def run(self, first: Queued) -> None:
        began = time.perf_counter()
        for queued in (first, *self._scheduler.queue.take(self._group.uids)):
            await self._try(queued)
            if time.perf_counter() - began > self._scheduler.config.turn_s:
                await asyncio.sleep(0)
                began = time.perf_counter()
        if self._lost and not self._group.is_enough():
            await self._give_up()
        else:
            await self._go_on()

    async def _try(self, queued: Queued) -> None:
        scheduler, profile = self._scheduler, self._profile
        queued.began = time.perf_counter()
        if queued.info.pod.metadata.deletionTimestamp is not None:
            scheduler.queue.remove(queued.uid)
            return
        cycle = profile.cycle(queued.info, scheduler.now())
        try:
            placed = await scheduler.placed(profile, cycle)
        except Exception as error:  # an error for one pod must not leave the others stuck between queue and node
            is_surprise = not isinstance(error, ExtenderError)
            log.warning("cannot schedule pod %s: %s", queued.info.full_name, error, exc_info=is_surprise)
            self._lost.append(_Lost(queued, cycle, Status(Code.ERROR, (str(error) or type(error).__name__,))))
            return
        scheduler.metrics.decided(time.perf_counter() - queued.began)
        if placed.diagnosis is not None:
            self._lost.append(_Lost(queued, cycle, placed.diagnosis))
            return
        node = scheduler.table.names[placed.row]
        status = scheduler.binder.hold(profile, cycle, node)
        if status is not None:
            self._lost.append(_Lost(queued, cycle, status))
        else:
            self._held.append(_Held(queued, cycle, placed, node))

    async def _go_on(self) -> None:
        """Bind the placed pods; the group is complete, or its missing pods are not in this queue."""
        scheduler = self._scheduler
        if self._group.is_enough():
            scheduler.beside(self._group.tell(""))
        for held in self._held:
            scheduler.telling.placed(held.queued, held.placed, held.node)
            await scheduler.binder.let_go(held.queued, self._profile, held.cycle, held.node)
        for lost in self._lost:
            if isinstance(lost.why, Status):
                scheduler.failures.refused(lost.queued, lost.why)
            else:
                await scheduler.failures.unplaced(lost.queued, self._profile, lost.cycle, lost.why)

    async def _give_up(self) -> None:
        try:
            await self._plan()
            has_plan = self._group.is_enough()
        finally:
            self._leave()
        self._scheduler.beside(self._group.tell(EVICTING if has_plan else UNSCHEDULABLE))
        self._tell(has_plan)

    # -- preemption --------------------------------------------------------------------------------------------------

    async def _plan(self) -> None:
        """Plan preemption for unplaced pods until the group would be complete."""
        scheduler, table = self._scheduler, self._scheduler.table
        for lost in self._lost:
            if isinstance(lost.why, Status) or self._group.is_enough() or not lost.why.count:
                continue
            result = await scheduler.failures.remedy(self._profile, lost.cycle, lost.why)
            node = result.nominated
            if not node or not result.is_success or node not in table.rows:
                continue
            scheduler.feed.take_off(result.victims, node)
            self._plans.append(_Plan(lost, lost.why, result))
            scheduler.binder.hold(self._profile, lost.cycle, node)

    def _leave(self) -> None:
        """Restore the node table and reservations to the state before the attempt."""
        scheduler, reserved = self._scheduler, self._profile.commitment
        for plan in reversed(self._plans):
            node = plan.result.nominated or ""
            reserved.unreserve(plan.lost.cycle, node)
            scheduler.feed.forget(plan.lost.queued.uid)
            scheduler.feed.put_back(plan.result.victims, node)
        for held in reversed(self._held):
            reserved.unreserve(held.cycle, held.node)
            scheduler.feed.forget(held.queued.uid)

    def _tell(self, has_plan: bool) -> None:
        """Publish the failure; pods that had a node wait for the same events as those that had none."""
        failures, nominations = self._scheduler.failures, self._scheduler.nominations
        plugins = set[str]().union(*(_plugins(lost.why) for lost in self._lost))
        message = EVICTING if has_plan else f"{UNSCHEDULABLE}, {self._group.waiting}"
        plans = {plan.lost.queued.uid: plan for plan in self._plans}
        for lost in self._lost:
            if isinstance(lost.why, Status):
                failures.refused(lost.queued, lost.why)
            elif lost.queued.uid not in plans:
                failures.told(lost.queued, lost.cycle, lost.why, PostFilterResult())
            elif has_plan:
                failures.told(lost.queued, lost.cycle, lost.why, plans[lost.queued.uid].result)
            else:
                failures.apart(lost.queued, plugins, message)
        for held in self._held:
            if has_plan:
                nominations.put(held.queued.info, held.node)
            failures.apart(held.queued, plugins, message, nominated=held.node if has_plan else "")


def _plugins(why: Diagnosis | Status) -> set[str]:
    return {why.plugin} if isinstance(why, Status) else set(why.plugins)
