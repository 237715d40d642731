"""The special claim for extended resources of a pod that devices provide (KEP-5004). Pure.

The claim is created in memory for each node and written when the pod is bound, with one request per container and
resource. An init container that completes before other containers start may use their devices, and requests only what
it needs in addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sampan.api.semantics.pods import init_and_main_containers, is_sidecar
from sampan.api.types.core_v1 import Container, ContainerExtendedResourceRequest, Pod
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.api.types.resource_v1 import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from sampan.api.values.quantity import parse

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
PLACEHOLDER_NAME = "<extended-resources>"
"""A placeholder that is not a valid object name, so that no real claim can have it."""


class ExtendedResourceClaim(NamedTuple):
    claim: ResourceClaim
    mappings: Sequence[ContainerExtendedResourceRequest]
    """Which request provides which resource of which container."""


class _ClaimPart(NamedTuple):
    requests: list[DeviceRequest]
    mappings: list[ContainerExtendedResourceRequest]


def is_extended_resource_claim(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim was generated for the pod's extended resources."""
    meta = claim.metadata
    return meta.annotations.get(ANNOTATION) == "true" and any(
        owner.controller and (owner.name, owner.uid) == (pod.metadata.name, pod.metadata.uid)
        for owner in meta.ownerReferences
    )


def build_extended_resource_claim(
    pod: Pod, resources: Iterable[str], class_of: Callable[[str], DeviceClass | None]
) -> ExtendedResourceClaim:
    """Return the claim for the resources that devices provide on a node."""
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        device_class = class_of(resource)
        if device_class is not None:
            part = _requests(pod, resource, device_class.metadata.name)
            requests += part.requests
            mappings += part.mappings
    owner = OwnerReference(apiVersion="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True)
    meta = ObjectMeta(
        name=PLACEHOLDER_NAME,
        namespace=pod.metadata.namespace,
        generateName=f"{pod.metadata.name}-extended-resources-",
        uid=f"{pod.metadata.uid}/extended-resources",
        ownerReferences=[owner],
        annotations={ANNOTATION: "true"},
    )
    by_name = sorted(requests, key=lambda request: request.name)
    return ExtendedResourceClaim(
        ResourceClaim(metadata=meta, spec=ResourceClaimSpec(devices=DeviceClaim(requests=by_name))), mappings
    )


def _requests(pod: Pod, resource: str, class_name: str) -> _ClaimPart:
    containers = init_and_main_containers(pod.spec)
    first = len(pod.spec.initContainers)
    of_running: dict[int, DeviceRequest] = {}
    of_init: list[DeviceRequest] = []
    part, early = _ClaimPart([], []), _ClaimPart([], [])
    for position, container in enumerate(containers):
        if position >= first or is_sidecar(container):
            request, mapped = _request(position, container, resource, class_name, ())
            part.mappings.extend(mapped)
            if request is not None:
                of_running[position] = request
    for position, container in enumerate(containers[:first]):
        if container.restartPolicy != "Always":
            later = [request for index, request in of_running.items() if index >= position]
            request, mapped = _request(position, container, resource, class_name, later)
            early.mappings.extend(mapped)
            of_init += [request] if request is not None else []
    if of_init:
        maximum = max(of_init, key=_count)
        names = {request.name for request in of_init}
        for mapping in early.mappings:
            mapping.requestName = maximum.name if mapping.requestName in names else mapping.requestName
        part.requests.append(maximum)
    part.requests.extend(of_running.values())
    return _ClaimPart(part.requests, [*part.mappings, *early.mappings])


def _request(
    index: int, container: Container, resource: str, class_name: str, others: Sequence[DeviceRequest]
) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
    """Return the request for what the container needs in addition to the other requests, and the mappings to all of
    them.
    """
    requests = container.resources.requests
    remaining = parse(requests[resource]).value() if resource in requests else 0
    mapped: list[ContainerExtendedResourceRequest] = []
    if not remaining:
        return None, mapped
    for other in others:
        remaining -= _count(other)
        mapped.append(_make_mapping(container, resource, other.name))
        if remaining <= 0:
            return None, mapped
    name = f"container-{index}-request-{sorted(requests).index(resource)}"
    exactly = ExactDeviceRequest(deviceClassName=class_name, allocationMode="ExactCount", count=remaining)
    mapped.append(_make_mapping(container, resource, name))
    return DeviceRequest(name=name, exactly=exactly), mapped


def _make_mapping(container: Container, resource: str, request: str) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(containerName=container.name, resourceName=resource, requestName=request)


def _count(request: DeviceRequest) -> int:
    return (request.exactly.count or 0) if request.exactly is not None else 0
