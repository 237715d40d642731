"""Caches the usage of pods' volumes, because measuring it may take long."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.volumes.sizes import VolumeUsage
from sampan.machinery.clock import Clock

_KEPT_S = 60.0


class VolumeFigures:
    def __init__(self, *, usage: Callable[[Pod], Awaitable[Sequence[VolumeUsage]]], clock: Clock) -> None:
        self._usage, self._clock = usage, clock
        self._kept: dict[str, tuple[float, Sequence[VolumeUsage]]] = {}

    async def of(self, pod: Pod) -> Sequence[VolumeUsage]:
        uid, now = pod.metadata.uid, self._clock.monotonic()
        at, usages = self._kept.get(uid, (-_KEPT_S, ()))
        if not 0 <= now - at < _KEPT_S:
            usages = await self._usage(pod)
            self._kept[uid] = (now, usages)
        return usages

    def keep_only(self, uids: set[str]) -> None:
        for uid in self._kept.keys() - uids:
            del self._kept[uid]
