"""The plug-in that deletes manually created hostPath volumes below /tmp, as used in tests."""

import asyncio
import re
import shutil
from pathlib import Path

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeSpec
from sampan.controllers.storage.plugins import VolumeError, Wanted

_is_removable = re.compile(r"/tmp/.+").fullmatch


class HostPath:
    name = "kubernetes.io/host-path"

    async def provision(self, wanted: Wanted) -> PersistentVolumeSpec:
        raise VolumeError("Provisioning in volume plugin kubernetes.io/host-path is disabled")

    def can_remove(self, volume: PersistentVolume) -> bool:
        return volume.spec.hostPath is not None

    async def remove(self, volume: PersistentVolume) -> None:
        path = volume.spec.hostPath.path if volume.spec.hostPath is not None else ""
        if not _is_removable(path) or ".." in Path(path).parts:
            raise VolumeError(f"host_path deleter only supports /tmp/.+ but received provided {path}")
        await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
