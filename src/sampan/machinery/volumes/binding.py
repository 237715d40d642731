"""The changes to claims and volumes when they are bound and released, and their storage class. Pure: each function that
changes an object returns a changed copy, or None if nothing changes."""

from collections.abc import Iterable

from sampan.api.quantity import parse
from sampan.api.types.core_v1 import ObjectReference, PersistentVolume, PersistentVolumeClaim
from sampan.api.types.storage_v1 import StorageClass
from sampan.machinery.copies import copy_of
from sampan.machinery.volumes.volume_annotations import (
    BETA_CLASS,
    BETA_DEFAULT_CLASS,
    BIND_COMPLETED,
    BOUND,
    BOUND_BY_CONTROLLER,
    DEFAULT_CLASS,
    PENDING,
    PRE_RESIZE_CAPACITY,
    SELECTED_NODE,
    STORAGE,
    YES,
)

_WAITS = "WaitForFirstConsumer"


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    return claim.metadata.annotations.get(BETA_CLASS) or claim.spec.storageClassName or ""


def names_class(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim sets a storage class; the empty one counts."""
    return BETA_CLASS in claim.metadata.annotations or claim.spec.storageClassName is not None


def class_of_volume(volume: PersistentVolume) -> str:
    return volume.metadata.annotations.get(BETA_CLASS) or volume.spec.storageClassName


def is_default(storage_class: StorageClass) -> bool:
    notes = storage_class.metadata.annotations
    return notes.get(DEFAULT_CLASS) == "true" or notes.get(BETA_DEFAULT_CLASS) == "true"


def default_of(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Return the default class: the newest of those marked as default, and the first by name of equally new ones."""
    defaults = sorted(
        (storage_class for storage_class in classes if is_default(storage_class)),
        key=lambda storage_class: storage_class.metadata.name,
    )
    return max(defaults, key=lambda storage_class: storage_class.metadata.creationTimestamp or "", default=None)


def waits_for_consumer(storage_class: StorageClass | None) -> bool:
    return storage_class is not None and storage_class.volumeBindingMode == _WAITS


def has_node(claim: PersistentVolumeClaim) -> bool:
    """Whether the scheduler has selected a node for the volume."""
    return SELECTED_NODE in claim.metadata.annotations


def reference_to(claim: PersistentVolumeClaim) -> ObjectReference:
    meta = claim.metadata
    return ObjectReference(
        kind="PersistentVolumeClaim",
        apiVersion="v1",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resourceVersion=meta.resourceVersion,
    )


def volume_bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume | None:
    ref, meta = volume.spec.claimRef, claim.metadata
    if ref is not None and (ref.namespace, ref.name, ref.uid) == (meta.namespace, meta.name, meta.uid):
        return None
    changed = copy_of(volume)
    if ref is None:
        changed.metadata.annotations[BOUND_BY_CONTROLLER] = YES
    changed.spec.claimRef = reference_to(claim)
    return changed


def volume_unbound(volume: PersistentVolume) -> PersistentVolume:
    """Return the volume without its claim. A `claimRef` that the controller did not write is kept without UID, for any
    claim of that name."""
    changed = copy_of(volume)
    if changed.metadata.annotations.pop(BOUND_BY_CONTROLLER, None) is not None:
        changed.spec.claimRef = None
    elif changed.spec.claimRef is not None:
        changed.spec.claimRef.uid = ""
    return changed


def volume_in(volume: PersistentVolume, phase: str, message: str = "") -> PersistentVolume | None:
    if volume.status.phase == phase:
        return None
    changed = copy_of(volume)
    changed.status.phase, changed.status.message = phase, message
    return changed


def claim_bound(claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim | None:
    is_named = claim.spec.volumeName == volume.metadata.name
    if is_named and BIND_COMPLETED in claim.metadata.annotations:
        return None
    changed = copy_of(claim)
    if not is_named:
        changed.spec.volumeName = volume.metadata.name
        changed.metadata.annotations.setdefault(BOUND_BY_CONTROLLER, YES)
    changed.metadata.annotations.setdefault(BIND_COMPLETED, YES)
    return changed


def claim_in(claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None) -> PersistentVolumeClaim | None:
    changed = copy_of(claim)
    status = changed.status
    if volume is None:
        status.accessModes, status.capacity, status.currentVolumeAttributesClassName = [], {}, None
    else:
        status.accessModes = list(volume.spec.accessModes)
        if claim.status.phase != phase:
            status.capacity = _capacity(claim, volume)
        if (claim.status.phase, phase) == (PENDING, BOUND):
            status.currentVolumeAttributesClassName = volume.spec.volumeAttributesClassName
    status.phase = phase
    return changed if status != claim.status else None


def _capacity(claim: PersistentVolumeClaim, volume: PersistentVolume) -> dict[str, str]:
    before = volume.metadata.annotations.get(PRE_RESIZE_CAPACITY)
    if before is not None:
        return {**claim.status.capacity, STORAGE: before}
    volume_size, claim_size = volume.spec.capacity.get(STORAGE), claim.status.capacity.get(STORAGE)
    if volume_size is not None and claim_size is not None and parse(volume_size) == parse(claim_size):
        return claim.status.capacity
    return dict(volume.spec.capacity)
