"""Matching of volumes to claims. Pure."""

from collections.abc import Iterable

from sampan.api import label_selector
from sampan.api.quantity import Quantity, parse
from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from sampan.machinery.volumes.binding import class_of_claim, class_of_volume
from sampan.machinery.volumes.volume_annotations import AVAILABLE, STORAGE

_FILESYSTEM = "Filesystem"
_ZERO = parse("0")


def requested(claim: PersistentVolumeClaim) -> Quantity:
    amount = claim.spec.resources.requests.get(STORAGE) if claim.spec.resources is not None else None
    return parse(amount) if amount is not None else _ZERO


def capacity(volume: PersistentVolume) -> Quantity:
    amount = volume.spec.capacity.get(STORAGE)
    return parse(amount) if amount is not None else _ZERO


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume's `claimRef` names the claim; without a UID it matches any claim of that name."""
    ref = volume.spec.claimRef
    if ref is None or (ref.namespace, ref.name) != (claim.metadata.namespace, claim.metadata.name):
        return False
    return ref.uid in ("", claim.metadata.uid)


def modes_differ(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return (claim.spec.volumeMode or _FILESYSTEM) != (volume.spec.volumeMode or _FILESYSTEM)


def allows_access(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return set(claim.spec.accessModes) <= set(volume.spec.accessModes)


def attributes_differ(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return (claim.spec.volumeAttributesClassName or "") != (volume.spec.volumeAttributesClassName or "")


def why_not(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Return why the claim cannot be bound to the volume that it names; empty if it can."""
    if volume.metadata.deletionTimestamp is not None:
        return f'the volume is marked for deletion "{volume.metadata.name}"'
    if capacity(volume) < requested(claim):
        return "requested PV is too small"
    if class_of_volume(volume) != class_of_claim(claim):
        return "storageClassName does not match"
    if attributes_differ(claim, volume):
        return "volumeAttributesClassName does not match"
    if modes_differ(claim, volume):
        return "incompatible volumeMode"
    return "" if allows_access(volume, claim) else "incompatible accessMode"


def best_match(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], *, only_named: bool = False
) -> PersistentVolume | None:
    """Return the smallest matching volume with the fewest access modes. Among volumes with equally many access modes
    one that names the claim is preferred; `only_named` excludes all others."""
    suiting = [volume for volume in volumes if _suits(volume, claim, only_named)]
    return min(suiting, key=lambda volume: _rank(volume, claim), default=None)


def _rank(volume: PersistentVolume, claim: PersistentVolumeClaim) -> tuple[int, bool, Quantity, str]:
    modes = len(set(volume.spec.accessModes))
    return modes, not is_bound_to(volume, claim), capacity(volume), volume.metadata.name


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim, only_named: bool) -> bool:
    if volume.metadata.deletionTimestamp is not None or not allows_access(volume, claim):
        return False
    if modes_differ(claim, volume) or attributes_differ(claim, volume) or capacity(volume) < requested(claim):
        return False
    if volume.spec.claimRef is not None:
        return is_bound_to(volume, claim)
    if only_named or volume.status.phase != AVAILABLE or class_of_volume(volume) != class_of_claim(claim):
        return False
    selector = claim.spec.selector
    return selector is None or label_selector.selector_of(selector).matches(volume.metadata.labels)
