"""Eviction of the victims that preemption has chosen."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sampan.api import times
from sampan.api.types.core_v1 import Pod
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, Delete
from sampan.machinery.clock import Clock
from sampan.scheduler.conditions import DISRUPTION_TARGET, PREEMPTED, status_patch
from sampan.scheduler.events import NORMAL, Events
from sampan.scheduler.nominations import Nominations
from sampan.scheduler.pod_info import DEFAULT_SCHEDULER, PodInfo
from sampan.scheduler.waiting import WaitingPods
from sampan.scheduler.writes import PodWrites

log = logging.getLogger(__name__)

BY = "DefaultPreemption"


class Evictions:
    def __init__(
        self,
        *,
        client: Client,
        clock: Clock,
        events: Events,
        writes: PodWrites,
        nominations: Nominations,
        waiting: WaitingPods,
    ) -> None:
        self._pods, self._clock, self._events, self._writes = client.of(Pod), clock, events, writes
        self._nominations, self._waiting = nominations, waiting

    async def make_room(self, info: PodInfo, node: str, victims: Sequence[PodInfo], lower: Sequence[PodInfo]) -> bool:
        """Evict the victims and clear the nominations of the pods in `lower`; return whether all evictions succeeded.

        The first failed eviction ends the attempt; the pod has to be tried again.
        """
        self._nominations.evicting.add(info.uid)
        try:
            for other in lower:
                await self._writes.nominate(other.pod, "")
            going = [candidate for candidate in victims if candidate.pod.metadata.deletionTimestamp is None]
            for victim in going:
                if not await self._evict(info, node, victim):
                    return False
            return True
        finally:
            self._nominations.evicting.discard(info.uid)

    async def _evict(self, info: PodInfo, node: str, victim: PodInfo) -> bool:
        source = info.pod.spec.schedulerName or DEFAULT_SCHEDULER
        note = f"Preempted by pod {info.uid} on node {node}"
        unbound = self._waiting.unbound(victim.uid)
        if unbound is not None and unbound.preempt(BY):
            note += " (in kube-scheduler memory)."
        else:
            try:
                if not await self._delete(victim.pod, source):
                    return True
            except (errors.ApiError, ConnectionFailed) as failure:
                log.warning("cannot preempt pod %s: %s", victim.full_name, failure)
                return False
        self._events.say(victim.pod, NORMAL, "Preempted", "Preempting", note, source=source, related=info.pod)
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
        if not await self._writes.patch(victim, patch):
            return False
        meta = victim.metadata
        try:
            await self._pods.delete(meta.name, meta.namespace, options=Delete(uid=meta.uid))
        except (errors.NotFound, errors.Conflict):
            return False
        return True
