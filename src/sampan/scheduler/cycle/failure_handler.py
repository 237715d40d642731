"""Failed scheduling attempts: the pod is requeued, the reason is published, and the victims of preemption are evicted.

The counterparts are `handleSchedulingFailure` in `pkg/scheduler/schedule_one.go` and
`pkg/scheduler/framework/preemption/executor.go`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

from sampan.api.types.core_v1 import Pod
from sampan.api.values import times
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, DeleteParameters
from sampan.scheduler.cache.pod_info import DEFAULT_SCHEDULER, PodInfo
from sampan.scheduler.cache.scheduler_cache import Nominator
from sampan.scheduler.cycle.decision_recorder import NORMAL, DecisionRecorder, PodEventRecorder
from sampan.scheduler.cycle.pod_status import DISRUPTION_TARGET, PREEMPTED, PodStatusWriter, status_patch
from sampan.scheduler.extenders.http_extender import ExtenderError
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource
from sampan.scheduler.framework.contract import CycleState, PostFilterResult, Status
from sampan.scheduler.framework.diagnosis import Diagnosis
from sampan.scheduler.framework.framework import Framework
from sampan.scheduler.framework.waiting_pods import WaitingPods
from sampan.scheduler.metrics import ERROR, UNSCHEDULABLE, SchedulerMetrics
from sampan.scheduler.scheduling_queue import QueuedPodInfo, SchedulingQueue

log = logging.getLogger(__name__)


StartTask = Callable[[Coroutine[Any, Any, None]], object]
"""Starts a task of the scheduler beside the scheduling loop."""

_POD_DELETED = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)


class FailureHandler:
    def __init__(
        self,
        *,
        queue: SchedulingQueue,
        nominator: Nominator,
        metrics: SchedulerMetrics,
        decisions: DecisionRecorder,
        pod_status: PodStatusWriter,
        preemption: PreemptionExecutor,
        latest: Callable[[PodInfo], PodInfo],
        start_task: StartTask,
    ) -> None:
        """Create the handler. `latest` returns the current state of a pod, and `start_task` starts a concurrent
        task."""
        self._queue, self._nominator, self._metrics = queue, nominator, metrics
        self._decisions, self._pod_status, self._preemption = decisions, pod_status, preemption
        self._latest, self._start_task = latest, start_task

    async def handle_unschedulable(
        self, queued: QueuedPodInfo, framework: Framework, cycle: CycleState, diagnosis: Diagnosis
    ) -> None:
        """Handle a pod that fits no node: run the PostFilter plugins, publish the failure and requeue the pod."""
        result = await self.run_post_filter(framework, cycle, diagnosis) if diagnosis.count else PostFilterResult()
        self.publish_unschedulable(queued, cycle, diagnosis, result)

    async def run_post_filter(
        self, framework: Framework, cycle: CycleState, diagnosis: Diagnosis, *, is_for_group: bool = False
    ) -> PostFilterResult:
        """Return the proposal of the PostFilter plugins without acting on it. A plugin that raises proposes
        nothing."""
        self._metrics.preemptions.inc()
        try:
            result = await framework.post_filter(cycle, diagnosis, is_for_group=is_for_group)
        except Exception as error:
            is_surprise = not isinstance(error, ExtenderError)
            log.warning(
                "cannot handle the scheduling failure of pod %s: %s", cycle.info.full_name, error, exc_info=is_surprise
            )
            result = PostFilterResult(message=framework.describe_failure(error))
        diagnosis.post_filter = result.message
        return result

    def publish_unschedulable(
        self, queued: QueuedPodInfo, cycle: CycleState, diagnosis: Diagnosis, result: PostFilterResult
    ) -> None:
        """Publish that no node fits, requeue the pod, and start the evictions that `result` proposes."""
        self._decisions.record_unschedulable(queued, diagnosis, tuple(cycle.table.names), result.nominated or "")
        if result.nominated is not None:
            self._nominator.add(queued.info, result.nominated)
        self._requeue(queued, diagnosis.plugins, diagnosis.message, nominated=result.nominated)
        if result.victims and result.nominated:
            self._metrics.victims.observe(len(result.victims))
            self._start_task(self._preempt(queued.info, result.nominated, result.victims))

    async def _preempt(self, info: PodInfo, node: str, victims: Collection[PodInfo]) -> None:
        lower = self._nominator.list_lower_priority_pods(info, node)
        for other in lower:
            self._nominator.delete(other.uid)
            self._queue.activate(other.uid)
        if not await self._preemption.evict_victims(info, node, tuple(victims), lower):
            self._queue.activate(info.uid)  # without evictions, no event may ever requeue the pod

    def handle_rejected(self, queued: QueuedPodInfo, status: Status) -> None:
        """Handle a pod whose node was rejected, or that failed, at Reserve or later."""
        if status.is_rejected:
            self._requeue(queued, {status.plugin}, f"0/1 nodes are available: 1 {status.message}.", nominated="")
        else:
            self.handle_error(queued, status.message)

    def handle_binding_failure(self, queued: QueuedPodInfo, status: Status, *, was_assumed: bool) -> None:
        """Handle a pod whose binding failed. If it was assumed until now, other pods may use the resources that it
        releases."""
        self.handle_rejected(queued, status)
        if was_assumed:
            self._queue.on_event(_POD_DELETED, queued.info.pod, None, except_uid=queued.uid)

    def handle_incomplete_group(
        self, queued: QueuedPodInfo, plugins: Collection[str], message: str, *, nominated: str = ""
    ) -> None:
        """Handle a pod that fits a node while other pods of its group do not."""
        self._requeue(queued, plugins, message, nominated=nominated)

    def handle_error(self, queued: QueuedPodInfo, message: str) -> None:
        self._count(ERROR, queued)
        self._refresh(queued)
        self._queue.requeue_after_error(queued)
        self._publish(queued, message, is_error=True, nominated="")

    # -- parts -------------------------------------------------------------------------------------------------------

    def _requeue(self, queued: QueuedPodInfo, plugins: Collection[str], message: str, *, nominated: str | None) -> None:
        self._count(UNSCHEDULABLE, queued)
        self._refresh(queued)
        self._queue.requeue_unschedulable(queued, plugins)
        self._publish(queued, message, is_error=False, nominated=nominated)

    def _refresh(self, queued: QueuedPodInfo) -> None:
        """Take over changes of the pod during the attempt; the queue ignores changes of assumed pods."""
        self._queue.renew(queued, self._latest(queued.info))

    def _publish(self, queued: QueuedPodInfo, message: str, *, is_error: bool, nominated: str | None) -> None:
        info = queued.info
        if self._queue.get(info.uid) is not queued:
            return  # the pod was deleted or bound meanwhile
        self._decisions.record_failure(info, message)
        self._start_task(self._pod_status.mark_unschedulable(info.pod, message, is_error=is_error, nominated=nominated))

    def _count(self, result: str, queued: QueuedPodInfo) -> None:
        profile = queued.info.pod.spec.schedulerName or DEFAULT_SCHEDULER
        self._metrics.record_attempt(result, profile, time.perf_counter() - queued.began)


PLUGIN = "DefaultPreemption"


class PreemptionExecutor:
    def __init__(
        self,
        *,
        client: Client,
        clock: Clock,
        events: PodEventRecorder,
        pod_status: PodStatusWriter,
        nominator: Nominator,
        waiting: WaitingPods,
    ) -> None:
        self._pods, self._clock, self._events, self._pod_status = client.for_kind(Pod), clock, events, pod_status
        self._nominator, self._waiting = nominator, waiting

    async def evict_victims(
        self, info: PodInfo, node: str, victims: Sequence[PodInfo], lower: Sequence[PodInfo]
    ) -> bool:
        """Evict the victims and clear the nominations of the pods in `lower`; return whether all evictions succeeded.

        The first failed eviction ends the attempt; the pod has to be tried again.
        """
        self._nominator.evicting.add(info.uid)
        try:
            for other in lower:
                await self._pod_status.nominate(other.pod, "")
            going = [candidate for candidate in victims if candidate.pod.metadata.deletionTimestamp is None]
            for victim in going:
                if not await self._evict(info, node, victim):
                    return False
            return True
        finally:
            self._nominator.evicting.discard(info.uid)

    async def _evict(self, info: PodInfo, node: str, victim: PodInfo) -> bool:
        source = info.pod.spec.schedulerName or DEFAULT_SCHEDULER
        note = f"Preempted by pod {info.uid} on node {node}"
        preemptable = self._waiting.preemptable(victim.uid)
        if preemptable is not None and preemptable.preempt(PLUGIN):
            note += " (in kube-scheduler memory)."
        else:
            try:
                if not await self._delete(victim.pod, source):
                    return True
            except (errors.ApiError, ConnectionFailed) as failure:
                log.warning("cannot preempt pod %s: %s", victim.full_name, failure)
                return False
        self._events.record(victim.pod, NORMAL, "Preempted", "Preempting", note, source=source, related=info.pod)
        return True

    async def _delete(self, victim: Pod, source: str) -> bool:
        """Set the DisruptionTarget condition and delete the pod; return whether it still existed."""
        patch = status_patch(
            victim,
            type=DISRUPTION_TARGET,
            status="True",
            reason=PREEMPTED,
            message=f"{source}: preempting to accommodate a higher priority pod",
            now=times.format_time(self._clock.now()),
        )
        if not await self._pod_status.patch(victim, patch):
            return False
        meta = victim.metadata
        try:
            await self._pods.delete(meta.name, meta.namespace, options=DeleteParameters(uid=meta.uid))
        except (errors.NotFound, errors.Conflict):
            return False
        return True
