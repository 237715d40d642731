"""The binding cycle: a pod is assumed on its node at once and bound concurrently with the scheduling loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from sampan.machinery.activity import Activity
from sampan.machinery.clock import Clock
from sampan.scheduler.extenders.chain import ExtenderChain
from sampan.scheduler.failures import Failures
from sampan.scheduler.feed import Feed
from sampan.scheduler.framework.contract import Code, Cycle, Status
from sampan.scheduler.framework.profile import Profile
from sampan.scheduler.metrics import SCHEDULED, SchedulerMetrics
from sampan.scheduler.queued import Queued
from sampan.scheduler.telling import Telling
from sampan.scheduler.waiting import WaitingPod, WaitingPods
from sampan.scheduler.writes import PodWrites


class Binder:
    def __init__(
        self,
        *,
        feed: Feed,
        waiting: WaitingPods,
        extenders: ExtenderChain,
        metrics: SchedulerMetrics,
        telling: Telling,
        writes: PodWrites,
        failures: Failures,
        clock: Clock,
        activity: Activity,
        most: int,
        beside: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """Limit concurrent bindings to `most`; `beside` starts a binding as a task of the scheduler."""
        self._feed, self._waiting, self._extenders, self._metrics = feed, waiting, extenders, metrics
        self._telling, self._writes, self._failures = telling, writes, failures
        self._clock, self._activity, self._beside = clock, activity, beside
        self._room = asyncio.Semaphore(most)

    def hold(self, profile: Profile, cycle: Cycle, node: str) -> Status | None:
        """Assume the pod on the node and run the Reserve plug-ins; return None if all of them succeed."""
        self._feed.assume(cycle.info, node)
        status = profile.commitment.reserve(cycle, node)
        if status is not None:
            self._feed.forget(cycle.info.uid)
        return status

    async def let_go(self, queued: Queued, profile: Profile, cycle: Cycle, node: str) -> None:
        """Run the Permit plug-ins for an assumed pod and start its binding, which waits if a plug-in requires it."""
        info = queued.info
        status, waits = profile.commitment.permit(cycle, node)
        if status is not None:
            profile.commitment.unreserve(cycle, node)
            self._feed.forget(info.uid)
            self._failures.refused(queued, status)
            return
        waiting = None
        if waits:
            waiting = WaitingPod(info, node, waits)
            self._waiting.put(waiting)
        else:
            await self._room.acquire()
        self._metrics.binding.inc()
        self._beside(self._bind(queued, profile, cycle, node, waiting))

    async def _bind(
        self, queued: Queued, profile: Profile, cycle: Cycle, node: str, waiting: WaitingPod | None
    ) -> None:
        is_prepared = profile.commitment.has_pre_bind(cycle, node)
        status: Status | None = None
        if waiting is not None:
            status = await self._permitted(waiting)
            await self._room.acquire()
        try:
            self._activity.step()
            if status is None and is_prepared:
                status = await self._pre_bind(profile, cycle, node, is_told=waiting is not None)
            status = status or await self._tell(profile, cycle, node)
        finally:
            self._activity.step()
            self._room.release()
            self._metrics.binding.dec()
        if status is not None:
            await self._unbound(queued, profile, cycle, node, status)
            return
        self._bound(queued, profile, cycle, node)

    async def _permitted(self, waiting: WaitingPod) -> Status | None:
        """Wait for the Permit plug-ins; return None when all of them have allowed the pod.

        The node is written to `nominatedNodeName` at the same time, so that other components can see where the pod will
        go.
        """
        began = self._clock.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._writes.nominate(waiting.info.pod, waiting.node))
                status = await waiting.wait(self._clock)
        finally:
            self._waiting.remove(waiting.info.uid)
        code = Code.SUCCESS if status is None else status.code
        self._metrics.permit_waits.labels(code.value).observe(max(0.0, self._clock.monotonic() - began))
        return status

    async def _pre_bind(self, profile: Profile, cycle: Cycle, node: str, *, is_told: bool) -> Status | None:
        """Run the PreBind plug-ins without occupying a binding slot, because they may take minutes."""
        self._room.release()
        try:
            if not is_told:
                await self._writes.nominate(cycle.pod, node)
            return await self._waiting.prepared(cycle.info.uid, profile.commitment.pre_bind(cycle, node))
        finally:
            await self._room.acquire()

    async def _tell(self, profile: Profile, cycle: Cycle, node: str) -> Status | None:
        """Bind through an extender that implements bind, or else through the Bind plug-ins."""
        if self._extenders.extenders:
            with self._activity:
                status = await self._extenders.bind(cycle, node)
            if status is None or status.code is not Code.SKIP:
                return status
        return await profile.commitment.bind(cycle, node)

    def _bound(self, queued: Queued, profile: Profile, cycle: Cycle, node: str) -> None:
        self._telling.bound(queued.info, node)
        self._metrics.attempted(SCHEDULED, profile.name, time.perf_counter() - queued.began)
        self._metrics.placed(queued, self._clock.monotonic())
        profile.commitment.post_bind(cycle, node)

    async def _unbound(self, queued: Queued, profile: Profile, cycle: Cycle, node: str, status: Status) -> None:
        """Undo a binding that failed or was not permitted: unreserve, forget the assumed pod and requeue it."""
        profile.commitment.unreserve(cycle, node)
        await profile.commitment.take_back(cycle, node)
        is_freed = self._feed.forget(queued.uid)
        self._failures.refused(queued, status)
        if is_freed:
            self._feed.freed(queued.info)
