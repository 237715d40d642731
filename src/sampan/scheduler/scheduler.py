"""The scheduler: takes pods from the queue one by one, selects a node for each and binds them concurrently.

A scheduling cycle runs on the event loop; bindings, status updates, evictions and events are separate tasks. A pod
enters the node table as soon as its node is selected (assumed), so that the next cycle counts it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from sampan.api.types.core_v1 import Namespace, Node, Pod
from sampan.machinery.activity import Activity
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.machinery.flight_recorder import FlightRecorder
from sampan.machinery.informer import InformerFactory
from sampan.scheduler.binding import Binder
from sampan.scheduler.config import ProfileConfig, SchedulerConfig
from sampan.scheduler.events import Events
from sampan.scheduler.evictions import Evictions
from sampan.scheduler.extenders.chain import NAME as EXTENDER
from sampan.scheduler.extenders.chain import ExtenderChain
from sampan.scheduler.extenders.http_extender import ExtenderError
from sampan.scheduler.failures import Failures
from sampan.scheduler.feed import LIVING, Feed
from sampan.scheduler.framework.contract import Cycle, Handle, Status
from sampan.scheduler.framework.profile import Placed, Profile
from sampan.scheduler.group_cycle import GroupCycle
from sampan.scheduler.history import History
from sampan.scheduler.metrics import SchedulerMetrics
from sampan.scheduler.node_table import NodeTable
from sampan.scheduler.nominations import Nominations
from sampan.scheduler.picking import InTurn, Seeded
from sampan.scheduler.pod_info import DEFAULT_SCHEDULER, PodInfo, PodTable
from sampan.scheduler.queue import SchedulingQueue
from sampan.scheduler.queued import Queued
from sampan.scheduler.registry import hints_of, make_profile, silent_about_events
from sampan.scheduler.telling import COMPONENT, Telling
from sampan.scheduler.waiting import WaitingPods
from sampan.scheduler.writes import PodWrites

log = logging.getLogger(__name__)


class Scheduler:
    def __init__(
        self,
        *,
        client: Client,
        clock: Clock,
        config: SchedulerConfig | None = None,
        recorder: FlightRecorder | None = None,
        activity: Activity | None = None,
        metrics: SchedulerMetrics | None = None,
        host: str = "",
    ) -> None:
        self.config = config or SchedulerConfig()
        self.activity = activity or Activity()
        """Work in progress that a virtual clock waits for before it advances."""
        self._clock = clock
        self.informers = InformerFactory(client=client, activity=self.activity)
        self.pods = PodTable()
        self.table = NodeTable(self.pods)
        self.nominations, self.waiting, self.history = Nominations(), WaitingPods(), History()
        self.metrics = metrics or SchedulerMetrics()
        self.metrics.scheduler = self
        self.extenders = ExtenderChain(self.config.extenders)
        self.events = Events(client=client, clock=clock, host=host, activity=self.activity)
        handle = Handle(
            table=self.table,
            clock=clock,
            informers=self.informers,
            client=client,
            nominations=self.nominations,
            waiting=self.waiting,
            on_event=lambda event, old, new: self.queue.on_event(event, old, new),
            extenders=self.extenders,
            say=lambda info, *told: self.telling.say(info, *told),
        )
        picker = InTurn() if self.config.seed is None else Seeded(self.config.seed)
        self.profiles: dict[str, Profile] = {
            profile.scheduler_name: make_profile(profile, handle, picker, self.metrics)
            for profile in map(self._without_ignored, self.config.profiles)
        }
        self.queue = SchedulingQueue(
            clock=clock,
            sort_key=next(iter(self.profiles.values())).points["queueSort"][0].sort_key,
            gate=self.gate,
            hints=hints_of(self.profiles.values()),
            by_anything=silent_about_events(self.profiles.values()) | ({EXTENDER} if self.config.extenders else set()),
            config=self.config.queue,
            incoming=self.metrics.incoming,
        )
        self.feed = Feed(
            table=self.table,
            pods=self.pods,
            queue=self.queue,
            nominations=self.nominations,
            schedulers=self.profiles.keys(),
        )
        writes = PodWrites(client=client, clock=clock)
        self.telling = Telling(events=self.events, history=self.history, clock=clock, recorder=recorder)
        self.failures = Failures(
            queue=self.queue,
            nominations=self.nominations,
            metrics=self.metrics,
            telling=self.telling,
            writes=writes,
            evictions=Evictions(
                client=client,
                clock=clock,
                events=self.events,
                writes=writes,
                nominations=self.nominations,
                waiting=self.waiting,
            ),
            newest=self._newest,
            beside=self.beside,
        )
        self.binder = Binder(
            feed=self.feed,
            waiting=self.waiting,
            extenders=self.extenders,
            metrics=self.metrics,
            telling=self.telling,
            writes=writes,
            failures=self.failures,
            clock=clock,
            activity=self.activity,
            most=self.config.most_bindings,
            beside=self.beside,
        )
        self._tasks: asyncio.TaskGroup | None = None

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Schedule pods until cancelled."""
        try:
            async with self.looking(), asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(self.events.run(), name="scheduler events")
                self._tasks.create_task(self._loop(), name="scheduler loop")
        finally:
            self._tasks = None
            await self.extenders.close()

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        """Keep the node table in sync with the cluster within the block, without scheduling anything."""
        for kind in (Namespace, Node):
            self.informers.of(kind)
        self.informers.of(Pod, LIVING)
        stops = []
        try:
            async with self.informers:
                await self.informers.wait_synced()
                stops = await self.feed.follow(self.informers)
                yield
        finally:
            for stop in stops:
                stop()

    async def _loop(self) -> None:
        while True:
            await self.queue.wait()
            await self._turns()

    async def _turns(self) -> None:
        """Try pods until none is ready, yielding to other tasks now and then."""
        began = time.perf_counter()
        while (queued := self.queue.pop()) is not None:
            # `step` and not `with`: an attempt may wait for the clock (retries against an unreachable server)
            self.activity.step()
            await self._guarded(queued)
            if time.perf_counter() - began > self.config.turn_s:
                await asyncio.sleep(0)
                began = time.perf_counter()

    async def _guarded(self, queued: Queued) -> None:
        try:
            await self.schedule(queued)
        except ExtenderError as error:
            self.failures.errored(queued, str(error))
        except Exception as exception:
            log.exception("scheduling of pod %s failed unexpectedly", queued.info.full_name)
            self.failures.errored(queued, str(exception) or type(exception).__name__)

    # -- one pod -----------------------------------------------------------------------------------------------------

    async def schedule(self, queued: Queued) -> None:
        """Select a node for the pod and start its binding, or publish why none fits."""
        info = queued.info
        queued.began = time.perf_counter()
        if info.pod.metadata.deletionTimestamp is not None:
            self.queue.remove(info.uid)
            self.telling.skipped(info)
            return
        profile = self._profile(info)
        if (group := profile.together(info)) is not None:
            await GroupCycle(self, profile, group).run(queued)
            return
        cycle = profile.cycle(info, self._clock.now())
        placed = await self.placed(profile, cycle)
        self.metrics.decided(time.perf_counter() - queued.began)
        if placed.diagnosis is not None:
            await self.failures.unplaced(queued, profile, cycle, placed.diagnosis)
            return
        node = self.table.names[placed.row]
        self.telling.placed(queued, placed, node)
        if (status := self.binder.hold(profile, cycle, node)) is not None:
            self.failures.refused(queued, status)
            return
        await self.binder.let_go(queued, profile, cycle, node)

    async def placed(self, profile: Profile, cycle: Cycle) -> Placed:
        """Return the nominated node of the pod if it still fits, otherwise the best node."""
        with self.activity:
            await profile.prepare(cycle)
        nominated = self.nominations.ahead_of(cycle.info, self.table.rows) if self.nominations.by_node else []
        cycle.memo["nominated"] = nominated
        own = self.nominations.node_of(cycle.info.uid)
        row = self.table.rows.get(own, -1) if own else -1
        is_good = row >= 0 and profile.fits_beside(cycle, row, nominated)
        if self.extenders.extenders and self.extenders.has_say(cycle.pod):
            if is_good and await self.extenders.lets(cycle, row) and self.table.rows.get(own) == row:
                return Placed(row, 1)
            return await self.extenders.place(profile, cycle, nominated)
        return Placed(row, 1) if is_good else profile.place(cycle, nominated)

    # -- parts -------------------------------------------------------------------------------------------------------

    def _without_ignored(self, profile: ProfileConfig) -> ProfileConfig:
        """Exclude the resources that extenders manage alone from NodeResourcesFit."""
        ignored = self.extenders.ignored_resources
        if not ignored:
            return profile
        fit = profile.args.get("NodeResourcesFit", {})
        fit = {**fit, "ignoredResources": sorted({*fit.get("ignoredResources", ()), *ignored})}
        return replace(profile, args={**profile.args, "NodeResourcesFit": fit})

    def living_pods(self) -> Sequence[Pod]:
        """Return the pods that are not terminated, from the informer cache."""
        return list(self.informers.of(Pod, LIVING).lister)

    def now(self) -> float:
        return self._clock.now()

    def gate(self, info: PodInfo) -> Status | None:
        """Return why PreEnqueue keeps the pod out of the queue, or None if it may enter."""
        for plugin in self._profile(info).points["preEnqueue"]:
            status: Status | None = plugin.pre_enqueue(info)
            if status is not None:
                return Status(status.code, status.reasons, plugin.name)
        return None

    def _newest(self, info: PodInfo) -> PodInfo:
        pod: Pod | None = self.informers.of(Pod, LIVING).lister.get(info.name, info.namespace)
        if pod is None or pod.metadata.uid != info.uid or pod is info.pod:
            return info
        return self.pods.refreshed(info, pod)

    def _profile(self, info: PodInfo) -> Profile:
        return self.profiles[info.pod.spec.schedulerName or DEFAULT_SCHEDULER]

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine as a task of the scheduler."""
        assert self._tasks is not None
        self._tasks.create_task(work)


__all__ = ["COMPONENT", "Scheduler"]
