"""The storage class of claims and volumes. Pure."""

from collections.abc import Iterable

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from sampan.api.types.storage_v1 import StorageClass
from sampan.machinery.volumes.words import BETA_CLASS, BETA_DEFAULT_CLASS, DEFAULT_CLASS, SELECTED_NODE

_WAITS = "WaitForFirstConsumer"


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    return claim.metadata.annotations.get(BETA_CLASS) or claim.spec.storageClassName or ""


def names_class(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim sets a storage class; the empty one counts."""
    return BETA_CLASS in claim.metadata.annotations or claim.spec.storageClassName is not None


def class_of_volume(volume: PersistentVolume) -> str:
    return volume.metadata.annotations.get(BETA_CLASS) or volume.spec.storageClassName


def is_default(found: StorageClass) -> bool:
    notes = found.metadata.annotations
    return notes.get(DEFAULT_CLASS) == "true" or notes.get(BETA_DEFAULT_CLASS) == "true"


def default_of(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Return the default class: the newest of those marked as default, and the first by name of equally new ones."""
    defaults = sorted(
        (storage_class for storage_class in classes if is_default(storage_class)),
        key=lambda storage_class: storage_class.metadata.name,
    )
    return max(defaults, key=lambda storage_class: storage_class.metadata.creationTimestamp or "", default=None)


def waits_for_consumer(found: StorageClass | None) -> bool:
    return found is not None and found.volumeBindingMode == _WAITS


def has_node(claim: PersistentVolumeClaim) -> bool:
    """Whether the scheduler has selected a node for the volume."""
    return SELECTED_NODE in claim.metadata.annotations
