"""nfs volumes: a directory of a file server, mounted by the machine's mount.nfs."""

from __future__ import annotations

import contextlib
import ipaddress
from pathlib import Path

from sampan.api.types.core_v1 import NFSVolumeSource
from sampan.host.worker_thread import run_in_thread
from sampan.kubelet.volumes.contract import ReadyVolume, VolumeOperationError, VolumePluginBase, VolumeSpec
from sampan.kubelet.volumes.volume_host import VolumeHost

NAME = "kubernetes.io/nfs"


class NfsPlugin(VolumePluginBase):
    name = NAME

    def __init__(self, host: VolumeHost) -> None:
        self._host = host

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume.nfs is not None or spec.source.nfs is not None

    async def set_up(self, spec: VolumeSpec) -> ReadyVolume:
        source = spec.volume.nfs or spec.source.nfs or NFSVolumeSource()
        is_read_only = spec.is_read_only if spec.persistent is not None else source.readOnly
        path = self._host.layout.volume(spec.pod.metadata.uid, NAME, spec.inner)
        if not await run_in_thread(self._host.mounter.is_mounted, path):
            path.mkdir(parents=True, exist_ok=True, mode=0o750)
            options = sorted({*spec.source.mountOptions, *(["ro"] if is_read_only else [])})
            await self._mount(f"{_server(source.server)}:{source.path}", path, options)
        return ReadyVolume(path=path, is_read_only=is_read_only)

    async def _mount(self, source: str, path: Path, options: list[str]) -> None:
        if not self._host.mounter.can_mount:
            raise VolumeOperationError("mounting needs root")
        try:
            await self._host.mounter.mount_with_program(source, path, "nfs", options)
        except BaseException:
            with contextlib.suppress(OSError):
                self._host.mounter.unmount_and_remove(path)
            raise

    async def tear_down(self, uid: str, inner: str) -> None:
        path = self._host.layout.volume(uid, NAME, inner)
        await run_in_thread(self._host.mounter.unmount_and_remove, path)


def _server(name: str) -> str:
    try:
        return f"[{name}]" if ipaddress.ip_address(name).version == 6 else name
    except ValueError:
        return name
