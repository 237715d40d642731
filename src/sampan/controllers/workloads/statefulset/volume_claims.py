"""The claims of a StatefulSet's pods, and their owner references.

The retention policy states what happens to claims when the set is deleted or scaled down. A claim to be deleted is
owned by the set or by the condemned pod, and garbage collection does the rest.
"""

from sampan.api.semantics.owners import new_controller_ref
from sampan.api.types.apps_v1 import StatefulSet
from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod
from sampan.api.types.meta_v1 import OwnerReference
from sampan.controllers.workloads.statefulset.identity import claim_name, ordinal_of, ordinals
from sampan.machinery.copies import copy_of

DELETE = "Delete"


def new_claims(sset: StatefulSet, pod: Pod) -> list[PersistentVolumeClaim]:
    """Return the claims of a pod that the set should have, with the owner references that the policy requires."""
    claims = []
    for template in sset.spec.volumeClaimTemplates:
        claim = copy_of(template)
        claim.metadata.name = claim_name(sset, template, ordinal_of(pod))
        claim.metadata.namespace = sset.metadata.namespace
        claim.metadata.labels.update(sset.spec.selector.matchLabels if sset.spec.selector else {})
        claims.append(with_owners(claim, sset, pod))
    return claims


def is_deleted_with_set(sset: StatefulSet) -> bool:
    policy = sset.spec.persistentVolumeClaimRetentionPolicy
    return policy is not None and policy.whenDeleted == DELETE


def is_deleted_when_scaled(sset: StatefulSet) -> bool:
    policy = sset.spec.persistentVolumeClaimRetentionPolicy
    return policy is not None and policy.whenScaled == DELETE


def desired_owner(sset: StatefulSet, pod: Pod) -> StatefulSet | Pod | None:
    is_condemned = ordinal_of(pod) not in ordinals(sset)
    if is_condemned and is_deleted_when_scaled(sset):
        return pod
    if is_deleted_with_set(sset) and not (is_condemned and is_deleted_when_scaled(sset)):
        return sset
    return None


def has_right_owners(claim: PersistentVolumeClaim, sset: StatefulSet, pod: Pod) -> bool:
    """Whether the owner references need no change. This includes claims of an earlier set or pod of the same name, or
    of another controller, which are left alone."""
    if is_stale(claim, sset) or is_stale(claim, pod):
        return True
    ours = _uids(sset, pod)
    present = {reference.uid for reference in claim.metadata.ownerReferences if reference.uid in ours}
    if has_other_controller(claim, sset, pod):
        return not present
    if any(reference.uid in ours and not reference.controller for reference in claim.metadata.ownerReferences):
        return False
    owner = desired_owner(sset, pod)
    return present == ({owner.metadata.uid} if owner is not None else set())


def with_owners(claim: PersistentVolumeClaim, sset: StatefulSet, pod: Pod) -> PersistentVolumeClaim:
    """Return a copy with the owner references that the policy requires."""
    fixed = copy_of(claim)
    references = [
        reference
        for reference in claim.metadata.ownerReferences
        if not _names(reference, sset) and not _names(reference, pod)
    ]
    owner = desired_owner(sset, pod)
    if owner is not None and not has_other_controller(claim, sset, pod):
        references.append(new_controller_ref(owner))
    fixed.metadata.ownerReferences = references
    return fixed


def has_other_controller(claim: PersistentVolumeClaim, sset: StatefulSet, pod: Pod) -> bool:
    """Whether another controller owns a claim whose owner references the retention policy would have this controller
    set."""
    if not is_deleted_with_set(sset) and not is_deleted_when_scaled(sset):
        return False
    if is_stale(claim, sset) or is_stale(claim, pod):
        return True
    return any(
        reference.controller and not _names(reference, sset) and not _names(reference, pod)
        for reference in claim.metadata.ownerReferences
    )


def is_stale(claim: PersistentVolumeClaim, owner: StatefulSet | Pod) -> bool:
    """Whether the claim is owned by an earlier object of the same name."""
    for reference in claim.metadata.ownerReferences:
        if _names(reference, owner):
            return reference.uid != owner.metadata.uid
    return False


def _names(reference: OwnerReference, owner: StatefulSet | Pod) -> bool:
    identity = (reference.apiVersion, reference.kind, reference.name)
    return identity == (owner.apiVersion, owner.kind, owner.metadata.name)


def _uids(sset: StatefulSet, pod: Pod) -> set[str]:
    return {sset.metadata.uid, pod.metadata.uid} - {""}
