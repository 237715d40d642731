"""Failed scheduling attempts: the pod is requeued, and the reason is published as an event and a condition."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from sampan.scheduler.diagnosis import Diagnosis
from sampan.scheduler.evictions import Evictions
from sampan.scheduler.extenders.http_extender import ExtenderError
from sampan.scheduler.framework.contract import Cycle, PostFilterResult, Status
from sampan.scheduler.framework.profile import Profile
from sampan.scheduler.metrics import ERROR, UNSCHEDULABLE, SchedulerMetrics
from sampan.scheduler.nominations import Nominations
from sampan.scheduler.pod_info import DEFAULT_SCHEDULER, PodInfo
from sampan.scheduler.queue import SchedulingQueue
from sampan.scheduler.queued import Queued
from sampan.scheduler.telling import Telling
from sampan.scheduler.writes import PodWrites

log = logging.getLogger(__name__)


class Failures:
    def __init__(
        self,
        *,
        queue: SchedulingQueue,
        nominations: Nominations,
        metrics: SchedulerMetrics,
        telling: Telling,
        writes: PodWrites,
        evictions: Evictions,
        newest: Callable[[PodInfo], PodInfo],
        beside: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """Take `newest`, which returns the current state of a pod, and `beside`, which starts a concurrent task."""
        self._queue, self._nominations, self._metrics = queue, nominations, metrics
        self._telling, self._writes, self._evictions = telling, writes, evictions
        self._newest, self._beside = newest, beside

    async def unplaced(self, queued: Queued, profile: Profile, cycle: Cycle, diagnosis: Diagnosis) -> None:
        """Handle a pod that fits no node: run the PostFilter plug-ins, publish the failure and requeue the pod."""
        result = await self.remedy(profile, cycle, diagnosis) if diagnosis.count else PostFilterResult()
        self.told(queued, cycle, diagnosis, result)

    async def remedy(self, profile: Profile, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Return what the PostFilter plug-ins propose, without acting on it; a plug-in that raises proposes nothing."""
        self._metrics.preemptions.inc()
        try:
            result = await profile.post_filter(cycle, diagnosis)
        except Exception as error:
            is_surprise = not isinstance(error, ExtenderError)
            log.warning(
                "cannot handle the scheduling failure of pod %s: %s", cycle.info.full_name, error, exc_info=is_surprise
            )
            result = PostFilterResult(message=str(error) or type(error).__name__)
        diagnosis.post_filter = result.message
        return result

    def told(self, queued: Queued, cycle: Cycle, diagnosis: Diagnosis, result: PostFilterResult) -> None:
        """Publish that no node fits, requeue the pod, and start the evictions that `result` proposes."""
        self._telling.unplaced(queued, diagnosis, tuple(cycle.table.names), result.nominated or "")
        if result.nominated is not None:
            self._nominations.put(queued.info, result.nominated)
        self._back(queued, diagnosis.plugins, diagnosis.message, nominated=result.nominated)
        if result.victims and result.nominated:
            self._metrics.victims.observe(len(result.victims))
            self._beside(self._make_room(queued.info, result.nominated, result.victims))

    async def _make_room(self, info: PodInfo, node: str, victims: Collection[PodInfo]) -> None:
        lower = self._nominations.behind(info, node)
        for other in lower:
            self._nominations.drop(other.uid)
            self._queue.activate(other.uid)
        if not await self._evictions.make_room(info, node, tuple(victims), lower):
            self._queue.activate(info.uid)  # no event may ever requeue it otherwise

    def refused(self, queued: Queued, status: Status) -> None:
        """Handle a pod whose node was rejected, or that failed, at Reserve or later."""
        if status.is_rejected:
            self._back(queued, {status.plugin}, f"0/1 nodes are available: 1 {status.message}.", nominated="")
        else:
            self.errored(queued, status.message)

    def apart(self, queued: Queued, plugins: Collection[str], message: str, *, nominated: str = "") -> None:
        """Handle a pod that fits a node while other pods of its group do not."""
        self._back(queued, plugins, message, nominated=nominated)

    def errored(self, queued: Queued, message: str) -> None:
        self._count(ERROR, queued)
        self._renew(queued)
        self._queue.errored(queued)
        self._tell(queued, message, is_error=True, nominated="")

    # -- parts -------------------------------------------------------------------------------------------------------

    def _back(self, queued: Queued, plugins: Collection[str], message: str, *, nominated: str | None) -> None:
        self._count(UNSCHEDULABLE, queued)
        self._renew(queued)
        self._queue.failed(queued, plugins)
        self._tell(queued, message, is_error=False, nominated=nominated)

    def _renew(self, queued: Queued) -> None:
        """Take over changes of the pod during the attempt; the queue ignores changes of assumed pods."""
        self._queue.renew(queued, self._newest(queued.info))

    def _tell(self, queued: Queued, message: str, *, is_error: bool, nominated: str | None) -> None:
        info = queued.info
        if self._queue.get(info.uid) is not queued:
            return  # the pod was deleted or bound meanwhile
        self._telling.failed(info, message)
        self._beside(self._writes.unschedulable(info.pod, message, is_error=is_error, nominated=nominated))

    def _count(self, result: str, queued: Queued) -> None:
        profile = queued.info.pod.spec.schedulerName or DEFAULT_SCHEDULER
        self._metrics.attempted(result, profile, time.perf_counter() - queued.began)
