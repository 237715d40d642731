"""Garbage collection of images, dead containers and orphaned pods (`pkg/kubelet/images`, `pkg/kubelet/kuberuntime`).

Unused images are removed when they are too old or when the disk fills up. Dead containers are removed under disk
pressure. Containers, volumes, cgroups and logs of orphaned pods, which no pod source has any more, are removed
periodically.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from sampan.host.clock import Clock
from sampan.host.linux.directory_trees import remove_tree
from sampan.kubelet.agent.config import IMAGE_GC_OFF, AgentConfig
from sampan.kubelet.agent.node_plugins import NodePlugins
from sampan.kubelet.cgroups import PodCgroups
from sampan.kubelet.metrics import KubeletMetrics
from sampan.kubelet.records import ENDED_STATES, PodQueue, PodSyncState, Records
from sampan.kubelet.volumes import VolumeManager
from sampan.runtimes import kernel
from sampan.runtimes.contract import ImageInfo, Runtime, RuntimeFailure

log = logging.getLogger(__name__)

PERIOD_S = 300.0
FREE_FAILED, GC_FAILED = "FreeDiskSpaceFailed", "ImageGCFailed"

RecordEvent = Callable[[str, str], None]
"""A function that records an event about the node with a reason and a message."""
Disk = Callable[[Path], tuple[int, int]]
"""A function that returns the available and the total bytes of a directory's file system."""
Forget = Callable[[Collection[str], float], None]
"""A function that drops the pull records of images that are not in the collection and that are older than a wall-clock
time.
"""


def select_images_to_remove(
    images: Sequence[ImageInfo], used_at: Mapping[str, float], in_use: set[str], *, bytes_to_free: int, old: float
) -> list[ImageInfo]:
    """Return the least recently used images, enough of them to free `bytes_to_free` bytes. Images in use, pinned
    images, and images used after the monotonic time `old` are excluded. Pure.
    """
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
        """Run one garbage collection of images. Return the IDs of the removed images. Raise RuntimeFailure if too
        little space could be freed.
        """
        began = self._clock.now()
        images, in_use = await self._list_images()
        removed_old = await self._remove_old(images, in_use)
        images = [image for image in images if image.id not in removed_old]
        available, capacity = await asyncio.to_thread(self._disk, self._directory)
        percent = 100 - available * 100 // capacity if capacity else 0
        is_full = percent >= self._config.image_gc_high < IMAGE_GC_OFF
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
        max_s = self._config.image_max_age_s
        if not max_s:
            return []
        return await self._remove(images, in_use, 1 << 62, self._clock.monotonic() - max_s)

    async def _remove(self, images: Sequence[ImageInfo], in_use: set[str], bytes_to_free: int, old: float) -> list[str]:
        """Remove unused images. Return the IDs of the removed images; a failure to remove one does not affect the
        others.
        """
        removed = []
        for image in select_images_to_remove(images, self._used_at, in_use, bytes_to_free=bytes_to_free, old=old):
            try:
                await self._runtime.remove_image(image.names[0] if image.names else image.id)
            except RuntimeFailure as failure:
                log.warning("cannot remove image %s: %s", image.id, failure.message)
            else:
                removed.append(image.id)
        return removed

    async def _forget_absent(self, began: float) -> None:
        """Drop the pull records of absent images, including those of images that other programs have removed."""
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
        """Log the failure. The first failure may be due to missing statistics after the start, so only repeated
        failures produce an event.
        """
        log.warning("image garbage collection failed: %s", message)
        if self._has_failed:
            self._record_event(GC_FAILED, message)
        self._has_failed = True


def _disk(directory: Path) -> tuple[int, int]:
    file_system = os.statvfs(directory)
    return file_system.f_bavail * file_system.f_frsize, file_system.f_blocks * file_system.f_frsize


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
        if record is None:  # The pod was removed while other pods were being processed.
            return False
        if record.state in ENDED_STATES:
            if record.state is not PodSyncState.FINISHED or uid not in self._runtime.list_pod_uids():
                return False
            await self._runtime.remove_pod(uid)
            return True
        before = self._runtime.pod_report(record.pod).before
        for container in before:
            await self._runtime.remove_container(record.pod, container.id)
        return bool(before)


