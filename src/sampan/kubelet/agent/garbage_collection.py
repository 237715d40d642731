"""Garbage collection of images and dead containers (`pkg/kubelet/images`, `pkg/kubelet/kuberuntime`).

Unused images are removed when they are too old or when the disk fills up, dead containers under disk pressure.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.records import ENDED, PodSyncState, Records
from sampan.machinery.clock import Clock
from sampan.runtimes.contract import ImageInfo, Runtime, RuntimeFailure

log = logging.getLogger(__name__)

PERIOD_S = 300.0
FREE_FAILED, GC_FAILED = "FreeDiskSpaceFailed", "ImageGCFailed"

RecordEvent = Callable[[str, str], None]
"""Record an event about the node with a reason and a message."""
Disk = Callable[[Path], tuple[int, int]]
"""Return the available and the total bytes of a directory's file system."""
Forget = Callable[[Collection[str], float], None]
"""Drop the pull records of images that are not in the collection and that are older than a wall-clock time."""


def to_remove(
    images: Sequence[ImageInfo], used_at: Mapping[str, float], in_use: set[str], *, bytes_to_free: int, old: float
) -> list[ImageInfo]:
    """Return the least recently used images that free `bytes_to_free`, none of them used after `old`. Pure."""
    free, chosen = 0, []
    idle = [
        candidate
        for candidate in images
        if not candidate.is_pinned and candidate.id not in in_use and used_at.get(candidate.id, 0) <= old
    ]
    for image in sorted(idle, key=lambda candidate: used_at.get(candidate.id, 0)):
        if free >= bytes_to_free:
            break
        chosen.append(image)
        free += image.size
    return chosen


class ImageGarbageCollector:
    def __init__(
        self,
        *,
        config: AgentConfig,
        runtime: Runtime,
        clock: Clock,
        in_use: Callable[[], set[str]],
        record_event: RecordEvent,
        forget: Forget,
        disk: Disk | None = None,
    ) -> None:
        """`in_use` returns the IDs and names of the images that containers use."""
        self._config, self._runtime, self._clock, self._in_use = config, runtime, clock, in_use
        self._record_event, self._forget, self._disk = record_event, forget, disk or _disk
        self._used_at: dict[str, float] = {}
        self._has_failed = False

    async def run(self) -> None:
        while True:
            try:
                await self.collect()
                self._has_failed = False
            except (RuntimeFailure, OSError) as error:
                self._note_failure(str(error))
            await self._clock.sleep(PERIOD_S)

    async def collect(self) -> list[str]:
        """Collect once. Return the IDs of removed images. Raise RuntimeFailure if too little space could be freed."""
        began = self._clock.now()
        images, in_use = await self._list_images()
        removed_old = await self._remove_old(images, in_use)
        images = [image for image in images if image.id not in removed_old]
        available, capacity = await asyncio.to_thread(self._disk, self._directory)
        percent = 100 - available * 100 // capacity if capacity else 0
        is_full = percent >= self._config.image_gc_high
        excess = capacity * (100 - self._config.image_gc_low) // 100 - available if is_full else 0
        removed = await self._remove(images, in_use, excess, self._clock.monotonic() - self._config.image_min_age_s)
        await self._forget_absent(began)
        freed = sum(image.size for image in images if image.id in removed)
        if freed < excess:
            self._report_shortage(percent, capacity, freed)
        return removed_old + removed

    async def remove_unused(self) -> None:
        """Remove all unused images because of disk pressure."""
        began = self._clock.now()
        images, in_use = await self._list_images()
        await self._remove(images, in_use, 1 << 62, self._clock.monotonic())
        await self._forget_absent(began)

    # -- internals ---------------------------------------------------------------------------------------------------

    @property
    def _directory(self) -> Path:
        images = self._config.images
        return images if images is not None and images.exists() else self._config.root

    async def _list_images(self) -> tuple[Sequence[ImageInfo], set[str]]:
        images, named, now = await self._runtime.images(), self._in_use(), self._clock.monotonic()
        in_use = {image.id for image in images if {image.id, *image.names, *image.digests} & named}
        self._used_at = {image.id: now if image.id in in_use else self._used_at.get(image.id, now) for image in images}
        return images, in_use

    async def _remove_old(self, images: Sequence[ImageInfo], in_use: set[str]) -> list[str]:
        most_s = self._config.image_max_age_s
        if not most_s:
            return []
        return await self._remove(images, in_use, 1 << 62, self._clock.monotonic() - most_s)

    async def _remove(self, images: Sequence[ImageInfo], in_use: set[str], bytes_to_free: int, old: float) -> list[str]:
        """Remove images. Return the IDs of the removed ones; a failure to remove one does not affect the others."""
        removed = []
        for image in to_remove(images, self._used_at, in_use, bytes_to_free=bytes_to_free, old=old):
            try:
                await self._runtime.remove_image(image.names[0] if image.names else image.id)
            except RuntimeFailure as failure:
                log.warning("cannot remove image %s: %s", image.id, failure.message)
            else:
                removed.append(image.id)
        return removed

    async def _forget_absent(self, began: float) -> None:
        """Drop the pull records of absent images, including those that others have removed."""
        present = {image.id for image in await self._runtime.images()}
        await asyncio.to_thread(self._forget, present, began)

    def _report_shortage(self, percent: int, capacity: int, freed: int) -> None:
        text = (
            "Insufficient free disk space on the node's image filesystem "
            f"({percent}% of {_format_bytes(capacity)} used). "
            f"Failed to free sufficient space by deleting unused images (freed {freed} bytes). "
            "Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
        )
        self._record_event(FREE_FAILED, text)
        raise RuntimeFailure(FREE_FAILED, text)

    def _note_failure(self, message: str) -> None:
        """Log the failure. The first one may be due to missing statistics after the start, so only repeated failures
        produce an event.
        """
        log.warning("image garbage collection failed: %s", message)
        if self._has_failed:
            self._record_event(GC_FAILED, message)
        self._has_failed = True


def _disk(directory: Path) -> tuple[int, int]:
    about = os.statvfs(directory)
    return about.f_bavail * about.f_frsize, about.f_blocks * about.f_frsize


def _format_bytes(size: float) -> str:
    if size < 1024:
        return f"{size} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


class ContainerGarbageCollector:
    def __init__(self, *, runtime: Runtime, records: Records) -> None:
        self._runtime, self._records = runtime, records

    async def remove_unused(self) -> list[str]:
        """Remove all containers, with their logs, of terminated pods, and the previous instances of containers of other
        pods. Return the UIDs of the affected pods.
        """
        uids = []
        for record in list(self._records.values()):
            try:
                if await self._remove_dead(record.uid):
                    uids.append(record.uid)
            except RuntimeFailure as failure:
                log.warning("cannot remove dead containers of pod %s: %s", record.uid, failure.message)
        return uids

    async def _remove_dead(self, uid: str) -> bool:
        record = self._records.get(uid)
        if record is None:  # The pod was removed while others were being processed.
            return False
        if record.state in ENDED:
            if record.state is not PodSyncState.FINISHED or uid not in self._runtime.known_pods():
                return False
            await self._runtime.remove_pod(uid)
            return True
        before = self._runtime.pod_report(record.pod).before
        for container in before:
            await self._runtime.remove_container(record.pod, container.id)
        return bool(before)
