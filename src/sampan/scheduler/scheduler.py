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
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import DEFAULT_SCHEDULER, PodInfo, PodInfoTable
from sampan.scheduler.config import ProfileConfig, SchedulerConfig
from sampan.scheduler.cycle.binder import Binder
from sampan.scheduler.cycle.decision_recorder import COMPONENT, DecisionHistory, DecisionRecorder
from sampan.scheduler.cycle.event_recorder import PodEventRecorder
from sampan.scheduler.cycle.failure_handler import FailureHandler, PreemptionExecutor
from sampan.scheduler.cycle.pod_group_cycle import GroupCycle
from sampan.scheduler.cycle.pod_status import PodStatusWriter
from sampan.scheduler.event_handlers import LIVING, Feed
from sampan.scheduler.extenders.extender_chain import NAME as EXTENDER
from sampan.scheduler.extenders.extender_chain import ExtenderChain
from sampan.scheduler.extenders.http_extender import ExtenderError
from sampan.scheduler.framework.contract import CycleState, Handle, Status
from sampan.scheduler.framework.framework import Framework, ScheduleResult
from sampan.scheduler.framework.scores import RoundRobin, SeededRandom
from sampan.scheduler.framework.waiting_pods import WaitingPods
from sampan.scheduler.metrics import SchedulerMetrics
from sampan.scheduler.plugins.registry import hints_of, make_framework, plugins_without_hints
from sampan.scheduler.queue.nominator import Nominator
from sampan.scheduler.queue.queued_pod import QueuedPodInfo
from sampan.scheduler.queue.scheduling_queue import SchedulingQueue

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
        self.pods = PodInfoTable()
        self.table = NodeTable(self.pods)
        self.nominator, self.waiting, self.history = Nominator(), WaitingPods(), DecisionHistory()
        self.metrics = metrics or SchedulerMetrics()
        self.metrics.scheduler = self
        self.extenders = ExtenderChain(self.config.extenders)
        self.events = PodEventRecorder(client=client, clock=clock, host=host, activity=self.activity)
        handle = Handle(
            table=self.table,
            clock=clock,
            informers=self.informers,
            client=client,
            nominator=self.nominator,
            waiting=self.waiting,
            on_event=lambda event, old, new: self.queue.on_event(event, old, new),
            extenders=self.extenders,
            say=lambda info, *args: self.decisions.publish_event(info, *args),
        )
        tie_breaker = RoundRobin() if self.config.seed is None else SeededRandom(self.config.seed)
        self.profiles: dict[str, Framework] = {
            profile.scheduler_name: make_framework(profile, handle, tie_breaker, self.metrics)
            for profile in map(self._without_ignored, self.config.profiles)
        }
        self.queue = SchedulingQueue(
            clock=clock,
            sort_key=next(iter(self.profiles.values())).points["queueSort"][0].sort_key,
            gate=self.gate,
            hints=hints_of(self.profiles.values()),
            plugins_without_hints=plugins_without_hints(self.profiles.values())
            | ({EXTENDER} if self.config.extenders else set()),
            config=self.config.queue,
            incoming=self.metrics.incoming,
        )
        self.feed = Feed(
            table=self.table,
            pods=self.pods,
            queue=self.queue,
            nominator=self.nominator,
            schedulers=self.profiles.keys(),
        )
        writes = PodStatusWriter(client=client, clock=clock)
        self.decisions = DecisionRecorder(events=self.events, history=self.history, clock=clock, recorder=recorder)
        self.failures = FailureHandler(
            queue=self.queue,
            nominator=self.nominator,
            metrics=self.metrics,
            decisions=self.decisions,
            writes=writes,
            evictions=PreemptionExecutor(
                client=client,
                clock=clock,
                events=self.events,
                writes=writes,
                nominator=self.nominator,
                waiting=self.waiting,
            ),
            latest=self._latest,
            start_task=self.start_task,
        )
        self.binder = Binder(
            feed=self.feed,
            waiting=self.waiting,
            extenders=self.extenders,
            metrics=self.metrics,
            decisions=self.decisions,
            writes=writes,
            failures=self.failures,
            clock=clock,
            activity=self.activity,
            max_bindings=self.config.max_bindings,
            start_task=self.start_task,
        )
        self._tasks: asyncio.TaskGroup | None = None

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Schedule pods until cancelled."""
        try:
            async with self.synced(), asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(self.events.run(), name="scheduler events")
                self._tasks.create_task(self._loop(), name="scheduler loop")
        finally:
            self._tasks = None
            await self.extenders.close()

    @asynccontextmanager
    async def synced(self) -> AsyncIterator[None]:
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
            await self._schedule_ready()

    async def _schedule_ready(self) -> None:
        """Try pods until none is ready, yielding to other tasks now and then."""
        began = time.perf_counter()
        while (queued := self.queue.pop()) is not None:
            # `step` and not `with`: an attempt may wait for the clock (retries against an unreachable server)
            self.activity.step()
            await self._schedule_or_fail(queued)
            if time.perf_counter() - began > self.config.turn_s:
                await asyncio.sleep(0)
                began = time.perf_counter()

    async def _schedule_or_fail(self, queued: QueuedPodInfo) -> None:
        try:
            await self.schedule(queued)
        except ExtenderError as error:
            self.failures.handle_error(queued, str(error))
        except Exception as exception:
            log.exception("scheduling of pod %s failed unexpectedly", queued.info.full_name)
            self.failures.handle_error(queued, str(exception) or type(exception).__name__)

    # -- one pod -----------------------------------------------------------------------------------------------------

    async def schedule(self, queued: QueuedPodInfo) -> None:
        """Select a node for the pod and start its binding, or publish why none fits."""
        info = queued.info
        queued.began = time.perf_counter()
        if info.pod.metadata.deletionTimestamp is not None:
            self.queue.remove(info.uid)
            self.decisions.skipped(info)
            return
        profile = self._profile(info)
        if (group := profile.together(info)) is not None:
            await GroupCycle(self, profile, group).run(queued)
            return
        cycle = profile.cycle(info, self._clock.now())
        select_node = await self.select_node(profile, cycle)
        self.metrics.algorithm_finished(time.perf_counter() - queued.began)
        if select_node.diagnosis is not None:
            await self.failures.handle_unschedulable(queued, profile, cycle, select_node.diagnosis)
            return
        node = self.table.names[select_node.row]
        self.decisions.node_selected(queued, select_node, node)
        if (status := self.binder.reserve(profile, cycle, node)) is not None:
            self.failures.handle_rejected(queued, status)
            return
        await self.binder.start_binding(queued, profile, cycle, node)

    async def select_node(self, profile: Framework, cycle: CycleState) -> ScheduleResult:
        """Return the nominated node of the pod if it still fits, otherwise the best node."""
        with self.activity:
            await profile.prepare(cycle)
        nominated = self.nominator.of_higher_priority(cycle.info, self.table.rows) if self.nominator.by_node else []
        cycle.memo["nominated"] = nominated
        nominated_node = self.nominator.node_of(cycle.info.uid)
        row = self.table.rows.get(nominated_node, -1) if nominated_node else -1
        fits = row >= 0 and profile.fits_with_nominated(cycle, row, nominated)
        if self.extenders.extenders and self.extenders.is_interested(cycle.pod):
            if fits and await self.extenders.accepts(cycle, row) and self.table.rows.get(nominated_node) == row:
                return ScheduleResult(row, 1)
            return await self.extenders.select_node(profile, cycle, nominated)
        return ScheduleResult(row, 1) if fits else profile.select_node(cycle, nominated)

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

    def _latest(self, info: PodInfo) -> PodInfo:
        pod: Pod | None = self.informers.of(Pod, LIVING).lister.get(info.name, info.namespace)
        if pod is None or pod.metadata.uid != info.uid or pod is info.pod:
            return info
        return self.pods.refreshed(info, pod)

    def _profile(self, info: PodInfo) -> Framework:
        return self.profiles[info.pod.spec.schedulerName or DEFAULT_SCHEDULER]

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine as a task of the scheduler."""
        assert self._tasks is not None
        self._tasks.create_task(work)


__all__ = ["COMPONENT", "Scheduler"]
