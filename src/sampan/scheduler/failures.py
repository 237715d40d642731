"""Attempts that came to nothing: the pod goes back into the queue, and it is told why."""

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
        """`newest` gives a pod as it is now, `beside` starts what may take its time."""
        self._queue, self._nominations, self._metrics = queue, nominations, metrics
        self._telling, self._writes, self._evictions = telling, writes, evictions
        self._newest, self._beside = newest, beside

    async def unplaced(self, queued: Queued, profile: Profile, cycle: Cycle, diagnosis: Diagnosis) -> None:
        """No node will do; perhaps one can be made to."""
        result = await self.remedy(profile, cycle, diagnosis) if diagnosis.count else PostFilterResult()
        self.told(queued, cycle, diagnosis, result)

    async def remedy(self, profile: Profile, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """What plug-ins would do about it; nothing is done yet. One that fails can do nothing."""
        self._metrics.preemptions.inc()
        try:
            result = await profile.post_filter(cycle, diagnosis)
        except Exception as fault:
            is_surprise = not isinstance(fault, ExtenderError)
            log.warning(
                "cannot handle the scheduling failure of pod %s: %s", cycle.info.full_name, fault, exc_info=is_surprise
            )
            result = PostFilterResult(message=str(fault) or type(fault).__name__)
        diagnosis.post_filter = result.message
        return result

    def told(self, queued: Queued, cycle: Cycle, diagnosis: Diagnosis, result: PostFilterResult) -> None:
        """No node will do; with the remedy that there is, if any."""
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
            self._queue.activate(info.uid)  # nothing else may ever wake it

    def refused(self, queued: Queued, status: Status) -> None:
        """The node, by a plug-in that had to agree to it or failed to."""
        if status.is_rejected:
            self._back(queued, {status.plugin}, f"0/1 nodes are available: 1 {status.message}.", nominated="")
        else:
            self.errored(queued, status.message)

    def apart(self, queued: Queued, plugins: Collection[str], message: str, *, nominated: str = "") -> None:
        """A pod that could have a node, but others that it belongs to cannot."""
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
        """Changes of a pod that is counted on a node pass the queue by."""
        self._queue.renew(queued, self._newest(queued.info))

    def _tell(self, queued: Queued, message: str, *, is_error: bool, nominated: str | None) -> None:
        info = queued.info
        if self._queue.get(info.uid) is not queued:
            return  # it is gone, or somebody else has found it a node
        self._telling.failed(info, message)
        self._beside(self._writes.unschedulable(info.pod, message, is_error=is_error, nominated=nominated))

    def _count(self, result: str, queued: Queued) -> None:
        profile = queued.info.pod.spec.schedulerName or DEFAULT_SCHEDULER
        self._metrics.attempted(result, profile, time.perf_counter() - queued.began)


__all__ = ["Failures"]
