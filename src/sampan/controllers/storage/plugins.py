"""The contract of volume plug-ins that make and remove volumes, and which of them is meant."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sampan.api.types.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec
from sampan.api.types.storage_v1 import StorageClass
from sampan.machinery.volumes.words import MIGRATED_TO, PROVISIONED_BY

_BUILT_IN = "kubernetes.io/"


class VolumeError(Exception):
    """A volume cannot be made or removed; the message is for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a volume is to be made for."""

    name: str
    """Of the volume."""
    claim: PersistentVolumeClaim
    storage_class: StorageClass
    node: Node | None
    """Where its first consumer is going to run, if the class waits for that."""


class VolumePlugin(Protocol):
    """`provision` gives what is special about the volume: its source and where it can be reached; capacity, access
    modes, class and policy are filled in. Both raise VolumeError, and may be called again for the same volume."""

    @property
    def name(self) -> str:
        """The provisioner that storage classes name."""

    async def provision(self, wanted: Wanted) -> PersistentVolumeSpec: ...

    def can_remove(self, volume: PersistentVolume) -> bool:
        """Whether it knows what is behind a volume that nobody says was provisioned."""

    async def remove(self, volume: PersistentVolume) -> None:
        """Remove what is behind the volume."""


class Plugins:
    def __init__(self, plugins: Sequence[VolumePlugin]) -> None:
        self._plugins = {plugin.name: plugin for plugin in plugins}

    def provisioner(self, name: str) -> VolumePlugin | None:
        """None where somebody outside does it."""
        found = self._plugins.get(name)
        if found is None and name.startswith(_BUILT_IN):
            raise VolumeError(f"no volume plugin matched name: {name}")
        return found

    def remover(self, volume: PersistentVolume) -> VolumePlugin | None:
        """None where somebody outside does it."""
        notes = volume.metadata.annotations
        if maker := notes.get(PROVISIONED_BY):
            return self.provisioner(maker)
        if MIGRATED_TO in notes or volume.spec.csi is not None:
            return None
        for plugin in self._plugins.values():
            if plugin.can_remove(volume):
                return plugin
        why = "no deletable volume plugin matched"
        raise VolumeError(f'error getting deleter volume plugin for volume "{volume.metadata.name}": {why}')


__all__ = ["Plugins", "VolumeError", "VolumePlugin", "Wanted"]
