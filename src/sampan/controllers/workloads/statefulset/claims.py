"""The claims of a StatefulSet's pods, and whose they are: that decides when they go.

The retention policy says what becomes of claims when the set is deleted and when it is scaled down. A claim that is to
go belongs to the set, or to the pod that is condemned; the garbage collector does the rest.
"""

from sampan.api.types.apps_v1 import StatefulSet
from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod
from sampan.api.types.meta_v1 import OwnerReference
from sampan.controllers.ownership.references import controller_ref
from sampan.controllers.workloads.statefulset.identity import claim_name, ordinal_of, ordinals
from sampan.machinery.copies import copy_of

DELETE = "Delete"


def new_claims(sset: StatefulSet, pod: Pod) -> list[PersistentVolumeClaim]:
    """What the pod, one that the set is to have, needs; each with the owner that the policy asks for."""
    made = []
    for template in sset.spec.volumeClaimTemplates:
        claim = copy_of(template)
        claim.metadata.name = claim_name(sset, template, ordinal_of(pod))
        claim.metadata.namespace = sset.metadata.namespace
        claim.metadata.labels.update(sset.spec.selector.matchLabels if sset.spec.selector else {})
        made.append(with_owners(claim, sset, pod))
    return made


def is_deleted_with_set(sset: StatefulSet) -> bool:
    policy = sset.spec.persistentVolumeClaimRetentionPolicy
    return policy is not None and policy.whenDeleted == DELETE


def is_deleted_when_scaled(sset: StatefulSet) -> bool:
    policy = sset.spec.persistentVolumeClaimRetentionPolicy
    return policy is not None and policy.whenScaled == DELETE


def wanted_owner(sset: StatefulSet, pod: Pod) -> StatefulSet | Pod | None:
    is_condemned = ordinal_of(pod) not in ordinals(sset)
    if is_condemned and is_deleted_when_scaled(sset):
        return pod
    if is_deleted_with_set(sset) and not (is_condemned and is_deleted_when_scaled(sset)):
        return sset
    return None


def has_right_owners(claim: PersistentVolumeClaim, sset: StatefulSet, pod: Pod) -> bool:
    """Also true of a claim that belongs to an earlier set or pod of the name, or to a stranger: it is left alone."""
    if is_stale(claim, sset) or is_stale(claim, pod):
        return True
    ours = _uids(sset, pod)
    present = {reference.uid for reference in claim.metadata.ownerReferences if reference.uid in ours}
    if has_other_controller(claim, sset, pod):
        return not present
    if any(reference.uid in ours and not reference.controller for reference in claim.metadata.ownerReferences):
        return False
    wanted = wanted_owner(sset, pod)
    return present == ({wanted.metadata.uid} if wanted is not None else set())


def with_owners(claim: PersistentVolumeClaim, sset: StatefulSet, pod: Pod) -> PersistentVolumeClaim:
    """A copy that belongs to whom it should."""
    fixed = copy_of(claim)
    references = [
        reference
        for reference in claim.metadata.ownerReferences
        if not _names(reference, sset) and not _names(reference, pod)
    ]
    wanted = wanted_owner(sset, pod)
    if wanted is not None and not has_other_controller(claim, sset, pod):
        references.append(controller_ref(wanted))
    fixed.metadata.ownerReferences = references
    return fixed


def has_other_controller(claim: PersistentVolumeClaim, sset: StatefulSet, pod: Pod) -> bool:
    """Somebody else manages a claim that the policy would have us manage."""
    if not is_deleted_with_set(sset) and not is_deleted_when_scaled(sset):
        return False
    if is_stale(claim, sset) or is_stale(claim, pod):
        return True
    return any(
        reference.controller and not _names(reference, sset) and not _names(reference, pod)
        for reference in claim.metadata.ownerReferences
    )


def is_stale(claim: PersistentVolumeClaim, owner: StatefulSet | Pod) -> bool:
    """The claim belongs to another object of that name: one that was there before."""
    for reference in claim.metadata.ownerReferences:
        if _names(reference, owner):
            return reference.uid != owner.metadata.uid
    return False


def _names(reference: OwnerReference, owner: StatefulSet | Pod) -> bool:
    told = (reference.apiVersion, reference.kind, reference.name)
    return told == (owner.apiVersion, owner.kind, owner.metadata.name)


def _uids(sset: StatefulSet, pod: Pod) -> set[str]:
    return {sset.metadata.uid, pod.metadata.uid} - {""}


__all__ = [
    "has_other_controller",
    "has_right_owners",
    "is_deleted_when_scaled",
    "is_stale",
    "new_claims",
    "with_owners",
]
