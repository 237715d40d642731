"""The requests of claims without the names of the claims, so that claims with equal requests share cached outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from sampan.api.types.resource_v1 import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from sampan.api.values.quantity import Quantity, parse

ALL = "All"
MAX_RESULTS = 32
"""The maximum number of devices in one claim."""
MAX_ALTERNATIVES = 8
FindClass = Callable[[str], DeviceClass | None]

_encode = msgspec.json.Encoder(order="deterministic").encode


class AllocationRefusal(NamedTuple):
    """Why the devices of a node do not satisfy the claims."""

    text: str
    claim: int | None = None
    """The index of the claim that the text refers to; the text is then appended to the claim's name."""

    def text_for(self, claims: Sequence[ResourceClaim]) -> str:
        if self.claim is None:
            return self.text
        meta = claims[self.claim].metadata
        return f"claim {meta.namespace}/{meta.name}{self.text}"


@dataclass(frozen=True, eq=False, slots=True)
class RequestAlternative:
    """A request, or one alternative of it."""

    name: str
    """The name of the request; for an alternative, followed by a slash and the alternative's name."""
    parent: str
    label: str
    """The plain name of the request or of the alternative."""
    device_class: DeviceClass | None
    selectors: Sequence[DeviceSelector]
    amount: int
    takes_all: bool
    is_admin: bool
    tolerations: Sequence[DeviceToleration]
    capacity: Mapping[str, Quantity]


@dataclass(frozen=True, eq=False, slots=True)
class ClaimRequests:
    devices: DeviceClaim
    requests: Sequence[Sequence[RequestAlternative]]
    """The alternatives of each request, best first."""


@dataclass(frozen=True, eq=False, slots=True)
class PodClaimRequests:
    claims: Sequence[ClaimRequests]

    @property
    def every(self) -> Iterator[tuple[int, RequestAlternative]]:
        """Yield every request with the index of its claim."""
        for index, claim in enumerate(self.claims):
            for request in claim.requests:
                for alternative in request:
                    yield index, alternative


def claim_requests_key(claims: Sequence[ResourceClaim], find: FindClass) -> bytes:
    """Return a key that is equal for claims with the same requests of the same versions of device classes."""
    devices = [claim.spec.devices for claim in claims]
    names = {name for claim in devices for request in claim.requests or () for _, name in class_names(request)}
    classes = [
        (name, device_class.metadata.resourceVersion)
        for name in sorted(names)
        if (device_class := find(name)) is not None
    ]
    return _encode((devices, classes))


def read_claim_requests(claims: Sequence[ResourceClaim], find: FindClass) -> PodClaimRequests:
    return PodClaimRequests([_claim_requests(claim.spec.devices, find) for claim in claims])


def class_names(request: DeviceRequest) -> Iterator[tuple[str, str]]:
    """Yield the full name and the device class of the request, or of each of its alternatives."""
    if request.exactly is not None:
        yield request.name, request.exactly.deviceClassName
    for subrequest in request.firstAvailable:
        yield f"{request.name}/{subrequest.name}", subrequest.deviceClassName


def _claim_requests(devices: DeviceClaim, find: FindClass) -> ClaimRequests:
    return ClaimRequests(devices, [list(_alternatives(request, find)) for request in devices.requests or ()])


def _alternatives(request: DeviceRequest, find: FindClass) -> Iterator[RequestAlternative]:
    if request.exactly is not None:
        yield _alternative(request.name, request.name, request.name, request.exactly, find)
    for subrequest in request.firstAvailable:
        yield _alternative(f"{request.name}/{subrequest.name}", request.name, subrequest.name, subrequest, find)


def _alternative(name: str, parent: str, label: str, request: Any, find: FindClass) -> RequestAlternative:
    return RequestAlternative(
        name=name,
        parent=parent,
        label=label,
        device_class=find(request.deviceClassName),
        selectors=request.selectors,
        amount=request.count or 1,
        takes_all=request.allocationMode == ALL,
        is_admin=isinstance(request, ExactDeviceRequest) and bool(request.adminAccess),
        tolerations=request.tolerations,
        capacity={key: parse(value) for key, value in request.capacity.requests.items()} if request.capacity else {},
    )
