"""Volume plugins that provision and delete volumes in this process: host path and local directories."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sampan.api.types.core_v1 import (
    HostPathVolumeSource,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from sampan.api.types.storage_v1 import StorageClass
from sampan.host.linux.directory_trees import remove_tree
from sampan.machinery.volumes import LOCAL_PATH, MIGRATED_TO, PROVISIONED_BY

_BUILT_IN_PREFIX = "kubernetes.io/"


class VolumeError(Exception):
    """A volume cannot be provisioned or deleted; the message is shown to users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeOptions:
    """The parameters of a volume to be provisioned."""

    name: str
    """The name of the PersistentVolume."""
    claim: PersistentVolumeClaim
    storage_class: StorageClass
    node: Node | None
    """The node of the first consumer, if the class waits for it."""


class VolumePlugin(Protocol):
    """A plugin that provisions and deletes volumes.

    `provision` returns the volume source and node affinity; capacity, access modes, class and reclaim policy are filled
    in by the caller. Both operations raise VolumeError and must be idempotent.
    """

    @property
    def name(self) -> str:
        """The provisioner name that storage classes refer to."""

    async def provision(self, options: VolumeOptions) -> PersistentVolumeSpec: ...

    def can_remove(self, volume: PersistentVolume) -> bool:
        """Whether the plugin can delete a volume that was not dynamically provisioned."""

    async def remove(self, volume: PersistentVolume) -> None:
        """Delete the storage behind the volume."""


class ProvisionerPlugins:
    def __init__(self, plugins: Sequence[VolumePlugin]) -> None:
        self._plugins = {plugin.name: plugin for plugin in plugins}

    def provisioner(self, name: str) -> VolumePlugin | None:
        """Return the plugin, or None for an external provisioner."""
        plugin = self._plugins.get(name)
        if plugin is None and name.startswith(_BUILT_IN_PREFIX):
            raise VolumeError(f"no volume plugin matched name: {name}")
        return plugin

    def remover(self, volume: PersistentVolume) -> VolumePlugin | None:
        """Return the plugin that deletes the volume, or None if an external controller does."""
        annotations = volume.metadata.annotations
        if provisioner := annotations.get(PROVISIONED_BY):
            return self.provisioner(provisioner)
        if MIGRATED_TO in annotations or volume.spec.csi is not None:
            return None
        for plugin in self._plugins.values():
            if plugin.can_remove(volume):
                return plugin
        reason = "no deletable volume plugin matched"
        raise VolumeError(f'error getting deleter volume plugin for volume "{volume.metadata.name}": {reason}')


_is_removable = re.compile(r"/tmp/.+").fullmatch


class HostPath:
    """Directories on the machine of the controllers, for tests on one node. Provisioning is off by default."""

    name = "kubernetes.io/host-path"

    def __init__(self, *, provisions: bool = False, root: Path = Path("/tmp/hostpath_pv")) -> None:
        self._provisions, self._root = provisions, root

    async def provision(self, options: VolumeOptions) -> PersistentVolumeSpec:
        if not self._provisions:
            raise VolumeError(f"Provisioning in volume plugin {self.name} is disabled")
        if options.claim.spec.volumeMode == "Block":
            raise VolumeError(f"{self.name} does not support block volume provisioning")
        path = self._root / options.claim.metadata.uid
        try:
            await asyncio.to_thread(path.mkdir, mode=0o750, parents=True, exist_ok=True)
        except OSError as error:
            raise VolumeError(f"{path}: {error.strerror or error}") from error
        return PersistentVolumeSpec(hostPath=HostPathVolumeSource(path=str(path)))

    def can_remove(self, volume: PersistentVolume) -> bool:
        return volume.spec.hostPath is not None

    async def remove(self, volume: PersistentVolume) -> None:
        path = volume.spec.hostPath.path if volume.spec.hostPath is not None else ""
        if not _is_removable(path) or ".." in Path(path).parts:
            raise VolumeError(f"host_path deleter only supports /tmp/.+ but received provided {path}")
        await asyncio.to_thread(_remove, Path(path))


_PATH = "path"
_HOSTNAME = "kubernetes.io/hostname"


class LocalPath:
    name = LOCAL_PATH

    def __init__(self, *, root: str) -> None:
        self._root = root

    async def provision(self, options: VolumeOptions) -> PersistentVolumeSpec:
        unknown = sorted(set(options.storage_class.parameters) - {_PATH})
        if unknown:
            raise VolumeError(f"invalid option {unknown[0]!r} for volume plugin {LOCAL_PATH}")
        if options.claim.spec.volumeMode == "Block":
            raise VolumeError(f"{LOCAL_PATH} does not support block volume provisioning")
        root = Path(options.storage_class.parameters.get(_PATH, self._root))
        if not root.is_absolute() or ".." in root.parts:
            raise VolumeError(f"the path {root} is not absolute")
        meta = options.claim.metadata
        path = root / f"{options.name}_{meta.namespace}_{meta.name}"
        source = HostPathVolumeSource(path=str(path), type="DirectoryOrCreate")
        return PersistentVolumeSpec(
            hostPath=source, nodeAffinity=_build_node_affinity(options.node) if options.node else None
        )

    def can_remove(self, volume: PersistentVolume) -> bool:
        return False

    async def remove(self, volume: PersistentVolume) -> None:
        source = volume.spec.hostPath
        path = Path(source.path) if source is not None else None
        if path is None or not path.name.startswith(f"{volume.metadata.name}_") or ".." in path.parts:
            raise VolumeError(f"volume {volume.metadata.name} is not one of {LOCAL_PATH}")
        await asyncio.to_thread(_remove, path)


def _remove(path: Path) -> None:
    try:
        remove_tree(path)
    except OSError as error:
        raise VolumeError(f"{path}: {error.strerror or error}") from error


def _build_node_affinity(node: Node) -> VolumeNodeAffinity:
    hostname = node.metadata.labels.get(_HOSTNAME, node.metadata.name)
    term = NodeSelectorTerm(matchExpressions=[NodeSelectorRequirement(key=_HOSTNAME, operator="In", values=[hostname])])
    return VolumeNodeAffinity(required=NodeSelector(nodeSelectorTerms=[term]))
