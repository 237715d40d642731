"""Defaults and validation of the device requests in a claim."""

from collections.abc import Iterable

from sampan.api.faults import FieldError
from sampan.api.types.resource_v1 import (
    DeviceClaim,
    DeviceClaimConfiguration,
    DeviceConstraint,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
)
from sampan.apiserver.registry.devices.collections import distinct, each, itself
from sampan.apiserver.registry.devices.configurations import MOST_CONFIGURATIONS, opaque_faults, selectors_faults
from sampan.apiserver.registry.devices.naming import fully_qualified_faults, toleration_faults
from sampan.apiserver.registry.podspec.formats import Faults, dns_label, dns_subdomain, given

MOST_REQUESTS = 32
_MOST_CONSTRAINTS, _MOST_ALTERNATIVES = 32, 8
_MODES = ("All", "ExactCount")
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_NO_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"


def default_claim(claim: DeviceClaim) -> None:
    claim.requests = claim.requests or None
    for request in claim.requests or ():
        for part in _parts(request):
            part.allocationMode = part.allocationMode or "ExactCount"
            if part.allocationMode == "ExactCount":
                part.count = part.count or 1
            for toleration in part.tolerations:
                toleration.operator = toleration.operator or "Equal"


def _parts(request: DeviceRequest) -> Iterable[ExactDeviceRequest | DeviceSubRequest]:
    if request.exactly is not None:
        yield request.exactly
    yield from request.firstAvailable


class RequestNames:
    """The names that other parts of a claim can refer to: requests and subrequests."""

    def __init__(self, claim: DeviceClaim) -> None:
        self._known = set()
        for request in claim.requests or ():
            self._known.add(request.name)
            self._known.update(f"{request.name}/{part.name}" for part in request.firstAvailable)

    def reference_faults(self, name: str, at: str) -> Faults:
        parts = name.split("/")
        if len(parts) > 2:
            yield FieldError.invalid(at, name, _NO_REQUEST)
            return
        for part in parts:
            yield from dns_label(part, at)
        if name not in self._known:
            yield FieldError.invalid(at, name, _NO_REQUEST)


def claim_faults(claim: DeviceClaim, at: str) -> Faults:
    request_names = RequestNames(claim)

    def constraint_faults(constraint: DeviceConstraint, here: str) -> Faults:
        yield from _references(constraint.requests, request_names, f"{here}.requests")
        yield from _attribute_faults(constraint, here)

    def configuration_faults(found: DeviceClaimConfiguration, here: str) -> Faults:
        yield from _references(found.requests, request_names, f"{here}.requests")
        yield from opaque_faults(found.opaque, here)

    requests = claim.requests or []
    yield from distinct(requests, MOST_REQUESTS, _request_faults, lambda request: request.name, f"{at}.requests")
    yield from each(claim.constraints, _MOST_CONSTRAINTS, constraint_faults, f"{at}.constraints")
    yield from each(claim.config, MOST_CONFIGURATIONS, configuration_faults, f"{at}.config")


def _references(found: list[str], known: RequestNames, at: str) -> Faults:
    yield from distinct(found, MOST_REQUESTS, known.reference_faults, itself, at)


def _attribute_faults(constraint: DeviceConstraint, at: str) -> Faults:
    if constraint.matchAttribute is not None:
        yield from fully_qualified_faults(constraint.matchAttribute, f"{at}.matchAttribute")
    elif constraint.distinctAttribute is not None:
        yield from fully_qualified_faults(constraint.distinctAttribute, f"{at}.distinctAttribute")
    else:
        text = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        yield FieldError.required(at, text)


def _request_faults(request: DeviceRequest, at: str) -> Faults:
    yield from dns_label(request.name, f"{at}.name")
    exactly, alternatives = request.exactly, request.firstAvailable
    if exactly is None and not alternatives:
        yield FieldError.required(at, _ONE_OF)
    elif exactly is not None and alternatives:
        yield FieldError.invalid(at, None, f"{_ONE_OF}, but multiple fields are set")
    elif exactly is not None:
        yield from _device_faults(exactly, f"{at}.exactly")
    else:
        path = f"{at}.firstAvailable"
        yield from distinct(alternatives, _MOST_ALTERNATIVES, _alternative_faults, lambda part: part.name, path)


def _alternative_faults(part: DeviceSubRequest, at: str) -> Faults:
    yield from dns_label(part.name, f"{at}.name")
    yield from _device_faults(part, at)


def _device_faults(part: ExactDeviceRequest | DeviceSubRequest, at: str) -> Faults:
    name = part.deviceClassName
    yield from dns_subdomain(name, f"{at}.deviceClassName") if name else given("", f"{at}.deviceClassName")
    yield from selectors_faults(part.selectors, f"{at}.selectors")
    if part.allocationMode not in _MODES:
        yield FieldError.not_supported(f"{at}.allocationMode", part.allocationMode, _MODES)
    elif part.allocationMode == "All" and part.count:
        yield FieldError.invalid(f"{at}.count", part.count, "must not be specified when allocationMode is 'All'")
    elif part.allocationMode == "ExactCount" and part.count <= 0:
        yield FieldError.invalid(f"{at}.count", part.count, "must be greater than zero")
    for index, toleration in enumerate(part.tolerations):
        yield from toleration_faults(toleration, f"{at}.tolerations[{index}]")
