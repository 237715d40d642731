"""The scheduler, which takes pods from the queue one by one, selects a node for each and binds them concurrently.

The counterpart is `pkg/scheduler/scheduler.go`. A scheduling cycle runs on the event loop; bindings, status updates,
evictions and events are separate tasks. A pod enters the node table as soon as its node is selected (assumed), so that
the next cycle counts it. `make_scheduler` is the composition root.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from sampan.api.types.core_v1 import Namespace, Node, Pod
from sampan.host.activity import Activity
from sampan.host.background_tasks import BackgroundTasks
from sampan.host.clock import Clock
from sampan.machinery.client import Client
from sampan.machinery.informer import InformerFactory
from sampan.machinery.telemetry.flight_recorder import FlightRecorder
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import PodInfo, PodInfoTable
from sampan.scheduler.cache.scheduler_cache import Nominator, SchedulerCache
from sampan.scheduler.config import ProfileConfig, SchedulerConfig
from sampan.scheduler.cycle.binding_cycle import BindingCycle
from sampan.scheduler.cycle.decision_recorder import COMPONENT, DecisionHistory, DecisionRecorder, PodEventRecorder
from sampan.scheduler.cycle.failure_handler import FailureHandler, PreemptionExecutor
from sampan.scheduler.cycle.pod_group_cycle import PodGroupCycle
from sampan.scheduler.cycle.pod_status import PodStatusWriter
from sampan.scheduler.cycle.scheduling_cycle import Profiles, ScheduleAlgorithm, SchedulingCycle
from sampan.scheduler.event_handlers import LIVING, EventHandlers
from sampan.scheduler.extenders.extender_chain import NAME as EXTENDER
from sampan.scheduler.extenders.extender_chain import ExtenderChain
from sampan.scheduler.framework.cluster_event import ClusterEventPublisher
from sampan.scheduler.framework.framework import RoundRobin, SeededRandom
from sampan.scheduler.framework.handle import Handle
from sampan.scheduler.framework.waiting_pods import WaitingPods
from sampan.scheduler.metrics import GaugeSource, SchedulerMetrics
from sampan.scheduler.plugins.registry import make_framework
from sampan.scheduler.scheduling_queue import SchedulingQueue


@dataclass(kw_only=True, eq=False)
class Scheduler:
    config: SchedulerConfig
    activity: Activity
    """Work in progress that a virtual clock waits for before it advances."""
    informers: InformerFactory
    pods: PodInfoTable
    table: NodeTable
    cache: SchedulerCache
    nominator: Nominator
    waiting: WaitingPods
    profiles: Profiles
    queue: SchedulingQueue
    event_handlers: EventHandlers
    extenders: ExtenderChain
    cycle: SchedulingCycle
    history: DecisionHistory
    events: PodEventRecorder
    metrics: SchedulerMetrics
    tasks: BackgroundTasks

    async def run(self) -> None:
        """Schedule pods until cancelled."""
        source = GaugeSource(self.queue, self.table, self.cache, self.profiles.names)
        try:
            with self.metrics.report_on(source):
                async with self.synced(), self.tasks:
                    self.tasks.start(self.events.run(), "scheduler events")
                    await self.tasks.start(self._loop(), "scheduler loop")
        finally:
            await self.extenders.close()

    @asynccontextmanager
    async def synced(self) -> AsyncIterator[None]:
        """Keep the node table in sync with the cluster within the block, without scheduling anything."""
        for kind in (Namespace, Node):
            self.informers.for_kind(kind)
        self.informers.for_kind(Pod, LIVING)
        stops = []
        try:
            async with self.informers:
                await self.informers.wait_synced()
                stops = await self.event_handlers.follow(self.informers)
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
            await self.cycle.run(queued)
            if time.perf_counter() - began > self.config.turn_s:
                await asyncio.sleep(0)
                began = time.perf_counter()

    def living_pods(self) -> Sequence[Pod]:
        """Return the pods that are not terminated, from the informer cache."""
        return list(self.informers.for_kind(Pod, LIVING).lister)


# -- composition ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _SchedulerCore:
    """The objects that the parts of a scheduler share."""

    client: Client
    clock: Clock
    config: SchedulerConfig
    activity: Activity
    metrics: SchedulerMetrics
    informers: InformerFactory
    pods: PodInfoTable
    table: NodeTable
    nominator: Nominator
    cache: SchedulerCache
    waiting: WaitingPods
    extenders: ExtenderChain
    events: PodEventRecorder
    decisions: DecisionRecorder
    tasks: BackgroundTasks


def make_scheduler(
    *,
    client: Client,
    clock: Clock,
    config: SchedulerConfig | None = None,
    recorder: FlightRecorder | None = None,
    activity: Activity | None = None,
    metrics: SchedulerMetrics | None = None,
    host: str = "",
) -> Scheduler:
    """Create a scheduler with all its collaborators; invalid plugin arguments are reported here."""
    config, activity, metrics = config or SchedulerConfig(), activity or Activity(), metrics or SchedulerMetrics()
    pods, nominator, history = PodInfoTable(), Nominator(), DecisionHistory()
    table = NodeTable(pods)
    events = PodEventRecorder(client=client, clock=clock, host=host, activity=activity)
    core = _SchedulerCore(
        client=client,
        clock=clock,
        config=config,
        activity=activity,
        metrics=metrics,
        informers=InformerFactory(client=client, activity=activity),
        pods=pods,
        table=table,
        nominator=nominator,
        cache=SchedulerCache(table=table, nominator=nominator),
        waiting=WaitingPods(),
        extenders=ExtenderChain(config.extenders),
        events=events,
        decisions=DecisionRecorder(events=events, history=history, clock=clock, recorder=recorder),
        tasks=BackgroundTasks(),
    )
    cluster_events = ClusterEventPublisher()
    profiles = _make_profiles(core, cluster_events)
    queue = _make_queue(core, profiles)
    cluster_events.subscribe(queue.on_event)
    return Scheduler(
        config=config,
        activity=activity,
        informers=core.informers,
        pods=pods,
        table=table,
        cache=core.cache,
        nominator=nominator,
        waiting=core.waiting,
        profiles=profiles,
        queue=queue,
        event_handlers=EventHandlers(
            cache=core.cache, table=table, pods=pods, queue=queue, nominator=nominator, scheduler_names=profiles.names
        ),
        extenders=core.extenders,
        cycle=_make_cycle(core, profiles, queue),
        history=history,
        events=events,
        metrics=metrics,
        tasks=core.tasks,
    )


def _make_profiles(core: _SchedulerCore, cluster_events: ClusterEventPublisher) -> Profiles:
    handle = Handle(
        table=core.table,
        clock=core.clock,
        informers=core.informers,
        client=core.client,
        nominator=core.nominator,
        waiting=core.waiting,
        cluster_events=cluster_events,
        feature_gates=core.config.feature_gates,
        extenders=core.extenders,
        publish_event=core.decisions.publish_event,
    )
    tie_breaker = RoundRobin() if core.config.seed is None else SeededRandom(core.config.seed)
    ignored = core.extenders.ignored_resources
    profiles = [_ignore_resources(profile, ignored) for profile in core.config.profiles]
    return Profiles(make_framework(profile, handle, tie_breaker, core.metrics) for profile in profiles)


def _ignore_resources(profile: ProfileConfig, ignored: frozenset[str]) -> ProfileConfig:
    """Exclude the resources that extenders manage alone from NodeResourcesFit."""
    if not ignored:
        return profile
    fit = profile.args.get("NodeResourcesFit", {})
    fit = {**fit, "ignoredResources": sorted({*fit.get("ignoredResources", ()), *ignored})}
    return replace(profile, args={**profile.args, "NodeResourcesFit": fit})


def _make_queue(core: _SchedulerCore, profiles: Profiles) -> SchedulingQueue:
    extenders = {EXTENDER} if core.config.extenders else set()
    return SchedulingQueue(
        clock=core.clock,
        sort_key=profiles.queue_sort.sort_key,
        gate=profiles.pre_enqueue,
        hints=profiles.queueing_hints(),
        plugins_without_hints=profiles.plugins_without_hints() | extenders,
        config=core.config.queue,
        incoming=core.metrics.record_incoming_pod,
    )


def _make_cycle(core: _SchedulerCore, profiles: Profiles, queue: SchedulingQueue) -> SchedulingCycle:
    pod_status = PodStatusWriter(client=core.client, clock=core.clock)
    failures = _make_failure_handler(core, queue, pod_status)
    binding_cycle = BindingCycle(
        cache=core.cache,
        waiting=core.waiting,
        extenders=core.extenders,
        metrics=core.metrics,
        decisions=core.decisions,
        pod_status=pod_status,
        failures=failures,
        clock=core.clock,
        activity=core.activity,
        max_bindings=core.config.max_bindings,
        start_task=core.tasks.start,
    )
    algorithm = ScheduleAlgorithm(
        table=core.table,
        nominator=core.nominator,
        extenders=core.extenders,
        metrics=core.metrics,
        clock=core.clock,
        activity=core.activity,
    )
    group_cycle = PodGroupCycle(
        algorithm=algorithm,
        table=core.table,
        cache=core.cache,
        queue=queue,
        nominator=core.nominator,
        binding_cycle=binding_cycle,
        failures=failures,
        decisions=core.decisions,
        turn_s=core.config.turn_s,
        start_task=core.tasks.start,
    )
    return SchedulingCycle(
        profiles=profiles,
        algorithm=algorithm,
        group_cycle=group_cycle,
        table=core.table,
        queue=queue,
        binding_cycle=binding_cycle,
        failures=failures,
        decisions=core.decisions,
    )


def _make_failure_handler(core: _SchedulerCore, queue: SchedulingQueue, pod_status: PodStatusWriter) -> FailureHandler:
    return FailureHandler(
        queue=queue,
        nominator=core.nominator,
        metrics=core.metrics,
        decisions=core.decisions,
        pod_status=pod_status,
        preemption=PreemptionExecutor(
            client=core.client,
            clock=core.clock,
            events=core.events,
            pod_status=pod_status,
            nominator=core.nominator,
            waiting=core.waiting,
        ),
        latest=LatestPods(informers=core.informers, pods=core.pods),
        start_task=core.tasks.start,
    )


@dataclass(frozen=True, kw_only=True)
class LatestPods:
    """Finds the current version of a pod in the informer cache."""

    informers: InformerFactory
    pods: PodInfoTable

    def __call__(self, info: PodInfo) -> PodInfo:
        pod: Pod | None = self.informers.for_kind(Pod, LIVING).lister.get(info.name, info.namespace)
        if pod is None or pod.metadata.uid != info.uid or pod is info.pod:
            return info
        return self.pods.refresh_info(info, pod)


__all__ = ["COMPONENT", "Scheduler", "make_scheduler"]
