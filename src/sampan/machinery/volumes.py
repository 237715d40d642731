"""The relations between persistent volume claims, volumes and storage classes, shared by the persistent volume
controller, the scheduler and the kubelet.

Pure functions over API objects belong here: the class of a claim, the volume that matches a claim, the changes of
binding, the claims that a pod uses. A function that changes an object returns a changed copy, or None if nothing
changes. Components decide when to act on the results. The Kubernetes counterpart is
`k8s.io/component-helpers/storage/volume`.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from sampan.api.selectors import label_selector
from sampan.api.types.core_v1 import ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod
from sampan.api.types.storage_v1 import StorageClass
from sampan.api.values.quantity import Quantity, parse
from sampan.machinery.copies import copy_of
from sampan.machinery.object_key import NamespacedName

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
BETA_DEFAULT_CLASS = "storageclass.beta.kubernetes.io/is-default-class"
PRE_RESIZE_CAPACITY = "volume.alpha.kubernetes.io/pre-resize-capacity"
MIGRATED_TO = "pv.kubernetes.io/migrated-to"
DELETION_FINALIZER = "kubernetes.io/pv-controller"
"""The finalizer that keeps a volume that an in-process plugin provisioned until its storage is deleted."""
YES = "yes"
LOCAL_PATH = "sampan.local/path"
"""The name of the provisioner that Sampan embeds, in the `provisioner` field of a storage class."""

PENDING, BOUND, LOST = "Pending", "Bound", "Lost"
AVAILABLE, RELEASED, FAILED = "Available", "Released", "Failed"
RETAIN, DELETE, RECYCLE = "Retain", "Delete", "Recycle"
STORAGE = "storage"

_WAITS = "WaitForFirstConsumer"

_FILESYSTEM = "Filesystem"
_ZERO = parse("0")


def claim_name_of(pod: Pod, volume: Any) -> str:
    """Return the name of the claim of a volume of the pod, which may not exist yet; empty if the volume has none."""
    if volume.persistentVolumeClaim is not None:
        name: str = volume.persistentVolumeClaim.claimName
        return name
    return ephemeral_claim_name(pod, volume) if volume.ephemeral is not None else ""


def ephemeral_claim_name(pod: Pod, volume: Any) -> str:
    return f"{pod.metadata.name}-{volume.name}"


def claim_names_of(pod: Pod) -> Iterator[str]:
    for volume in pod.spec.volumes:
        if name := claim_name_of(pod, volume):
            yield name


def by_claim(pod: Pod) -> Iterable[Hashable]:
    """Index pods by the claims that they use."""
    return [NamespacedName(pod.metadata.namespace, name) for name in claim_names_of(pod)]


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    return claim.metadata.annotations.get(BETA_CLASS) or claim.spec.storageClassName or ""


def names_class(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim sets a storage class; the empty class name counts as set."""
    return BETA_CLASS in claim.metadata.annotations or claim.spec.storageClassName is not None


def class_of_volume(volume: PersistentVolume) -> str:
    return volume.metadata.annotations.get(BETA_CLASS) or volume.spec.storageClassName


def is_default(storage_class: StorageClass) -> bool:
    notes = storage_class.metadata.annotations
    return notes.get(DEFAULT_CLASS) == "true" or notes.get(BETA_DEFAULT_CLASS) == "true"


def default_of(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Return the default storage class: the newest of the classes that are marked as default. Of equally new classes,
    the first by name counts."""
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


def bind_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume | None:
    ref, meta = volume.spec.claimRef, claim.metadata
    if ref is not None and (ref.namespace, ref.name, ref.uid) == (meta.namespace, meta.name, meta.uid):
        return None
    changed = copy_of(volume)
    if ref is None:
        changed.metadata.annotations[BOUND_BY_CONTROLLER] = YES
    changed.spec.claimRef = reference_to(claim)
    return changed


def unbind_volume(volume: PersistentVolume) -> PersistentVolume:
    """Return the volume without its claim. A `claimRef` that the controller did not write is kept without UID, for any
    claim of that name."""
    changed = copy_of(volume)
    if changed.metadata.annotations.pop(BOUND_BY_CONTROLLER, None) is not None:
        changed.spec.claimRef = None
    elif changed.spec.claimRef is not None:
        changed.spec.claimRef.uid = ""
    return changed


def set_volume_phase(volume: PersistentVolume, phase: str, message: str = "") -> PersistentVolume | None:
    if volume.status.phase == phase:
        return None
    changed = copy_of(volume)
    changed.status.phase, changed.status.message = phase, message
    return changed


def bind_claim(claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim | None:
    is_named = claim.spec.volumeName == volume.metadata.name
    if is_named and BIND_COMPLETED in claim.metadata.annotations:
        return None
    changed = copy_of(claim)
    if not is_named:
        changed.spec.volumeName = volume.metadata.name
        changed.metadata.annotations.setdefault(BOUND_BY_CONTROLLER, YES)
    changed.metadata.annotations.setdefault(BIND_COMPLETED, YES)
    return changed


def set_claim_phase(
    claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None
) -> PersistentVolumeClaim | None:
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


def requested_size(claim: PersistentVolumeClaim) -> Quantity:
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


def explain_mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Return why the claim cannot be bound to the volume that it names; empty if it can."""
    if volume.metadata.deletionTimestamp is not None:
        return f'the volume is marked for deletion "{volume.metadata.name}"'
    if capacity(volume) < requested_size(claim):
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
    if modes_differ(claim, volume) or attributes_differ(claim, volume) or capacity(volume) < requested_size(claim):
        return False
    if volume.spec.claimRef is not None:
        return is_bound_to(volume, claim)
    if only_named or volume.status.phase != AVAILABLE or class_of_volume(volume) != class_of_claim(claim):
        return False
    selector = claim.spec.selector
    return selector is None or label_selector.selector_of(selector).matches(volume.metadata.labels)
