"""The claims of a pod: which there are, which are bound, and why a pod cannot be scheduled for what is amiss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod, PodSpec
from sampan.api.types.storage_v1 import StorageClass
from sampan.machinery.volumes.claims_of_pods import claim_name_of, is_made_for
from sampan.machinery.volumes.classes import class_of_claim, waits_for_consumer
from sampan.machinery.volumes.words import BIND_COMPLETED, LOST
from sampan.scheduler.needs import Needs
from sampan.scheduler.pod_info import PodInfo

FindClaim = Callable[[str, str], PersistentVolumeClaim | None]
"""By name and namespace."""
FindClass = Callable[[str], StorageClass | None]


class Amiss(Exception):
    """Why no node will do for a pod; the message is the event's."""


@dataclass(slots=True)
class PodClaims:
    bound: list[PersistentVolumeClaim] = field(default_factory=list)
    delayed: list[PersistentVolumeClaim] = field(default_factory=list)
    """Not bound yet: they wait for a pod to have a node."""
    immediate: list[PersistentVolumeClaim] = field(default_factory=list)
    """Not bound yet, though nothing keeps them."""


def has_claims(needs: Needs) -> bool:
    return needs.parsed("has claims", _has_claims)


def _has_claims(spec: PodSpec) -> bool:
    return any(volume.persistentVolumeClaim is not None or volume.ephemeral is not None for volume in spec.volumes)


def named_claims(needs: Needs) -> Sequence[str]:
    """Claims that the spec names; not those of ephemeral volumes."""
    return needs.parsed("named claims", _named_claims)


def _named_claims(spec: PodSpec) -> Sequence[str]:
    found = (volume.persistentVolumeClaim for volume in spec.volumes)
    return tuple({claim.claimName: None for claim in found if claim is not None})


def uses(info: PodInfo, claim: PersistentVolumeClaim) -> bool:
    if claim.metadata.namespace != info.namespace:
        return False
    return any(claim_name_of(info.pod, volume) == claim.metadata.name for volume in info.pod.spec.volumes)


def not_found(name: str) -> str:
    return f'persistentvolumeclaim "{name}" not found'


def claims_of(pod: Pod, find: FindClaim) -> list[PersistentVolumeClaim]:
    """In the order of the volumes. Raises Amiss for one that is missing, lost, going or another pod's."""
    found = []
    for volume in pod.spec.volumes:
        name = claim_name_of(pod, volume)
        if name:
            found.append(_claim(pod, name, find(name, pod.metadata.namespace), volume.ephemeral is not None))
    return found


def _claim(pod: Pod, name: str, claim: PersistentVolumeClaim | None, is_ephemeral: bool) -> PersistentVolumeClaim:
    if claim is None:
        waits = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        raise Amiss(waits if is_ephemeral else not_found(name))
    if claim.status.phase == LOST:
        raise Amiss(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volumeName}"')
    if claim.metadata.deletionTimestamp is not None:
        raise Amiss(f'persistentvolumeclaim "{name}" is being deleted')
    if is_ephemeral and not is_made_for(claim, pod):
        space = pod.metadata.namespace
        whose = f"PVC {space}/{name} was not created for pod {space}/{pod.metadata.name}"
        raise Amiss(f"{whose} (pod is not owner)")
    return claim


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volumeName) and BIND_COMPLETED in claim.metadata.annotations


def sorted_claims(claims: Sequence[PersistentVolumeClaim], find_class: FindClass) -> PodClaims:
    found = PodClaims()
    for claim in claims:
        if is_bound(claim):
            found.bound.append(claim)
        elif not claim.spec.volumeName and waits_for_consumer(find_class(class_of_claim(claim))):
            found.delayed.append(claim)
        else:
            found.immediate.append(claim)
    return found


__all__ = [
    "Amiss",
    "PodClaims",
    "claims_of",
    "has_claims",
    "is_bound",
    "named_claims",
    "not_found",
    "sorted_claims",
    "uses",
]
