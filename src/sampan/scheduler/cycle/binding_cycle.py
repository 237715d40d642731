"""The binding cycle: a pod is assumed on its node at once and bound concurrently with the scheduling loop."""

from __future__ import annotations

import asyncio
import time

from sampan.host.activity import Activity
from sampan.host.clock import Clock
from sampan.scheduler.cache.scheduler_cache import SchedulerCache
from sampan.scheduler.cycle.decision_recorder import DecisionRecorder
from sampan.scheduler.cycle.failure_handler import FailureHandler, StartTask
from sampan.scheduler.cycle.pod_status import PodStatusWriter
from sampan.scheduler.extenders.extender_chain import ExtenderChain
from sampan.scheduler.framework.contract import Code, CycleState, Status
from sampan.scheduler.framework.framework import Framework
from sampan.scheduler.framework.waiting_pods import WaitingPod, WaitingPods
from sampan.scheduler.metrics import SCHEDULED, SchedulerMetrics
from sampan.scheduler.scheduling_queue import QueuedPodInfo


class BindingCycle:
    def __init__(
        self,
        *,
        cache: SchedulerCache,
        waiting: WaitingPods,
        extenders: ExtenderChain,
        metrics: SchedulerMetrics,
        decisions: DecisionRecorder,
        pod_status: PodStatusWriter,
        failures: FailureHandler,
        clock: Clock,
        activity: Activity,
        max_bindings: int,
        start_task: StartTask,
    ) -> None:
        """Allow at most `max_bindings` concurrent bindings. `start_task` starts a binding as a task of
        the scheduler."""
        self._cache, self._waiting, self._extenders, self._metrics = cache, waiting, extenders, metrics
        self._decisions, self._pod_status, self._failures = decisions, pod_status, failures
        self._clock, self._activity, self._start_task = clock, activity, start_task
        self._slots = asyncio.Semaphore(max_bindings)

    def reserve(self, framework: Framework, cycle: CycleState, node: str) -> Status | None:
        """Assume the pod on the node and run the Reserve plugins; return None if all of them succeed."""
        self._cache.assume(cycle.info, node)
        status = framework.binding_points.reserve(cycle, node)
        if status is not None:
            self._cache.forget(cycle.info.uid)
        return status

    async def start_binding(self, queued: QueuedPodInfo, framework: Framework, cycle: CycleState, node: str) -> None:
        """Run the Permit plugins for an assumed pod and start its binding, which waits if a plugin requires it."""
        info = queued.info
        status, waits = framework.binding_points.permit(cycle, node)
        if status is not None:
            framework.binding_points.unreserve(cycle, node)
            self._cache.forget(info.uid)
            self._failures.handle_rejected(queued, status)
            return
        waiting = None
        if waits:
            waiting = WaitingPod(info, node, waits)
            self._waiting.put(waiting)
        else:
            await self._slots.acquire()
        self._metrics.binding.inc()
        self._start_task(self._run(queued, framework, cycle, node, waiting))

    async def _run(
        self, queued: QueuedPodInfo, framework: Framework, cycle: CycleState, node: str, waiting: WaitingPod | None
    ) -> None:
        has_pre_bind = framework.binding_points.has_pre_bind(cycle, node)
        status: Status | None = None
        if waiting is not None:
            status = await self._wait_on_permit(waiting)
            await self._slots.acquire()
        try:
            self._activity.step()
            if status is None and has_pre_bind:
                status = await self._pre_bind(framework, cycle, node, is_nominated=waiting is not None)
            began = time.perf_counter()
            status = status or await self._bind_pod(framework, cycle, node)
        finally:
            self._activity.step()
            self._slots.release()
            self._metrics.binding.dec()
        if status is not None:
            await self._handle_failure(queued, framework, cycle, node, status)
            return
        self._decisions.record_binding(queued.info, node, took_s=time.perf_counter() - began)
        self._finish(queued, framework, cycle, node)

    async def _wait_on_permit(self, waiting: WaitingPod) -> Status | None:
        """Wait for the Permit plugins; return None when all of them have allowed the pod.

        The node is written to `nominatedNodeName` at the same time, so that other components can see where the pod will
        go.
        """
        began = self._clock.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pod_status.nominate(waiting.info.pod, waiting.node))
                status = await waiting.wait(self._clock)
        finally:
            self._waiting.remove(waiting.info.uid)
        code = Code.SUCCESS if status is None else status.code
        self._metrics.permit_waits.labels(code.value).observe(max(0.0, self._clock.monotonic() - began))
        return status

    async def _pre_bind(
        self, framework: Framework, cycle: CycleState, node: str, *, is_nominated: bool
    ) -> Status | None:
        """Run the PreBind plugins without occupying a binding slot, because they may take minutes."""
        self._slots.release()
        try:
            if not is_nominated:
                await self._pod_status.nominate(cycle.pod, node)
            return await self._waiting.run_pre_bind(cycle.info.uid, framework.binding_points.pre_bind(cycle, node))
        finally:
            await self._slots.acquire()

    async def _bind_pod(self, framework: Framework, cycle: CycleState, node: str) -> Status | None:
        """Bind through an extender that implements bind, or else through the Bind plugins."""
        if self._extenders.extenders:
            with self._activity:
                status = await self._extenders.bind(cycle, node)
            if status is None or status.code is not Code.SKIP:
                return status
        return await framework.binding_points.bind(cycle, node)

    def _finish(self, queued: QueuedPodInfo, framework: Framework, cycle: CycleState, node: str) -> None:
        self._metrics.record_attempt(SCHEDULED, framework.name, time.perf_counter() - queued.began)
        self._metrics.record_scheduled_pod(queued, self._clock.monotonic())
        framework.binding_points.post_bind(cycle, node)

    async def _handle_failure(
        self, queued: QueuedPodInfo, framework: Framework, cycle: CycleState, node: str, status: Status
    ) -> None:
        """Undo a binding that failed or was not permitted: unreserve, forget the assumed pod and requeue it."""
        framework.binding_points.unreserve(cycle, node)
        await framework.binding_points.rollback_pre_bind(cycle, node)
        self._failures.handle_binding_failure(queued, status, was_assumed=self._cache.forget(queued.uid))
