"""The interface of volume plug-ins that provision and delete volumes, and their selection."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sampan.api.types.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec
from sampan.api.types.storage_v1 import StorageClass
from sampan.machinery.volumes.words import MIGRATED_TO, PROVISIONED_BY

_BUILT_IN = "kubernetes.io/"


class VolumeError(Exception):
    """A volume cannot be provisioned or deleted; the message is shown to users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The parameters of a volume to be provisioned."""

    name: str
    """The name of the PersistentVolume."""
    claim: PersistentVolumeClaim
    storage_class: StorageClass
    node: Node | None
    """The node of the first consumer, if the class waits for it."""


class VolumePlugin(Protocol):
    """A plug-in that provisions and deletes volumes.

    `provision` returns the volume source and node affinity; capacity, access modes, class and reclaim policy are filled
    in by the caller. Both operations raise VolumeError and must be idempotent.
    """

    @property
    def name(self) -> str:
        """The provisioner name that storage classes refer to."""

    async def provision(self, wanted: Wanted) -> PersistentVolumeSpec: ...

    def can_remove(self, volume: PersistentVolume) -> bool:
        """Whether the plug-in can delete a volume that was not dynamically provisioned."""

    async def remove(self, volume: PersistentVolume) -> None:
        """Delete the storage behind the volume."""


class Plugins:
    def __init__(self, plugins: Sequence[VolumePlugin]) -> None:
        self._plugins = {plugin.name: plugin for plugin in plugins}

    def provisioner(self, name: str) -> VolumePlugin | None:
        """Return the plug-in, or None for an external provisioner."""
        plugin = self._plugins.get(name)
        if plugin is None and name.startswith(_BUILT_IN):
            raise VolumeError(f"no volume plugin matched name: {name}")
        return plugin

    def remover(self, volume: PersistentVolume) -> VolumePlugin | None:
        """Return the plug-in that deletes the volume, or None if an external controller does."""
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
