"""Measures the usage of volumes, caches it, and finds volumes that exceed their size limit."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sampan.api.types.core_v1 import Pod, Volume
from sampan.api.values import quantity
from sampan.host.clock import Clock
from sampan.host.linux.directory_trees import TreeMeter


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeUsage:
    name: str
    used_bytes: int
    capacity_bytes: int
    available_bytes: int
    used_inodes: int
    inodes: int
    free_inodes: int
    claim: str = ""


def measure(name: str, path: Path, meter: TreeMeter, *, is_file_system: bool, claim: str = "") -> VolumeUsage:
    """Measure the usage of a volume. `is_file_system` says whether the volume is a file system of its own; otherwise
    `meter` counts its files.
    """
    whole = os.statvfs(path)
    capacity, available = whole.f_blocks * whole.f_frsize, whole.f_bavail * whole.f_frsize
    if is_file_system:
        used, files = capacity - whole.f_bfree * whole.f_frsize, whole.f_files - whole.f_ffree
    else:
        used, files = meter.measure(path)
    return VolumeUsage(
        name=name,
        used_bytes=used,
        capacity_bytes=capacity,
        available_bytes=available,
        used_inodes=files,
        inodes=whole.f_files,
        free_inodes=whole.f_ffree,
        claim=claim,
    )


def list_size_limits(pod: Pod) -> list[tuple[Volume, int]]:
    """Return the disk-backed emptyDir volumes with a size limit, and that limit in bytes. Pure."""
    limits = []
    for volume in pod.spec.volumes:
        source = volume.emptyDir
        if source is not None and source.sizeLimit is not None and not source.medium:
            limit = quantity.parse(source.sizeLimit).value()
            if limit > 0:
                limits.append((volume, limit))
    return limits


def excess(volume: Volume, limit: int, used: int) -> str:
    """Return the eviction message if the volume exceeds its limit, or an empty string. Pure."""
    if used <= limit or volume.emptyDir is None:
        return ""
    text = str(quantity.parse(str(volume.emptyDir.sizeLimit)))
    return f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{text}". '


_MAX_AGE_S = 60.0


class VolumeUsageCache:
    def __init__(self, *, usage: Callable[[Pod], Awaitable[Sequence[VolumeUsage]]], clock: Clock) -> None:
        self._usage, self._clock = usage, clock
        self._cached: dict[str, tuple[float, Sequence[VolumeUsage]]] = {}

    async def get(self, pod: Pod) -> Sequence[VolumeUsage]:
        uid, now = pod.metadata.uid, self._clock.monotonic()
        measured_at, usages = self._cached.get(uid, (-_MAX_AGE_S, ()))
        if not 0 <= now - measured_at < _MAX_AGE_S:
            usages = await self._usage(pod)
            self._cached[uid] = (now, usages)
        return usages

    def keep_only(self, uids: set[str]) -> None:
        for uid in self._cached.keys() - uids:
            del self._cached[uid]
