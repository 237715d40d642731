"""Writes to the status of pods other than bindings: the PodScheduled condition and the nominated node."""

from __future__ import annotations

import logging
from typing import Any

from sampan.api import times
from sampan.api.types.core_v1 import Pod
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.clock import Clock
from sampan.scheduler.conditions import POD_SCHEDULED, SCHEDULER_ERROR, UNSCHEDULABLE, status_patch

log = logging.getLogger(__name__)


class PodWrites:
    def __init__(self, *, client: Client, clock: Clock) -> None:
        self._pods, self._clock = client.of(Pod), clock

    async def unschedulable(self, pod: Pod, message: str, *, is_error: bool, nominated: str | None) -> None:
        """Set the PodScheduled condition to False with the reason; log errors instead of raising them."""
        patch = status_patch(
            pod,
            type=POD_SCHEDULED,
            status="False",
            reason=SCHEDULER_ERROR if is_error else UNSCHEDULABLE,
            message=message,
            now=times.format_time(self._clock.now()),
            nominated=nominated,
        )
        await self._tried(pod, patch)

    async def nominate(self, pod: Pod, node: str) -> None:
        """Set or, with an empty name, clear the nominated node of the pod; log errors instead of raising them."""
        if pod.status.nominatedNodeName != node:
            await self._tried(pod, {"status": {"nominatedNodeName": node or None}})

    async def patch(self, pod: Pod, patch: dict[str, Any] | None) -> bool:
        """Patch the pod's status; return whether the pod still exists, and let other API errors propagate."""
        if patch is None:
            return True
        meta = pod.metadata
        try:
            await self._pods.patch(
                meta.name, {"metadata": {"uid": meta.uid}, **patch}, meta.namespace, subresource="status"
            )
        except (errors.NotFound, errors.Conflict):
            return False
        return True

    async def _tried(self, pod: Pod, patch: dict[str, Any] | None) -> None:
        try:
            await self.patch(pod, patch)
        except (errors.ApiError, ConnectionFailed) as failure:
            log.warning("cannot update the status of pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, failure)
