"""Removes what is left of pods that no source has any more: containers, directories, logs and cgroups."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import Collection
from pathlib import Path

from sampan.kubelet.agent.node_plugins import NodePlugins
from sampan.kubelet.cgroups import PodCgroups
from sampan.kubelet.volumes import VolumeManager
from sampan.runtimes import kernel, trees
from sampan.runtimes.contract import Runtime, RuntimeFailure

log = logging.getLogger(__name__)


class Orphans:
    def __init__(
        self,
        *,
        runtime: Runtime,
        volumes: VolumeManager,
        groups: PodCgroups,
        plugins: NodePlugins,
        root: Path,
        logs: Path,
    ) -> None:
        self._runtime, self._volumes, self._groups, self._plugins = runtime, volumes, groups, plugins
        self._pods, self._logs = root / "pods", logs

    async def remove(self, known: Collection[str]) -> list[str]:
        """Remove everything of pods that are not in `known`. Return their UIDs."""
        uids = sorted(self._found() - set(known))
        for uid in uids:
            try:
                await self._runtime.remove_pod(uid)
                await self._volumes.unmount(uid)
                await asyncio.to_thread(self._remove, uid)
            except (RuntimeFailure, OSError) as error:
                log.warning("cannot remove the directories of orphaned pod %s: %s", uid, error)
        await self._plugins.keep_only(known)
        return uids

    def _found(self) -> set[str]:
        directories = set(os.listdir(self._pods)) if self._pods.is_dir() else set[str]()
        logs = {name.rpartition("_")[2] for name in os.listdir(self._logs)} if self._logs.is_dir() else set[str]()
        return {*self._runtime.known_pods(), *directories, *logs, *self._groups.known()}

    def _remove(self, uid: str) -> None:
        self._groups.remove(uid)
        remove_folder(self._pods / uid)
        if self._logs.is_dir():
            for directory in self._logs.glob(f"*_{uid}"):
                shutil.rmtree(directory, ignore_errors=True)


def remove_folder(folder: Path) -> None:
    """Remove the directory after unmounting everything below it. Raise OSError if something remains mounted, since its
    content must not be deleted.
    """
    if not folder.exists():
        return
    for mount in kernel.mounts_below(folder):
        kernel.unmount(mount)
    if remaining := kernel.mounts_below(folder):
        raise OSError(f"{remaining[0]} is still mounted")
    with contextlib.suppress(OSError):
        trees.remove_tree(folder)
