"""The built-in provisioner `sampan.local/path`, whose volumes are directories on the node of their first consumer.

The directory is `ROOT/VOLUME_NAMESPACE_CLAIM`, where ROOT is the parameter `path` of the storage class or the cluster's
default. The kubelet creates it for the first pod, writable by every user. It is deleted by this process, and therefore
only if this machine is the node, as in a single-node cluster; otherwise it is left behind.
"""

import asyncio
import shutil
from pathlib import Path

from sampan.api.types.core_v1 import (
    HostPathVolumeSource,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from sampan.controllers.storage.plugins import VolumeError, Wanted
from sampan.machinery.volumes.words import LOCAL_PATH

_PATH = "path"
_HOSTNAME = "kubernetes.io/hostname"


class LocalPath:
    name = LOCAL_PATH

    def __init__(self, *, root: str) -> None:
        self._root = root

    async def provision(self, wanted: Wanted) -> PersistentVolumeSpec:
        unknown = sorted(set(wanted.storage_class.parameters) - {_PATH})
        if unknown:
            raise VolumeError(f"invalid option {unknown[0]!r} for volume plugin {LOCAL_PATH}")
        if wanted.claim.spec.volumeMode == "Block":
            raise VolumeError(f"{LOCAL_PATH} does not support block volume provisioning")
        root = Path(wanted.storage_class.parameters.get(_PATH, self._root))
        if not root.is_absolute() or ".." in root.parts:
            raise VolumeError(f"the path {root} is not absolute")
        meta = wanted.claim.metadata
        path = root / f"{wanted.name}_{meta.namespace}_{meta.name}"
        source = HostPathVolumeSource(path=str(path), type="DirectoryOrCreate")
        return PersistentVolumeSpec(hostPath=source, nodeAffinity=_on(wanted.node) if wanted.node else None)

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
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
    except OSError as error:
        raise VolumeError(f"{path}: {error.strerror or error}") from error


def _on(node: Node) -> VolumeNodeAffinity:
    hostname = node.metadata.labels.get(_HOSTNAME, node.metadata.name)
    term = NodeSelectorTerm(matchExpressions=[NodeSelectorRequirement(key=_HOSTNAME, operator="In", values=[hostname])])
    return VolumeNodeAffinity(required=NodeSelector(nodeSelectorTerms=[term]))
