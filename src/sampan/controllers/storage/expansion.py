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
from sampan.machinery.volumes import BOUND, LOCAL_PATH, PROVISIONED_BY, STORAGE, capacity, requested_size

_OUTSIDE = "waiting for an external controller to expand this PVC"
_RESIZING = ("Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError")


def needs_expansion(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim is bound and requests more than its capacity."""
    now = claim.status.capacity.get(STORAGE)
    return claim.status.phase == BOUND and now is not None and parse(now) < requested_size(claim)


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    ref = volume.spec.claimRef
    return ref is not None and (ref.namespace, ref.uid) == (claim.metadata.namespace, claim.metadata.uid)


def with_requested_capacity(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    changed = copy_of(claim)
    size = str(requested_size(claim))
    status = changed.status
    status.capacity[STORAGE] = size
    status.allocatedResources[STORAGE] = size
    status.allocatedResourceStatuses.pop(STORAGE, None)
    status.conditions = [condition for condition in status.conditions if condition.type not in _RESIZING]
    return changed


def _expandable_claim_keys(claim: PersistentVolumeClaim) -> Iterable[Hashable]:
    return (key_of(claim),) if needs_expansion(claim) else ()


class VolumeExpanderController:
    name = "persistentvolume-expander-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, events: EventRecorder) -> None:
        self._claims, self._volumes, self._events = (
            client.for_kind(PersistentVolumeClaim),
            client.for_kind(PersistentVolume),
            events,
        )
        self._known = informers.for_kind(PersistentVolumeClaim).lister
        self.watches = (Watch(resource_of(PersistentVolumeClaim), _expandable_claim_keys),)

    async def reconcile(self, key: NamespacedName) -> None:
        claim = self._known.get_by_key(key)
        if claim is None or not needs_expansion(claim):
            return
        volume = await self._volumes.get(claim.spec.volumeName)
        if not is_bound_to(volume, claim):
            raise errors.unexpected_error(f"persistent Volume is not bound to PVC being updated : {key}")
        if volume.metadata.annotations.get(PROVISIONED_BY) == LOCAL_PATH:
            return await self._expand(volume, claim)
        kind = NORMAL if volume.spec.csi is not None or volume.spec.flexVolume is not None else WARNING
        self._events.event(claim, kind, "ExternalExpanding", _OUTSIDE)

    async def _expand(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        if capacity(volume) < requested_size(claim):
            size = {"spec": {"capacity": {STORAGE: str(requested_size(claim))}}}
            await self._volumes.patch(volume.metadata.name, size)
        await self._claims.update_status(with_requested_capacity(claim))
        message = f"ExpandVolume succeeded for volume {key_of(claim)}"
        self._events.event(claim, NORMAL, "VolumeResizeSuccessful", message)
