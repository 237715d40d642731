"""The scheduler: takes pods from the queue one by one, finds each a node, and binds them side by side.

A decision is pure and quick and happens on the loop; whatever waits (bindings, statuses, evictions, events) is a task
beside it. A pod that was decided on is in the node table at once, so the next decision counts it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from sampan.api.types.core_v1 import Namespace, Node, Pod
from sampan.machinery.activity import Activity
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.machinery.flight_recorder import FlightRecorder
from sampan.machinery.informer import InformerFactory
from sampan.scheduler.config import ProfileConfig, SchedulerConfig
from sampan.scheduler.events import NORMAL, WARNING, Events
from sampan.scheduler.extenders.chain import ExtenderChain
from sampan.scheduler.extenders.http_extender import ExtenderError
from sampan.scheduler.feed import LIVING, Feed
from sampan.scheduler.framework.contract import Code, Cycle, Handle, PostFilterResult, Status
from sampan.scheduler.framework.profile import Placed, Profile
from sampan.scheduler.group_cycle import GroupCycle
from sampan.scheduler.history import Decision, History
from sampan.scheduler.metrics import ERROR, SCHEDULED, UNSCHEDULABLE, SchedulerMetrics
from sampan.scheduler.node_table import NodeTable
from sampan.scheduler.picking import InTurn, Seeded
from sampan.scheduler.pod_info import DEFAULT_SCHEDULER, PodInfo, PodTable
from sampan.scheduler.queue import Nominations, Queued, SchedulingQueue
from sampan.scheduler.registry import hints_of, make_profile
from sampan.scheduler.waiting import WaitingPod, WaitingPods
from sampan.scheduler.writes import PodWrites

log = logging.getLogger(__name__)

COMPONENT = "kube-scheduler"


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
        """What a virtual clock waits for."""
        self._clock, self._recorder = clock, recorder
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
        )
        picker = InTurn() if self.config.seed is None else Seeded(self.config.seed)
        self.profiles: dict[str, Profile] = {
            found.scheduler_name: make_profile(found, handle, picker, self.metrics)
            for found in map(self._without_ignored, self.config.profiles)
        }
        self.queue = SchedulingQueue(
            clock=clock,
            sort_key=next(iter(self.profiles.values())).points["queueSort"][0].sort_key,
            gate=self._gate,
            hints=hints_of(self.profiles.values()),
            config=self.config.queue,
        )
        self.feed = Feed(
            table=self.table,
            pods=self.pods,
            queue=self.queue,
            nominations=self.nominations,
            schedulers=self.profiles.keys(),
        )
        self._writes = PodWrites(client=client, clock=clock, events=self.events)
        self._tasks: asyncio.TaskGroup | None = None
        self._room = asyncio.Semaphore(self.config.most_bindings)

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Schedule until cancelled."""
        try:
            async with self.looking(), asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(self.events.run(), name="scheduler events")
                self._tasks.create_task(self._loop(), name="scheduler loop")
        finally:
            self._tasks = None
            await self.extenders.close()

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        """Within the block the table is as the cluster is; nothing is decided or written."""
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
        """Try pods until none is ready; others have their turn on the loop now and then."""
        began = time.perf_counter()
        while (queued := self.queue.pop()) is not None:
            self.activity.step()  # and not more: a server that cannot be reached is waited for on the clock
            await self._guarded(queued)
            if time.perf_counter() - began > self.config.turn_s:
                await asyncio.sleep(0)
                began = time.perf_counter()

    async def _guarded(self, queued: Queued) -> None:
        try:
            await self.schedule(queued)
        except ExtenderError as error:
            self._errored(queued, str(error))
        except Exception as fault:
            log.exception("pod %s cannot be scheduled", queued.info.full_name)
            self._errored(queued, str(fault) or type(fault).__name__)

    # -- one pod -----------------------------------------------------------------------------------------------------

    async def schedule(self, queued: Queued) -> None:
        """Find the pod a node and have it bound, or say why there is none."""
        info = queued.info
        if info.pod.metadata.deletionTimestamp is not None:
            self.queue.remove(info.uid)
            message = f"skip schedule deleting pod: {info.full_name}"
            self._say(info, WARNING, "FailedScheduling", "Scheduling", message)
            return
        began = time.perf_counter()
        profile = self._profile(info)
        if (group := profile.together(info)) is not None:
            await GroupCycle(self, profile, group).run(queued)
            return
        cycle = profile.cycle(info, self._clock.now())
        placed = await self.placed(profile, cycle)
        self.metrics.decided(time.perf_counter() - began)
        if placed.diagnosis is not None:
            await self._unplaced(queued, profile, cycle, placed)
            self.metrics.attempted(UNSCHEDULABLE, profile.name, time.perf_counter() - began)
            return
        node = self.table.names[placed.row]
        self.note(queued, placed, node)
        self.metrics.attempted(SCHEDULED, profile.name, time.perf_counter() - began)
        await self._commit(queued, profile, cycle, node)

    async def placed(self, profile: Profile, cycle: Cycle) -> Placed:
        if self.extenders.extenders and self.extenders.has_say(cycle.pod):
            nominated = self._nominated(cycle)
            return await self.extenders.place(profile, cycle, nominated)
        return self._place(profile, cycle)

    def _nominated(self, cycle: Cycle) -> list[tuple[int, list[PodInfo]]]:
        """Pods of the same or a higher priority that room is kept for, by row."""
        nominated = self.nominations.ahead_of(cycle.info, self.table.rows) if self.nominations.by_node else []
        cycle.memo["nominated"] = nominated
        return nominated

    def _place(self, profile: Profile, cycle: Cycle) -> Placed:
        nominated = self._nominated(cycle)
        own = self.nominations.node_of(cycle.info.uid)
        row = self.table.rows.get(own, -1) if own else -1
        if (
            row >= 0
            and profile.fits(cycle, row)
            and all(profile.fits_with(cycle, row, pods) for at, pods in nominated if at == row)
        ):
            return Placed(row, 1)
        return profile.place(cycle, nominated)

    async def _commit(self, queued: Queued, profile: Profile, cycle: Cycle, node: str) -> None:
        """The decision stands: count the pod on the node, and bind it beside the loop."""
        if (status := self.hold(profile, cycle, node)) is not None:
            self._refused(queued, status)
            return
        await self.let_go(queued, profile, cycle, node)

    def hold(self, profile: Profile, cycle: Cycle, node: str) -> Status | None:
        """Count the pod on the node; None if all plug-ins agree."""
        self.feed.assume(cycle.info, node)
        status = profile.reserve(cycle, node)
        if status is not None:
            self.feed.forget(cycle.info.uid)
        return status

    async def let_go(self, queued: Queued, profile: Profile, cycle: Cycle, node: str) -> None:
        """Have a pod that is counted on the node bound, as soon as plug-ins permit."""
        info = queued.info
        status, waits = profile.permit(cycle, node)
        if status is not None:
            profile.unreserve(cycle, node)
            self.feed.forget(info.uid)
            self._refused(queued, status)
            return
        waiting = None
        if waits:
            waiting = WaitingPod(info, node, waits)
            self.waiting.put(waiting)
        else:
            await self._room.acquire()
        self._beside(self._bind(queued, profile, cycle, node, waiting))

    async def _bind(
        self, queued: Queued, profile: Profile, cycle: Cycle, node: str, waiting: WaitingPod | None
    ) -> None:
        info = queued.info
        status: Status | None = None
        if waiting is not None:
            status = await waiting.wait(self._clock)
            self.waiting.remove(info.uid)
            await self._room.acquire()
        try:
            self.activity.step()
            if status is None and profile.has_pre_bind(cycle, node):
                status = await self._pre_bind(profile, cycle, node)
            status = status or await self._tell(profile, cycle, node)
        finally:
            self.activity.step()
            self._room.release()
        if status is not None:
            self._unbound(queued, profile, cycle, node, status)
            return
        self._say(info, NORMAL, "Scheduled", "Binding", f"Successfully assigned {info.full_name} to {node}")
        self.metrics.placed(queued.attempts, max(0.0, self._clock.now() - queued.first))
        profile.post_bind(cycle, node)

    async def _tell(self, profile: Profile, cycle: Cycle, node: str) -> Status | None:
        """The server, by an extender that binds or by the plug-ins."""
        if self.extenders.extenders:
            with self.activity:
                status = await self.extenders.bind(cycle, node)
            if status is None or status.code is not Code.SKIP:
                return status
        return await profile.bind(cycle, node)

    async def _pre_bind(self, profile: Profile, cycle: Cycle, node: str) -> Status | None:
        """That may take minutes, which nobody else shall wait for."""
        self._room.release()
        try:
            return await profile.pre_bind(cycle, node)
        finally:
            await self._room.acquire()

    # -- failures ----------------------------------------------------------------------------------------------------

    async def _unplaced(self, queued: Queued, profile: Profile, cycle: Cycle, placed: Placed) -> None:
        diagnosis = placed.diagnosis
        assert diagnosis is not None
        result = PostFilterResult()
        if diagnosis.count:
            self.metrics.preemptions.inc()
            result = await profile.post_filter(cycle, diagnosis)
            diagnosis.post_filter = result.message
        message = diagnosis.message
        names = tuple(self.table.names)
        self.history.put(
            Decision(
                queued.uid,
                queued.info.full_name,
                self._clock.now(),
                queued.attempts,
                message=message,
                diagnosis=diagnosis,
                names=names,
                nominated=result.nominated or "",
            )
        )
        if result.nominated is not None:
            self.nominations.put(queued.info, result.nominated)
        self.queue.failed(queued, diagnosis.plugins)
        self._tell_failure(queued, message, is_error=False, nominated=result.nominated)
        if result.victims and result.nominated:
            self.metrics.victims.observe(len(result.victims))
            lower = self._outranked(queued.info, result.nominated)
            self._beside(self._writes.preempt(queued.info, result.nominated, result.victims, lower))

    async def lost(self, queued: Queued, profile: Profile, cycle: Cycle, why: Placed | Status) -> None:
        """A pod of a group that found no node, or was not allowed to have it."""
        if isinstance(why, Status):
            self._refused(queued, why)
        else:
            await self._unplaced(queued, profile, cycle, why)

    def apart(self, queued: Queued, plugins: Collection[str], message: str) -> None:
        """A pod that could have a node, but others that it belongs to cannot."""
        self.queue.failed(queued, plugins)
        self._tell_failure(queued, message, is_error=False, nominated="")

    def _refused(self, queued: Queued, status: Status) -> None:
        """By a plug-in that had to agree to the node."""
        if not status.is_rejected:
            self._errored(queued, f"running plugin {status.plugin!r}: {status.message}")
            return
        message = f"0/1 nodes are available: 1 {status.message}."
        self.queue.failed(queued, {status.plugin})
        self._tell_failure(queued, message, is_error=False, nominated="")

    def _unbound(self, queued: Queued, profile: Profile, cycle: Cycle, node: str, status: Status) -> None:
        """The binding failed, or was not allowed: everything as before."""
        profile.unreserve(cycle, node)
        if self.feed.forget(queued.uid):
            self.feed.freed(queued.info)
        if status.is_rejected:
            self._refused(queued, status)
        else:
            self._errored(queued, f"running Bind plugin {status.plugin!r}: {status.message}")

    def _errored(self, queued: Queued, message: str) -> None:
        self.metrics.attempted(ERROR, queued.info.pod.spec.schedulerName or DEFAULT_SCHEDULER, 0.0)
        self.queue.errored(queued)
        self._tell_failure(queued, message, is_error=True, nominated="")

    def _tell_failure(self, queued: Queued, message: str, *, is_error: bool, nominated: str | None) -> None:
        info = queued.info
        if self.queue.get(info.uid) is not queued:
            return  # it is gone, or somebody else has found it a node
        self._say(info, WARNING, "FailedScheduling", "Scheduling", message)
        if self._recorder is not None:
            self._recorder.note(COMPONENT, "schedule", f"pods/{info.full_name}", uid=info.uid, outcome=message)
        self._beside(self._writes.unschedulable(info.pod, message, is_error=is_error, nominated=nominated))

    # -- parts -------------------------------------------------------------------------------------------------------

    def _without_ignored(self, profile: ProfileConfig) -> ProfileConfig:
        """Resources that extenders see to alone are nobody else's."""
        ignored = self.extenders.ignored_resources
        if not ignored:
            return profile
        fit = profile.args.get("NodeResourcesFit", {})
        fit = {**fit, "ignoredResources": sorted({*fit.get("ignoredResources", ()), *ignored})}
        return replace(profile, args={**profile.args, "NodeResourcesFit": fit})

    def note(self, queued: Queued, placed: Placed, node: str) -> None:
        info = queued.info
        now = self._clock.now()
        self.history.put(
            Decision(
                info.uid, info.full_name, now, queued.attempts, node=node, feasible=placed.feasible, score=placed.score
            )
        )
        if self._recorder is not None:
            self._recorder.note(COMPONENT, "schedule", f"pods/{info.full_name}", uid=info.uid, outcome=node)

    def _outranked(self, info: PodInfo, node: str) -> list[PodInfo]:
        """Pods of lower priority that room was kept for on the node."""
        found = self.nominations.by_node.get(node, {}).values()
        lower = [other for other in found if other.priority < info.priority]
        for other in lower:
            self.nominations.drop(other.uid)
            self.queue.activate(other.uid)
        return lower

    def now(self) -> float:
        return self._clock.now()

    def _gate(self, info: PodInfo) -> Status | None:
        for plugin in self._profile(info).points["preEnqueue"]:
            status: Status | None = plugin.pre_enqueue(info)
            if status is not None:
                return Status(status.code, status.reasons, plugin.name)
        return None

    def _profile(self, info: PodInfo) -> Profile:
        return self.profiles[info.pod.spec.schedulerName or DEFAULT_SCHEDULER]

    def _say(self, info: PodInfo, type: str, reason: str, action: str, note: str) -> None:
        self.events.say(info.pod, type, reason, action, note, source=info.pod.spec.schedulerName or DEFAULT_SCHEDULER)

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None
        self._tasks.create_task(work)


__all__ = ["COMPONENT", "Scheduler"]
