"""volumeattributesclass-protection-controller, which keeps a class until no claim and no volume refers to it."""

from collections.abc import Hashable, Iterable
from typing import Any

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from sampan.api.types.storage_v1 import VolumeAttributesClass
from sampan.controllers.descriptor import Parts
from sampan.controllers.storage.protection import concerns, is_candidate, lacks, protect, release
from sampan.machinery.client import Client, resource_of
from sampan.machinery.controller import Watch
from sampan.machinery.informer import InformerFactory

FINALIZER = "kubernetes.io/vac-protection"


def named_by_claim(claim: PersistentVolumeClaim) -> Iterable[Hashable]:
    """Return the requested class, the current one, and the target of a modification in progress."""
    names = {claim.spec.volumeAttributesClassName, claim.status.currentVolumeAttributesClassName}
    if claim.status.modifyVolumeStatus is not None:
        names.add(claim.status.modifyVolumeStatus.targetVolumeAttributesClassName)
    return [name for name in names if name]


def named_by_volume(volume: PersistentVolume) -> Iterable[Hashable]:
    return (volume.spec.volumeAttributesClassName,) if volume.spec.volumeAttributesClassName else ()


def _waiting(found: Any) -> Iterable[Hashable]:
    return (found.metadata.name,) if concerns(found, FINALIZER) else ()


class ClassProtection:
    name = "volumeattributesclass-protection-controller"
    watches = (
        Watch(resource_of(VolumeAttributesClass), _waiting),
        Watch(resource_of(PersistentVolumeClaim), named_by_claim),
        Watch(resource_of(PersistentVolume), named_by_volume),
    )

    def __init__(self, *, client: Client, informers: InformerFactory) -> None:
        self._classes, self._known = client.of(VolumeAttributesClass), informers.of(VolumeAttributesClass).lister
        self._claims = informers.of(PersistentVolumeClaim).lister
        self._volumes = informers.of(PersistentVolume).lister
        self._claims.add_index(named_by_claim)
        self._volumes.add_index(named_by_volume)

    async def reconcile(self, key: str) -> None:
        attributes_class = self._known.get(key)
        if attributes_class is None:
            return
        if lacks(attributes_class, FINALIZER):
            await protect(self._classes, attributes_class, FINALIZER)
        elif is_candidate(attributes_class, FINALIZER) and not self._is_used(key):
            await release(self._classes, attributes_class, FINALIZER)

    def _is_used(self, name: str) -> bool:
        return bool(self._claims.find(named_by_claim, name) or self._volumes.find(named_by_volume, name))


def make(parts: Parts) -> ClassProtection:
    return ClassProtection(client=parts.client_for(ClassProtection.name), informers=parts.informers)
