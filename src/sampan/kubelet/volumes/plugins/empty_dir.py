"""emptyDir volumes: a directory with the lifetime of the pod, on disk, in memory or in huge pages. Secrets and similar
volumes build on it.
"""

from __future__ import annotations

from pathlib import Path

from sampan.api.semantics.pod_resources import effective_limits
from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import Container, EmptyDirVolumeSource, Pod
from sampan.api.values import quantity
from sampan.host.linux.directory_trees import remove_tree
from sampan.host.worker_thread import run_in_thread
from sampan.kubelet.volumes.contract import ReadyVolume, VolumeOperationError, VolumePluginBase, VolumeSpec
from sampan.kubelet.volumes.ownership import give_to_group
from sampan.kubelet.volumes.volume_host import VolumeHost

NAME = "kubernetes.io/empty-dir"
DISK, MEMORY, HUGE_PAGES = "", "Memory", "HugePages"
_MODE = 0o777


class EmptyDirPlugin(VolumePluginBase):
    name = NAME

    def __init__(self, host: VolumeHost) -> None:
        self._host, self._directories = host, MediumDirectories(host)

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume.emptyDir is not None

    async def set_up(self, spec: VolumeSpec) -> ReadyVolume:
        source = spec.volume.emptyDir or EmptyDirVolumeSource()
        path = self._host.layout.volume(spec.pod.metadata.uid, NAME, spec.inner)
        await run_in_thread(self._make, spec, source, path)
        return ReadyVolume(path=path)

    def _make(self, spec: VolumeSpec, source: EmptyDirVolumeSource, path: Path) -> None:
        size = memory_size(spec.pod, source, self._host.config.allocatable.get("memory", "0"))
        page = page_size(spec.pod, source.medium) if source.medium.startswith(HUGE_PAGES) else ""
        mode = source.mode if self._host.config.feature_gates.is_enabled("EmptyDirVolumeMode") else None
        if self._directories.make(
            spec.pod.metadata.uid, spec.inner, path, source.medium, size=size, page=page, mode=mode
        ):
            give_to_group(path, spec.security.fsGroup, is_read_only=False)

    async def tear_down(self, uid: str, inner: str) -> None:
        path = self._host.layout.volume(uid, NAME, inner)
        await run_in_thread(self._directories.remove, uid, inner, path)


class MediumDirectories:
    """Directories on disk, in memory or in huge pages. A marker file outside the volume tells that a directory is
    complete.
    """

    def __init__(self, host: VolumeHost) -> None:
        self._layout, self._mounter = host.layout, host.mounter

    def make(
        self,
        uid: str,
        name: str,
        path: Path,
        medium: str,
        *,
        size: int = 0,
        page: str = "",
        mode: int | None = None,
    ) -> bool:
        """Create the directory of a volume on the medium. Return whether it did not exist before. Without a `mode`
        everybody may write to it."""
        notes = self._layout.notes(uid, NAME, name)
        if (notes / "ready").exists() and path.is_dir() and self._is_on(path, medium):
            return False
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(_MODE)
        if medium != DISK:
            self._mount(path, medium, size, page)
        if mode is not None:
            path.chmod(mode)
        notes.mkdir(parents=True, exist_ok=True)
        (notes / "ready").touch()
        return True

    def _is_on(self, path: Path, medium: str) -> bool:
        return medium == DISK or not self._mounter.can_mount or self._mounter.is_mounted(path)

    def _mount(self, path: Path, medium: str, size: int, page: str) -> None:
        if medium != MEMORY and not medium.startswith(HUGE_PAGES):
            raise VolumeOperationError(f'unknown storage medium "{medium}"')
        if not self._mounter.can_mount or self._mounter.is_mounted(path):
            return
        if medium == MEMORY:
            self._mounter.mount_tmpfs(path, size)
        else:
            self._mounter.mount_huge_pages(path, page)

    def remove(self, uid: str, name: str, path: Path) -> None:
        notes = self._layout.notes(uid, NAME, name)
        remove_tree(notes)
        self._mounter.remove(path)


def memory_size(pod: Pod, source: EmptyDirVolumeSource, allocatable: str) -> int:
    """Return the size of a volume in memory: the smallest of the limits of pod, node and volume. Pure."""
    limits = [quantity.parse(allocatable).value()]
    if all("memory" in container.resources.limits for container in pod.spec.containers or ()):
        limits.append(effective_limits(pod.spec).get("memory", quantity.parse("0")).value())
    if source.sizeLimit is not None:
        limits.append(quantity.parse(source.sizeLimit).value())
    return min((limit for limit in limits if limit > 0), default=0)


def page_size(pod: Pod, medium: str) -> str:
    """Return the huge page size according to the pod's requests. Raise VolumeOperationError if they do not name exactly
    one. Pure.
    """
    wanted_size = medium.removeprefix(f"{HUGE_PAGES}-") if medium != HUGE_PAGES else ""
    containers: list[Container] = init_and_main_containers(pod.spec)
    page_sizes = {
        name.removeprefix("hugepages-")
        for container in containers
        for name in container.resources.requests
        if name.startswith("hugepages-")
    }
    if wanted_size:
        page_sizes = {size for size in page_sizes if quantity.parse(size) == quantity.parse(wanted_size)}
    if not page_sizes:
        why = "hugePages storage requested, but there is no resource request for huge pages"
        raise VolumeOperationError(f"medium {medium}: {why}")
    if len(page_sizes) > 1:
        raise VolumeOperationError(f"medium: {medium} can't be used if container requests multiple huge page sizes")
    return page_sizes.pop()
