"""ResourceClaims and the pods that use them: reservations, as in `k8s.io/dynamic-resource-allocation/resourceclaim`."""

from sampan.api.types.core_v1 import Pod
from sampan.api.types.resource_v1 import ResourceClaim, ResourceClaimConsumerReference

MAX_CONSUMERS = 256
"""How many pods a claim can be reserved for."""


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    return any(consumer.uid == pod.metadata.uid for consumer in claim.status.reservedFor)


def can_be_reserved(claim: ResourceClaim) -> bool:
    """Whether the claim can be reserved for another pod."""
    return len(claim.status.reservedFor) < MAX_CONSUMERS


def consumer_reference(pod: Pod) -> ResourceClaimConsumerReference:
    """Return the reference to the pod that the status of a ResourceClaim contains while the claim is reserved for the
    pod."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
