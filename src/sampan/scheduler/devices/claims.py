"""The ResourceClaims of a pod and their reservations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sampan.api.types.core_v1 import Pod
from sampan.api.types.resource_v1 import ResourceClaim, ResourceClaimConsumerReference

FINALIZER = "resource.kubernetes.io/delete-protection"
MOST_RESERVED = 256

Find = Callable[[str, str], ResourceClaim | None]
"""Returns the claim with this name and namespace, or None."""


class ClaimAmiss(Exception):
    """A pod cannot be scheduled because of a claim. The message becomes the text of the event."""


def claims_of(pod: Pod, find: Find) -> list[ResourceClaim]:
    """Return the pod's claims in the order of the spec, without those that turned out not to be needed; raise
    ClaimAmiss.
    """
    claims = []
    for name, is_made in _names(pod):
        claim = find(name, pod.metadata.namespace)
        if claim is None:
            raise ClaimAmiss(f'could not find ResourceClaim "{pod.metadata.namespace}/{name}"')
        if claim.metadata.deletionTimestamp is not None:
            raise ClaimAmiss(f'resourceclaim "{name}" is being deleted')
        if is_made and not any(
            owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.ownerReferences
        ):
            space = pod.metadata.namespace
            what = f"ResourceClaim {space}/{name} was not created for pod {space}/{pod.metadata.name}"
            raise ClaimAmiss(f"{what} (pod is not owner)")
        claims.append(claim)
    return claims


def _names(pod: Pod) -> Iterator[tuple[str, bool]]:
    """Yield the name of each claim, and whether the claim was generated for the pod."""
    for pod_claim in pod.spec.resourceClaims:
        if pod_claim.resourceClaimName:
            yield pod_claim.resourceClaimName, False
            continue
        claim_status = next(
            (status for status in pod.status.resourceClaimStatuses if status.name == pod_claim.name), None
        )
        if claim_status is None:
            raise ClaimAmiss(f'pod "{pod.metadata.namespace}/{pod.metadata.name}": ResourceClaim not created yet')
        if claim_status.resourceClaimName:
            yield claim_status.resourceClaimName, True


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    return any(consumer.uid == pod.metadata.uid for consumer in claim.status.reservedFor)


def can_be_reserved(claim: ResourceClaim) -> bool:
    return len(claim.status.reservedFor) < MOST_RESERVED


def reference_to(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
