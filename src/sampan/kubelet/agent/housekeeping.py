"""Periodic work: resyncs all pods, and removes what is left of pods that no source has any more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.node_plugins import NodePlugins
from sampan.kubelet.cgroups import PodCgroups
from sampan.kubelet.records import ENDED, PodQueue, Records
from sampan.kubelet.volumes import VolumeManager
from sampan.machinery.clock import Clock
from sampan.runtimes import kernel
from sampan.runtimes.contract import Runtime, RuntimeFailure
from sampan.runtimes.safe_paths import remove_tree

log = logging.getLogger(__name__)


class Housekeeping:
    def __init__(
        self,
        *,
        config: AgentConfig,
        records: Records,
        queue: PodQueue,
        clock: Clock,
        orphans: OrphanCollector,
        is_complete: Callable[[], bool],
    ) -> None:
        """`is_complete` tells whether every pod source has delivered its pods; until then nothing is considered
        orphaned.
        """
        self._config, self._records, self._queue, self._clock = config, records, queue, clock
        self._orphans, self._is_complete = orphans, is_complete

    async def relist(self) -> None:
        """Request a sync of every pod that has not terminated, periodically until cancelled."""
        while True:
            await self._clock.sleep(self._config.relist_s)
            for record in list(self._records.values()):
                if record.state not in ENDED:
                    self._queue.add(record.uid)

    async def run(self) -> None:
        """Remove orphans periodically until cancelled. Start this only once the pods of the API server are known."""
        while True:
            await self._clock.sleep(self._config.relist_s)
            await self.remove_orphans()

    async def remove_orphans(self, known: Collection[str] = ()) -> None:
        """Remove what is left of pods that are neither in `known` nor in the kubelet's records."""
        if not self._is_complete():
            return
        try:
            removed_uids = await self._orphans.remove({*known, *self._records})
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

    async def remove(self, known: Collection[str]) -> list[str]:
        """Remove everything of pods that are not in `known`. Return their UIDs."""
        uids = sorted(self._uids_on_disk() - set(known))
        for uid in uids:
            try:
                await self._runtime.remove_pod(uid)
                await self._volumes.unmount(uid)
                await asyncio.to_thread(self._remove, uid)
            except (RuntimeFailure, OSError) as error:
                log.warning("cannot remove the directories of orphaned pod %s: %s", uid, error)
        await self._plugins.keep_only(known)
        return uids

    def _uids_on_disk(self) -> set[str]:
        directories = set(os.listdir(self._pods)) if self._pods.is_dir() else set[str]()
        logs = {name.rpartition("_")[2] for name in os.listdir(self._logs)} if self._logs.is_dir() else set[str]()
        return {*self._runtime.known_pods(), *directories, *logs, *self._cgroups.known()}

    def _remove(self, uid: str) -> None:
        self._cgroups.remove(uid)
        remove_directory(self._pods / uid)
        if self._logs.is_dir():
            for directory in self._logs.glob(f"*_{uid}"):
                shutil.rmtree(directory, ignore_errors=True)


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
