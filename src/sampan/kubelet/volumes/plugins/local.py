"""local volumes: a directory or disk of this node, used through a persistent volume."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

from sampan.api.types.core_v1 import LocalVolumeSource
from sampan.host.worker_thread import run_in_thread
from sampan.kubelet.volumes.contract import (
    MOUNT_DEVICE,
    DeviceMount,
    ReadyVolume,
    VolumeOperationError,
    VolumePluginBase,
    VolumeSpec,
)
from sampan.kubelet.volumes.mounter import expand_file_system
from sampan.kubelet.volumes.ownership import give_to_group
from sampan.kubelet.volumes.volume_host import VolumeHost

NAME = "kubernetes.io/local-volume"
_DEFAULT_KIND = "ext4"


class LocalPlugin(VolumePluginBase):
    name = NAME

    def __init__(self, host: VolumeHost) -> None:
        self._host = host

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.source.local is not None

    async def device(self, spec: VolumeSpec) -> DeviceMount | None:
        source = spec.source.local or LocalVolumeSource()
        if spec.is_block or not _is_disk(Path(source.path)):
            return None
        path = self._host.layout.plugin(NAME) / "mounts" / spec.inner
        return DeviceMount(unique_name=f"{NAME}/{spec.inner}", path=path)

    async def mount_device(self, spec: VolumeSpec, device: DeviceMount) -> None:
        source = spec.source.local or LocalVolumeSource()
        if self._host.mounter.is_mounted(device.path):
            return
        device.path.mkdir(parents=True, exist_ok=True, mode=0o750)
        options = [*spec.source.mountOptions, *(["ro"] if spec.is_read_only else [])]
        kind = source.fsType or _DEFAULT_KIND
        try:
            await self._host.mounter.format_and_mount(source.path, device.path, kind, options)
        except VolumeOperationError as error:
            device.path.rmdir()
            message = f"local: failed to mount device {source.path} at {device.path} (fstype: {source.fsType or ''})"
            raise VolumeOperationError(f"{message}, error {error.text}", step=MOUNT_DEVICE) from None

    async def unmount_device(self, device: DeviceMount) -> None:
        await run_in_thread(self._host.mounter.unmount_and_remove, device.path)

    def device_on_disk(self, uid: str, inner: str) -> DeviceMount | None:
        path = self._host.layout.plugin(NAME) / "mounts" / inner
        return DeviceMount(unique_name=f"{NAME}/{inner}", path=path) if path.is_dir() else None

    def devices_on_disk(self) -> Sequence[DeviceMount]:
        directory = self._host.layout.plugin(NAME) / "mounts"
        paths = sorted(directory.iterdir()) if directory.is_dir() else ()
        return [DeviceMount(unique_name=f"{NAME}/{path.name}", path=path) for path in paths]

    async def set_up(self, spec: VolumeSpec) -> ReadyVolume:
        source = spec.source.local or LocalVolumeSource()
        if ".." in source.path.split("/"):
            raise VolumeOperationError(f"invalid path: {source.path} must not contain '..'")
        device = await self.device(spec)
        return await run_in_thread(self._make, spec, Path(source.path), device)

    def _make(self, spec: VolumeSpec, path: Path, device: DeviceMount | None) -> ReadyVolume:
        if not path.exists():
            raise VolumeOperationError(f'path "{path}" does not exist')
        if spec.is_block:
            return ReadyVolume(path=path, device=path, is_read_only=spec.is_read_only)
        if device is None and not path.is_dir():
            raise VolumeOperationError("only directory and block device are supported")
        return self._bind(spec, device.path if device is not None else path)

    def _bind(self, spec: VolumeSpec, source: Path) -> ReadyVolume:
        mounter = self._host.mounter
        if not mounter.can_mount:
            return ReadyVolume(path=source, is_read_only=spec.is_read_only)
        target = self._host.layout.volume(spec.pod.metadata.uid, NAME, spec.inner)
        if not mounter.is_mounted(target):
            target.mkdir(parents=True, exist_ok=True, mode=0o750)
            mounter.bind(source, target, is_read_only=spec.is_read_only)
            if not spec.is_read_only:
                security = spec.security
                give_to_group(target, security.fsGroup, is_read_only=False, policy=security.fsGroupChangePolicy)
        return ReadyVolume(path=target, is_read_only=spec.is_read_only)

    def supports_expansion(self, spec: VolumeSpec) -> bool:
        return True

    async def expand(self, spec: VolumeSpec, ready: ReadyVolume, device: DeviceMount | None, size: int) -> None:
        """Expand the file system of a disk. Do nothing for a directory or a raw block device."""
        if device is not None:
            kind = await run_in_thread(self._host.mounter.kind, device.path)
            await expand_file_system((spec.source.local or LocalVolumeSource()).path, kind, device.path)

    async def tear_down(self, uid: str, inner: str) -> None:
        target = self._host.layout.volume(uid, NAME, inner)
        await run_in_thread(self._host.mounter.unmount_and_remove, target)


def _is_disk(path: Path) -> bool:
    return path.exists() and stat.S_ISBLK(path.stat().st_mode)
