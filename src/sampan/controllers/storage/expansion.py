"""persistentvolume-expander-controller, which expands volumes when their claims request more.

Volumes of `sampan.local/path` are directories without a size limit, so that only the recorded capacity changes. All
others are expanded by an external controller, which is reported as an event.
"""

from collections.abc import Hashable, Iterable

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from sampan.api.values.quantity import parse
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.events import NORMAL, WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.machinery.volumes import BOUND, LOCAL_PATH, PROVISIONED_BY, STORAGE, capacity, requested

_OUTSIDE = "waiting for an external controller to expand this PVC"
_RESIZING = ("Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError")


def wants_more(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim is bound and requests more than its capacity."""
    now = claim.status.capacity.get(STORAGE)
    return claim.status.phase == BOUND and now is not None and parse(now) < requested(claim)


def is_of(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    ref = volume.spec.claimRef
    return ref is not None and (ref.namespace, ref.uid) == (claim.metadata.namespace, claim.metadata.uid)


def grown(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    changed = copy_of(claim)
    size = str(requested(claim))
    status = changed.status
    status.capacity[STORAGE] = size
    status.allocatedResources[STORAGE] = size
    status.allocatedResourceStatuses.pop(STORAGE, None)
    status.conditions = [condition for condition in status.conditions if condition.type not in _RESIZING]
    return changed


def _key_if_wanting(claim: PersistentVolumeClaim) -> Iterable[Hashable]:
    return (key_of(claim),) if wants_more(claim) else ()


class VolumeExpanderController:
    name = "persistentvolume-expander-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, events: EventRecorder) -> None:
        self._claims, self._volumes, self._events = (
            client.of(PersistentVolumeClaim),
            client.of(PersistentVolume),
            events,
        )
        self._known = informers.of(PersistentVolumeClaim).lister
        self.watches = (Watch(resource_of(PersistentVolumeClaim), _key_if_wanting),)

    async def reconcile(self, key: NamespacedName) -> None:
        claim = self._known.by_key(key)
        if claim is None or not wants_more(claim):
            return
        volume = await self._volumes.get(claim.spec.volumeName)
        if not is_of(volume, claim):
            raise errors.unexpected(f"persistent Volume is not bound to PVC being updated : {key}")
        if volume.metadata.annotations.get(PROVISIONED_BY) == LOCAL_PATH:
            return await self._grow(volume, claim)
        kind = NORMAL if volume.spec.csi is not None or volume.spec.flexVolume is not None else WARNING
        self._events.event(claim, kind, "ExternalExpanding", _OUTSIDE)

    async def _grow(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        if capacity(volume) < requested(claim):
            size = {"spec": {"capacity": {STORAGE: str(requested(claim))}}}
            await self._volumes.patch(volume.metadata.name, size)
        await self._claims.update_status(grown(claim))
        message = f"ExpandVolume succeeded for volume {key_of(claim)}"
        self._events.event(claim, NORMAL, "VolumeResizeSuccessful", message)
