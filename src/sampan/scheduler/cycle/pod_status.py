"""Writes to the status of pods: the PodScheduled and DisruptionTarget conditions and the nominated node."""

from __future__ import annotations

import logging
from typing import Any

from sampan.api.semantics.conditions import find_condition
from sampan.api.types.core_v1 import Pod
from sampan.api.values import times
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed

log = logging.getLogger(__name__)


class PodStatusWriter:
    def __init__(self, *, client: Client, clock: Clock) -> None:
        self._pods, self._clock = client.for_kind(Pod), clock

    async def mark_unschedulable(self, pod: Pod, message: str, *, is_error: bool, nominated: str | None) -> None:
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
        await self._try_patch(pod, patch)

    async def nominate(self, pod: Pod, node: str) -> None:
        """Set or, with an empty name, clear the nominated node of the pod; log errors instead of raising them."""
        if pod.status.nominatedNodeName != node:
            await self._try_patch(pod, {"status": {"nominatedNodeName": node or None}})

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

    async def _try_patch(self, pod: Pod, patch: dict[str, Any] | None) -> None:
        try:
            await self.patch(pod, patch)
        except (errors.ApiError, ConnectionFailed) as failure:
            log.warning("cannot update the status of pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, failure)


POD_SCHEDULED, DISRUPTION_TARGET = "PodScheduled", "DisruptionTarget"
UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"
PREEMPTED = "PreemptionByScheduler"


def status_patch(
    pod: Pod, *, type: str, status: str, reason: str, message: str, now: str, nominated: str | None = None
) -> dict[str, Any] | None:
    """Return the patch that sets the condition and the nominated node, or None if the pod already has both."""
    patch: dict[str, Any] = {}
    old = find_condition(pod.status.conditions, type)
    if old is None or (old.status, old.reason, old.message) != (status, reason, message):
        since = old.lastTransitionTime if old is not None and old.status == status else now
        patch["conditions"] = [
            {
                "type": type,
                "observedGeneration": pod.metadata.generation,
                "status": status,
                "lastProbeTime": None,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
        ]
    if nominated is not None and nominated != pod.status.nominatedNodeName:
        patch["nominatedNodeName"] = nominated or None
    return {"status": patch} if patch else None
