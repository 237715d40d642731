"""Base class of volumes whose files are generated from objects."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from sampan.api.types.core_v1 import Container, EphemeralContainer, Pod
from sampan.kubelet.volumes import atomic
from sampan.kubelet.volumes.atomic import Payload
from sampan.kubelet.volumes.contract import PluginBase, Ready, Spec
from sampan.kubelet.volumes.host import Host
from sampan.kubelet.volumes.ownership import give_to_group
from sampan.kubelet.volumes.plugins.empty_dir import MEMORY, MediumDirectories
from sampan.kubelet.volumes.waiting import in_thread

_WRAPPED = "wrapped_"


class FilesPlugin(PluginBase):
    """Subclasses provide a name and a payload. The files are replaced atomically and are read-only for the pod."""

    name: str
    medium = MEMORY

    def __init__(self, host: Host) -> None:
        self.host, self._directories = host, MediumDirectories(host)

    async def set_up(self, spec: Spec) -> Ready:
        payload, again_s = await self.payload(spec)
        path = self.host.layout.volume(spec.pod.metadata.uid, self.name, spec.inner)
        await in_thread(self._write, spec, path, payload)
        return Ready(path=path, is_read_only=True, again_s=again_s)

    async def payload(self, spec: Spec) -> tuple[Payload, float | None]:
        """Return the files, and the seconds until they have to be updated, or None."""
        raise NotImplementedError

    def _write(self, spec: Spec, path: Path, payload: Payload) -> None:
        uid = spec.pod.metadata.uid
        is_new = self._directories.make(uid, f"{_WRAPPED}{spec.inner}", path, self.medium)
        try:
            for nested in nested_mount_points(spec.pod, spec.outer):
                (path / nested).mkdir(parents=True, exist_ok=True, mode=0o755)
            atomic.write(path, payload, now=self.host.clock.now(), set_owner=lambda: self._own(spec, path))
        except BaseException:
            if is_new:
                self._remove(uid, spec.inner)
            raise

    def _own(self, spec: Spec, path: Path) -> None:
        give_to_group(path, spec.security.fsGroup, is_read_only=True)

    async def tear_down(self, uid: str, inner: str) -> None:
        await in_thread(self._remove, uid, inner)

    def _remove(self, uid: str, inner: str) -> None:
        self._directories.remove(uid, f"{_WRAPPED}{inner}", self.host.layout.volume(uid, self.name, inner))


def nested_mount_points(pod: Pod, volume: str) -> list[str]:
    """Return where other volumes are mounted inside this one, relative to it. The directories have to be created in
    advance, because the volume is read-only. Pure.
    """
    paths: dict[str, None] = {}
    for container in _containers(pod):
        targets = sorted(str(PurePosixPath(mount.mountPath)) for mount in container.volumeMounts)
        for mount in container.volumeMounts:
            if mount.name == volume:
                paths |= dict.fromkeys(_inside(str(PurePosixPath(mount.mountPath)), mount.subPath, targets))
    return list(paths)


def _inside(target: str, subpath: str, targets: list[str]) -> list[str]:
    if subpath or target == "/":
        return []
    paths: list[str] = []
    for other in targets:
        if other.startswith(f"{target}/"):
            inner = other.removeprefix(f"{target}/")
            if not any(inner.startswith(f"{before}/") for before in paths):
                paths.append(inner)
    return paths


def _containers(pod: Pod) -> list[Container | EphemeralContainer]:
    return [*pod.spec.initContainers, *(pod.spec.containers or ()), *pod.spec.ephemeralContainers]
