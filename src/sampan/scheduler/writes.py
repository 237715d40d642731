"""What the scheduler writes besides bindings: conditions of pods, and evictions to make room."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from sampan.api import times
from sampan.api.types.core_v1 import Pod
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, Delete
from sampan.machinery.clock import Clock
from sampan.scheduler.conditions import (
    DISRUPTION_TARGET,
    POD_SCHEDULED,
    PREEMPTED,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    status_patch,
)
from sampan.scheduler.events import NORMAL, Events
from sampan.scheduler.pod_info import DEFAULT_SCHEDULER, PodInfo

log = logging.getLogger(__name__)


class PodWrites:
    def __init__(self, *, client: Client, clock: Clock, events: Events) -> None:
        self._pods, self._clock, self._events = client.of(Pod), clock, events

    async def unschedulable(self, pod: Pod, message: str, *, is_error: bool, nominated: str | None) -> None:
        """Tell on the pod why it waits."""
        reason = SCHEDULER_ERROR if is_error else UNSCHEDULABLE
        patch = status_patch(
            pod,
            type=POD_SCHEDULED,
            status="False",
            reason=reason,
            message=message,
            now=self._now(),
            nominated=nominated,
        )
        await self._patch(pod, patch)

    async def preempt(self, info: PodInfo, node: str, victims: Sequence[PodInfo], lower: Sequence[PodInfo]) -> None:
        """Evict the victims, and take the nominations back that they make void."""
        for other in lower:
            if other.pod.status.nominatedNodeName:
                await self._patch(other.pod, {"status": {"nominatedNodeName": None}})
        for victim in victims:
            if victim.pod.metadata.deletionTimestamp is None:
                await self._evict(info, node, victim.pod)

    async def _evict(self, info: PodInfo, node: str, victim: Pod) -> None:
        source = info.pod.spec.schedulerName or DEFAULT_SCHEDULER
        patch = status_patch(
            victim,
            type=DISRUPTION_TARGET,
            status="True",
            reason=PREEMPTED,
            message=f"{source}: preempting to accommodate a higher priority pod",
            now=self._now(),
        )
        if not await self._patch(victim, patch):
            return
        meta = victim.metadata
        try:
            await self._pods.delete(meta.name, meta.namespace, options=Delete(uid=meta.uid))
        except errors.NotFound:
            return
        except (errors.ApiError, ConnectionFailed) as failure:
            log.warning("pod %s/%s cannot be preempted: %s", meta.namespace, meta.name, failure)
            return
        note = f"Preempted by pod {info.uid} on node {node}"
        self._events.say(victim, NORMAL, "Preempted", "Preempting", note, source=source, related=info.pod)

    async def _patch(self, pod: Pod, patch: dict[str, Any] | None) -> bool:
        """Whether the pod is still there."""
        if patch is None:
            return True
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid}, **patch}
        try:
            await self._pods.patch(meta.name, patch, meta.namespace, subresource="status")
        except (errors.NotFound, errors.Conflict):
            return False
        except (errors.ApiError, ConnectionFailed) as failure:
            log.warning("status of pod %s/%s: %s", meta.namespace, meta.name, failure)
        return True

    def _now(self) -> str:
        return times.format_time(self._clock.now())


__all__ = ["PodWrites"]