class Housekeeping:
    """The periodic work of the kubelet: syncs all pods, and removes orphaned pods."""

    def __init__(
        self,
        *,
        config: AgentConfig,
        records: Records,
        queue: PodQueue,
        clock: Clock,
        orphans: OrphanCollector,
        is_complete: Callable[[], bool],
        metrics: KubeletMetrics,
    ) -> None:
        """`is_complete` tells whether every pod source has delivered its pods; until then nothing is considered
        orphaned.
        """
        self._config, self._records, self._queue, self._clock = config, records, queue, clock
        self._orphans, self._is_complete, self._metrics = orphans, is_complete, metrics

    async def relist(self) -> None:
        """Request a sync of every pod that has not terminated, periodically until cancelled."""
        last: float | None = None
        while True:
            await self._clock.sleep(self._config.relist_s)
            began = self._clock.monotonic()
            for record in list(self._records.values()):
                if record.state not in ENDED_STATES:
                    self._queue.add(record.uid)
            duration_s = self._clock.monotonic() - began
            interval_s = began - last if last is not None else None
            self._metrics.record_relist(duration_s=duration_s, interval_s=interval_s, now=self._clock.now())
            last = began

    async def run(self) -> None:
        """Remove orphans periodically until cancelled. Start this only once the pods of the API server are known."""
        while True:
            await self._clock.sleep(self._config.relist_s)
            await self.remove_orphans()

    async def remove_orphans(self, uids: Collection[str] = ()) -> None:
        """Remove the containers, volumes, cgroups and logs of pods that are neither in `uids` nor in the kubelet's
        records.
        """
        if not self._is_complete():
            return
        try:
            removed_uids = await self._orphans.remove({*uids, *self._records})
        except Exception:  # Retried after the next period.
            log.exception("cannot list orphaned pods")
            return
        for uid in removed_uids:
            log.info("removed orphaned pod %s", uid)


class OrphanCollector:
    def __init__(
        self,
        *,
        runtime: Runtime,
        volumes: VolumeManager,
        cgroups: PodCgroups,
        plugins: NodePlugins,
        root: Path,
        logs: Path,
    ) -> None:
        self._runtime, self._volumes, self._cgroups, self._plugins = runtime, volumes, cgroups, plugins
        self._pods, self._logs = root / "pods", logs

    async def remove(self, known_uids: Collection[str]) -> list[str]:
        """Remove the containers, volumes, cgroups and logs of all pods whose UIDs are not in `known_uids`. Return the
        UIDs of these pods."""
        uids = sorted(self._uids_on_disk() - set(known_uids))
        for uid in uids:
            try:
                await self._runtime.remove_pod(uid)
                await self._volumes.unmount(uid)
                await asyncio.to_thread(self._remove, uid)
            except (RuntimeFailure, OSError) as error:
                log.warning("cannot remove the directories of orphaned pod %s: %s", uid, error)
        await self._plugins.keep_only(known_uids)
        return uids

    def _uids_on_disk(self) -> set[str]:
        directories = set(os.listdir(self._pods)) if self._pods.is_dir() else set[str]()
        logs = {name.rpartition("_")[2] for name in os.listdir(self._logs)} if self._logs.is_dir() else set[str]()
        return {*self._runtime.list_pod_uids(), *directories, *logs, *self._cgroups.list_pod_uids()}

    def _remove(self, uid: str) -> None:
        self._cgroups.remove(uid)
        remove_directory(self._pods / uid)
        if self._logs.is_dir():
            for name in os.listdir(self._logs):
                if name.rpartition("_")[2] == uid:
                    with contextlib.suppress(OSError):
                        remove_tree(self._logs / name)


def remove_directory(directory: Path) -> None:
    """Remove the directory after unmounting everything below it. Raise OSError if something remains mounted, since its
    content must not be deleted.
    """
    if not directory.exists():
        return
    for mount in kernel.mounts_below(directory):
        kernel.unmount(mount)
    if remaining := kernel.mounts_below(directory):
        raise OSError(f"{remaining[0]} is still mounted")
    with contextlib.suppress(OSError):
        remove_tree(directory)
