"""One attempt to find nodes for all pods of a group.

They are counted on their nodes one after the other, and stay there if there are enough of them; else all leave again,
and nobody else has seen them there.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

from sampan.scheduler.framework.contract import Cycle, Status, Together
from sampan.scheduler.framework.profile import Placed, Profile
from sampan.scheduler.queued import Queued

if TYPE_CHECKING:
    from sampan.scheduler.scheduler import Scheduler

APART = "other pods of its group cannot be scheduled"


class _Held(NamedTuple):
    queued: Queued
    cycle: Cycle
    placed: Placed
    node: str


class _Lost(NamedTuple):
    queued: Queued
    cycle: Cycle
    why: Placed | Status


class GroupCycle:
    def __init__(self, scheduler: Scheduler, profile: Profile, group: Together) -> None:
        self._scheduler, self._profile, self._group = scheduler, profile, group
        self._held: list[_Held] = []
        self._lost: list[_Lost] = []

    async def run(self, first: Queued) -> None:
        began = time.perf_counter()
        for queued in (first, *self._scheduler.queue.take(self._group.uids)):
            await self._try(queued)
            if time.perf_counter() - began > self._scheduler.config.turn_s:
                await asyncio.sleep(0)
                began = time.perf_counter()
        if self._lost and not self._group.is_enough():
            await self._give_up()
            return
        for held in self._held:
            self._scheduler.telling.placed(held.queued, held.placed, held.node)
            await self._scheduler.binder.let_go(held.queued, self._profile, held.cycle, held.node)
        for lost in self._lost:
            await self._tell(lost)

    async def _try(self, queued: Queued) -> None:
        scheduler, profile = self._scheduler, self._profile
        queued.began = time.perf_counter()
        if queued.info.pod.metadata.deletionTimestamp is not None:
            scheduler.queue.remove(queued.uid)
            return
        cycle = profile.cycle(queued.info, scheduler.now())
        placed = await scheduler.placed(profile, cycle)
        scheduler.metrics.decided(time.perf_counter() - queued.began)
        if placed.diagnosis is not None:
            self._lost.append(_Lost(queued, cycle, placed))
            return
        node = scheduler.table.names[placed.row]
        status = scheduler.binder.hold(profile, cycle, node)
        if status is not None:
            self._lost.append(_Lost(queued, cycle, status))
        else:
            self._held.append(_Held(queued, cycle, placed, node))

    async def _give_up(self) -> None:
        """Those that had a node wait for the same things as those that had none."""
        scheduler = self._scheduler
        for held in reversed(self._held):
            self._profile.commitment.unreserve(held.cycle, held.node)
            scheduler.feed.forget(held.queued.uid)
        plugins = set().union(*(_plugins(lost.why) for lost in self._lost))
        for lost in self._lost:
            await self._tell(lost)
        for held in self._held:
            scheduler.failures.apart(held.queued, plugins, APART)

    async def _tell(self, lost: _Lost) -> None:
        """A pod that found no node, or was not allowed to have it."""
        failures = self._scheduler.failures
        if isinstance(lost.why, Status):
            failures.refused(lost.queued, lost.why)
        elif lost.why.diagnosis is not None:
            await failures.unplaced(lost.queued, self._profile, lost.cycle, lost.why.diagnosis)


def _plugins(why: Placed | Status) -> set[str]:
    if isinstance(why, Status):
        return {why.plugin}
    return why.diagnosis.plugins if why.diagnosis is not None else set()


__all__ = ["GroupCycle"]
