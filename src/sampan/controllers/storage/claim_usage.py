"""The condition Unused of persistent volume claims: since when no pod has used a claim
(`PersistentVolumeClaimUnusedSinceTime` in `pkg/controller/volume/pvcprotection`)."""

from collections.abc import Iterable

from sampan.api.semantics.conditions import FALSE, TRUE, condition_status
from sampan.api.semantics.owners import is_controlled_by
from sampan.api.semantics.pods import is_terminal
from sampan.api.types.core_v1 import PersistentVolumeClaim, PersistentVolumeClaimCondition, Pod
from sampan.api.values.times import format_time
from sampan.machinery.copies import copy_of
from sampan.machinery.volumes import BOUND, ephemeral_claim_name

UNUSED = "Unused"
_USED = FALSE, "PodUsingPVC", "A pod is currently referencing this PVC"
_NOT_USED = TRUE, "NoPodsUsingPVC", "No pods are currently referencing this PVC"


def has_usage(claim: PersistentVolumeClaim) -> bool:
    """Whether the condition is kept for the claim: it is bound and not being deleted. An unbound claim is left to
    persistentvolume-binder-controller."""
    return claim.status.phase == BOUND and claim.metadata.deletionTimestamp is None


def lacks_usage(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim should have the condition but has none."""
    return has_usage(claim) and not condition_status(claim.status.conditions, UNUSED)


def is_used(claim: PersistentVolumeClaim, pods: Iterable[Pod]) -> bool:
    """Whether one of the pods, scheduled or not, uses the claim and has not ended."""
    return any(_names(pod, claim) and not _has_ended(pod) for pod in pods)


def with_usage(claim: PersistentVolumeClaim, pods: Iterable[Pod], now: float) -> PersistentVolumeClaim | None:
    """Return a copy of the claim with the condition that its pods require, or None if it has that condition."""
    status, reason, message = _USED if is_used(claim, pods) else _NOT_USED
    if condition_status(claim.status.conditions, UNUSED) == status:
        return None
    changed = copy_of(claim)
    condition = PersistentVolumeClaimCondition(
        type=UNUSED, status=status, reason=reason, message=message, lastTransitionTime=format_time(now)
    )
    others = changed.status.conditions
    index = next((index for index, other in enumerate(others) if other.type == UNUSED), len(others))
    changed.status.conditions = [*others[:index], condition, *others[index + 1 :]]
    return changed


def _names(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    name = claim.metadata.name
    for volume in pod.spec.volumes:
        if volume.persistentVolumeClaim is not None and volume.persistentVolumeClaim.claimName == name:
            return True
        if volume.ephemeral is not None and ephemeral_claim_name(pod, volume) == name and is_controlled_by(claim, pod):
            return True
    return False


def _has_ended(pod: Pod) -> bool:
    """Whether the pod is terminal, or is being deleted and none of its containers runs."""
    statuses = pod.status.containerStatuses
    is_running = any(status.state is None or status.state.running is not None for status in statuses)
    return is_terminal(pod) or (pod.metadata.deletionTimestamp is not None and not is_running)
