"""Pure functions for the resource claims that a pod and its containers use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sampan.api import quantity
from sampan.api.types.core_v1 import Container, Pod, PodResourceClaim
from sampan.api.types.resource_v1 import ResourceClaim


class ClaimNotPrepared(Exception):
    """The claims of the pod cannot be prepared; the message says why."""


class Used(NamedTuple):
    name: str
    """Name of the ResourceClaim."""
    is_made: bool
    """Whether it was created for this pod from a template."""


def claims_of(pod: Pod) -> list[Used]:
    claims = [used for claim in pod.spec.resourceClaims if (used := _of(pod, claim)) is not None]
    status = pod.status.extendedResourceClaimStatus
    return [*claims, Used(status.resourceClaimName, False)] if status is not None else claims


def _of(pod: Pod, claim: PodResourceClaim) -> Used | None:
    """Return the claim, or None if the pod does not need one. Raise ClaimNotPrepared if it has not been created yet."""
    if claim.resourceClaimName:
        return Used(claim.resourceClaimName, False)
    for status in pod.status.resourceClaimStatuses:
        if status.name == claim.name:
            return Used(status.resourceClaimName, True) if status.resourceClaimName else None
    where = f"{pod.metadata.namespace}/{pod.metadata.name}"
    raise ClaimNotPrepared(f'pod "{where}": ResourceClaim not created yet')


def check(pod: Pod, used: Used, claim: ResourceClaim) -> None:
    meta = claim.metadata
    if used.is_made and not any(owner.controller and owner.uid == pod.metadata.uid for owner in meta.ownerReferences):
        where = f"{meta.namespace}/{meta.name} was not created for pod {pod.metadata.namespace}/{pod.metadata.name}"
        raise ClaimNotPrepared(f"ResourceClaim {where} (pod is not owner)")
    if not any(consumer.uid == pod.metadata.uid for consumer in claim.status.reservedFor):
        message = f"pod {pod.metadata.name} ({pod.metadata.uid}) is not allowed to use ResourceClaim"
        raise ClaimNotPrepared(f"{message} {used.name} ({meta.uid})")
    if claim.status.allocation is None:
        raise ClaimNotPrepared(f"ResourceClaim {used.name}: not allocated")


class Part(NamedTuple):
    """The part of a claim that a container uses."""

    label: str
    """Name in the container status; empty for extended resources."""
    claim: str
    request: str
    """Request in the claim; empty for all requests."""


def parts_of(pod: Pod, container: Container) -> Iterator[Part]:
    by_name = {claim.name: claim for claim in pod.spec.resourceClaims}
    for claim_reference in container.resources.claims:
        used = _of(pod, by_name[claim_reference.name]) if claim_reference.name in by_name else None
        if used is not None:
            label = (
                f"claim:{claim_reference.name}/{claim_reference.request}"
                if claim_reference.request
                else f"claim:{claim_reference.name}"
            )
            yield Part(label, used.name, claim_reference.request or "")
    status = pod.status.extendedResourceClaimStatus
    requested = {name for name, text in container.resources.requests.items() if quantity.parse(text).value()}
    for mapping in (status.requestMappings or ()) if status is not None else ():
        if mapping.containerName == container.name and mapping.resourceName in requested:
            yield Part("", status.resourceClaimName if status is not None else "", mapping.requestName)
