"""persistentvolume-protection-controller, which keeps a volume while it is bound to a claim."""

from collections.abc import Hashable, Iterable

from sampan.api.types.core_v1 import PersistentVolume
from sampan.controllers.descriptor import Parts
from sampan.controllers.storage.protection import concerns, is_candidate, lacks, protect, release
from sampan.machinery.client import Client, resource_of
from sampan.machinery.controller import Watch
from sampan.machinery.informer import InformerFactory

FINALIZER = "kubernetes.io/pv-protection"
_BOUND = "Bound"


def _waiting(volume: PersistentVolume) -> Iterable[Hashable]:
    return (volume.metadata.name,) if concerns(volume, FINALIZER) else ()


class VolumeProtection:
    name = "persistentvolume-protection-controller"
    watches = (Watch(resource_of(PersistentVolume), _waiting),)

    def __init__(self, *, client: Client, informers: InformerFactory) -> None:
        self._volumes, self._known = client.of(PersistentVolume), informers.of(PersistentVolume).lister

    async def reconcile(self, key: str) -> None:
        volume = self._known.get(key)
        if volume is None:
            return
        if lacks(volume, FINALIZER):
            await protect(self._volumes, volume, FINALIZER)
        elif is_candidate(volume, FINALIZER) and volume.status.phase != _BOUND:
            await release(self._volumes, volume, FINALIZER)


def make(parts: Parts) -> VolumeProtection:
    return VolumeProtection(client=parts.client_for(VolumeProtection.name), informers=parts.informers)
