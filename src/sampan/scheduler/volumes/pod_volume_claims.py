"""The PersistentVolumeClaims of a pod: which they are, which are bound, and errors that make a pod unschedulable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod, PodSpec
from sampan.api.types.storage_v1 import StorageClass
from sampan.machinery.volumes.claims_of_pods import claim_name_of, is_made_for
from sampan.machinery.volumes.classes import class_of_claim, waits_for_consumer
from sampan.machinery.volumes.words import BIND_COMPLETED, LOST
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.pod_signature import PodSignature

FindClaim = Callable[[str, str], PersistentVolumeClaim | None]
"""Returns the claim with this name and namespace, or None."""
FindClass = Callable[[str], StorageClass | None]


class UnusableVolumeClaim(Exception):
    """A claim or volume makes the pod unschedulable on every node. The message becomes the text of the event."""


@dataclass(slots=True)
class PodClaims:
    bound: list[PersistentVolumeClaim] = field(default_factory=list)
    delayed: list[PersistentVolumeClaim] = field(default_factory=list)
    """Unbound claims whose storage class uses WaitForFirstConsumer."""
    immediate: list[PersistentVolumeClaim] = field(default_factory=list)
    """Other unbound claims, which should be bound without waiting for a pod."""


def has_claims(signature: PodSignature) -> bool:
    return signature.parsed("has claims", _has_claims)


def _has_claims(spec: PodSpec) -> bool:
    return any(volume.persistentVolumeClaim is not None or volume.ephemeral is not None for volume in spec.volumes)


def named_claims(signature: PodSignature) -> Sequence[str]:
    """Return the claims that the spec refers to by name, without those of ephemeral volumes."""
    return signature.parsed("named claims", _named_claims)


def _named_claims(spec: PodSpec) -> Sequence[str]:
    claims = (volume.persistentVolumeClaim for volume in spec.volumes)
    return tuple({claim.claimName: None for claim in claims if claim is not None})


def uses_claim(info: PodInfo, claim: PersistentVolumeClaim) -> bool:
    if claim.metadata.namespace != info.namespace:
        return False
    return any(claim_name_of(info.pod, volume) == claim.metadata.name for volume in info.pod.spec.volumes)


def not_found(name: str) -> str:
    return f'persistentvolumeclaim "{name}" not found'


def volume_claims_of(pod: Pod, find: FindClaim) -> list[PersistentVolumeClaim]:
    """Return the claims in the order of the volumes; raise Amiss if one is missing, lost, terminating or foreign."""
    claims = []
    for volume in pod.spec.volumes:
        name = claim_name_of(pod, volume)
        if name:
            claims.append(_claim(pod, name, find(name, pod.metadata.namespace), volume.ephemeral is not None))
    return claims


def _claim(pod: Pod, name: str, claim: PersistentVolumeClaim | None, is_ephemeral: bool) -> PersistentVolumeClaim:
    if claim is None:
        waits = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        raise UnusableVolumeClaim(waits if is_ephemeral else not_found(name))
    if claim.status.phase == LOST:
        raise UnusableVolumeClaim(
            f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volumeName}"'
        )
    if claim.metadata.deletionTimestamp is not None:
        raise UnusableVolumeClaim(f'persistentvolumeclaim "{name}" is being deleted')
    if is_ephemeral and not is_made_for(claim, pod):
        space = pod.metadata.namespace
        problem = f"PVC {space}/{name} was not created for pod {space}/{pod.metadata.name}"
        raise UnusableVolumeClaim(f"{problem} (pod is not owner)")
    return claim


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volumeName) and BIND_COMPLETED in claim.metadata.annotations


def sorted_claims(claims: Sequence[PersistentVolumeClaim], find_class: FindClass) -> PodClaims:
    pod_claims = PodClaims()
    for claim in claims:
        if is_bound(claim):
            pod_claims.bound.append(claim)
        elif not claim.spec.volumeName and waits_for_consumer(find_class(class_of_claim(claim))):
            pod_claims.delayed.append(claim)
        else:
            pod_claims.immediate.append(claim)
    return pod_claims
