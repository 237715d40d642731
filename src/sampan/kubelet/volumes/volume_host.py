"""What all volume plug-ins share: configuration and collaborators (`VolumeHost` in `pkg/volume/plugins.go`), the
directory layout, which is that of the Kubernetes kubelet, and ways to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sampan.kubelet.objects import PodObjects
from sampan.kubelet.volumes.mounter import Mounter
from sampan.kubelet.volumes.tokens import TokenManager
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.machinery.informer import InformerFactory

_SUBPATHS = "volume-subpaths"


class OnDisk(NamedTuple):
    """A volume that has a directory on disk."""

    uid: str
    plugin: str
    inner: str


class Layout:
    def __init__(self, root: Path) -> None:
        self.root = root

    def pod(self, uid: str) -> Path:
        return self.root / "pods" / uid

    def volumes(self, uid: str) -> Path:
        return self.pod(uid) / "volumes"

    def volume(self, uid: str, plugin: str, inner: str) -> Path:
        return self.volumes(uid) / escaped(plugin) / escaped(inner)

    def notes(self, uid: str, plugin: str, name: str) -> Path:
        """Return the directory for the metadata that a plug-in stores about a pod's volume."""
        return self.pod(uid) / "plugins" / escaped(plugin) / name

    def subpaths(self, uid: str) -> Path:
        return self.pod(uid) / _SUBPATHS

    def subpath(self, uid: str, inner: str, container: str, index: int) -> Path:
        return self.subpaths(uid) / inner / container / str(index)

    def plugin(self, name: str) -> Path:
        """Return the directory of a plug-in for the whole node; `name` starts with kubernetes.io/."""
        return self.root / "plugins" / name

    @property
    def registry(self) -> Path:
        """Directory in which external plug-ins create their registration sockets."""
        return self.root / "plugins_registry"

    def pods(self) -> Iterator[str]:
        """Yield the UIDs of pods that have or had volumes here."""
        directory = self.root / "pods"
        for pod in sorted(directory.iterdir()) if directory.is_dir() else ():
            if any((pod / part).is_dir() for part in ("volumes", "volumeDevices", _SUBPATHS)):
                yield pod.name

    def volumes_of_pod(self, uid: str) -> Iterator[OnDisk]:
        directories = [path for path in (self.volumes(uid), self.pod(uid) / "volumeDevices") if path.is_dir()]
        for plugin in (plugin for directory in directories for plugin in sorted(directory.iterdir())):
            for volume in sorted(plugin.iterdir()) if plugin.is_dir() else ():
                yield OnDisk(uid, plugin.name.replace("~", "/"), volume.name.replace("~", "/"))


def escaped(name: str) -> str:
    return name.replace("/", "~")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeConfig:
    root: Path
    """Root directory of the kubelet's data."""
    node_name: str
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """Allocatable resources of the node."""
    mount_timeout_s: float = 10.0
    """How long a pod worker waits for volumes before it syncs the pod again; mounting continues meanwhile."""
    expansion_check_period_s: float = 60.0
    """Interval at which claims in use are checked for expansion."""
    size_check_period_s: float = 10.0
    """Interval at which volumes with a size limit are measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeHost:
    config: VolumeConfig
    layout: Layout
    mounter: Mounter
    client: Client
    informers: InformerFactory
    objects: PodObjects
    tokens: TokenManager
    clock: Clock


T = TypeVar("T")


async def happens_by(clock: Clock, event: asyncio.Event, until: float) -> bool:
    """Wait until the event is set or the monotonic time `until` is reached. Return whether the event is set."""
    if clock.monotonic() >= until:
        return event.is_set()
    async with asyncio.TaskGroup() as group:
        waiter, sleeper = group.create_task(event.wait()), group.create_task(clock.sleep_monotonic(until))
        await asyncio.wait((waiter, sleeper), return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        sleeper.cancel()
    return event.is_set()


async def in_thread(call: Callable[..., T], *args: Any, **options: Any) -> T:
    """Like `asyncio.to_thread`, but a cancelled caller waits until the thread has finished. Otherwise the thread might
    continue to mount while the caller assumes that nothing happens any more.
    """
    work = asyncio.ensure_future(asyncio.to_thread(call, *args, **options))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait((work,))
        raise
