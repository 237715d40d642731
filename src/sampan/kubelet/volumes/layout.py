"""Directory layout of volumes, the same as that of the Kubernetes kubelet. Pure except for `pods` and `of_pod`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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

    def of_pod(self, uid: str) -> Iterator[OnDisk]:
        directories = [path for path in (self.volumes(uid), self.pod(uid) / "volumeDevices") if path.is_dir()]
        for plugin in (plugin for directory in directories for plugin in sorted(directory.iterdir())):
            for volume in sorted(plugin.iterdir()) if plugin.is_dir() else ():
                yield OnDisk(uid, plugin.name.replace("~", "/"), volume.name.replace("~", "/"))


def escaped(name: str) -> str:
    return name.replace("/", "~")
