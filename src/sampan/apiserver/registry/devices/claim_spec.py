"""Validation of the spec of a resource claim: device requests, constraints, CEL selectors and driver parameters."""

from collections.abc import Iterable, Sequence

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.limits import DEVICE_SELECTOR_BYTES
from sampan.api.types.resource_v1 import (
    DeviceAllocationConfiguration,
    DeviceClaim,
    DeviceClaimConfiguration,
    DeviceClassConfiguration,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    OpaqueDeviceConfiguration,
)
from sampan.api.values.scalars import RawJSON
from sampan.apiserver.registry.devices.names import (
    validate_device_toleration,
    validate_items,
)
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_dns_label,
    validate_dns_subdomain,
    validate_required,
)
from sampan.machinery.cel.devices import compile_selector
from sampan.machinery.cel.errors import CelError

MAX_CONFIGURATIONS = 32
_MAX_SELECTORS, _MAX_PARAMETERS_BYTES = 32, 10 * 1024


def validate_selectors(selectors: Sequence[DeviceSelector], path: str) -> FieldErrors:
    yield from validate_items(selectors, _MAX_SELECTORS, _validate_selector, path)


def _validate_selector(selector: DeviceSelector, path: str) -> FieldErrors:
    if selector.cel is None:
        yield FieldError.required(f"{path}.cel")
    elif names.size(selector.cel.expression) > DEVICE_SELECTOR_BYTES:
        yield FieldError.too_long(f"{path}.cel.expression", DEVICE_SELECTOR_BYTES)
    else:
        yield from _validate_expression(selector.cel.expression, f"{path}.cel.expression")


def _validate_expression(expression: str, path: str) -> FieldErrors:
    try:
        selector = compile_selector(expression)
    except CelError as error:
        yield FieldError.invalid(path, expression, str(error))
        return
    if selector.is_too_costly:
        yield FieldError.forbidden(path, "too complex, exceeds cost limit")


def validate_opaque_configuration(configuration: OpaqueDeviceConfiguration | None, path: str) -> FieldErrors:
    if configuration is None:
        yield FieldError.required(f"{path}.opaque")
        return
    yield from validate_raw_object(configuration.parameters, f"{path}.opaque.parameters")


def validate_raw_object(value: RawJSON, path: str) -> FieldErrors:
    """Yield errors unless the value is a JSON object of limited size."""
    raw = bytes(value)
    if raw == b"null":
        yield FieldError.required(path)
    elif len(raw) > _MAX_PARAMETERS_BYTES:
        yield FieldError.too_long(path, _MAX_PARAMETERS_BYTES)
    elif not raw.startswith(b"{"):
        yield FieldError.invalid(path, "<value omitted>", "must be a valid JSON object")


MAX_REQUESTS = 32
_MAX_CONSTRAINTS, _MAX_ALTERNATIVES = 32, 8
_EXACTLY_ONE_ERROR = "exactly one of `exactly` or `firstAvailable` is required"
_NO_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"


def default_configurations(
    configurations: Iterable[DeviceClaimConfiguration | DeviceClassConfiguration | DeviceAllocationConfiguration],
) -> None:
    """Bring the parameters of drivers into the form in which Go prints JSON."""
    for configuration in configurations:
        if configuration.opaque is not None:
            configuration.opaque.parameters = RawJSON(gotext.compact_json(configuration.opaque.parameters))


def default_claim(claim: DeviceClaim) -> None:
    default_configurations(claim.config)
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

    def validate_reference(self, name: str, path: str) -> FieldErrors:
        parts = name.split("/")
        if len(parts) > 2:
            yield FieldError.invalid(path, name, _NO_REQUEST)
            return
        for part in parts:
            yield from validate_dns_label(part, path)
        if name not in self._known:
            yield FieldError.invalid(path, name, _NO_REQUEST)


def validate_claim_spec(claim: DeviceClaim, path: str) -> FieldErrors:
    request_names = RequestNames(claim)

    def validate_constraint(constraint: DeviceConstraint, item_path: str) -> FieldErrors:
        yield from _validate_request_references(constraint.requests, request_names, f"{item_path}.requests")
        yield from _validate_match_attribute(constraint, item_path)

    def validate_configuration(configuration: DeviceClaimConfiguration, item_path: str) -> FieldErrors:
        yield from _validate_request_references(configuration.requests, request_names, f"{item_path}.requests")
        yield from validate_opaque_configuration(configuration.opaque, item_path)

    requests = claim.requests or []
    yield from validate_items(requests, MAX_REQUESTS, _validate_request, f"{path}.requests")
    yield from validate_items(claim.constraints, _MAX_CONSTRAINTS, validate_constraint, f"{path}.constraints")
    yield from validate_items(claim.config, MAX_CONFIGURATIONS, validate_configuration, f"{path}.config")


def _validate_request_references(references: list[str], request_names: RequestNames, path: str) -> FieldErrors:
    yield from validate_items(references, MAX_REQUESTS, request_names.validate_reference, path)


def _validate_match_attribute(constraint: DeviceConstraint, path: str) -> FieldErrors:
    if constraint.matchAttribute is None and constraint.distinctAttribute is None:
        text = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        yield FieldError.required(path, text)


def _validate_request(request: DeviceRequest, field_path: str) -> FieldErrors:
    yield from validate_dns_label(request.name, f"{field_path}.name")
    exactly, alternatives = request.exactly, request.firstAvailable
    if exactly is None and not alternatives:
        yield FieldError.required(field_path, _EXACTLY_ONE_ERROR)
    elif exactly is not None and alternatives:
        yield FieldError.invalid(field_path, None, f"{_EXACTLY_ONE_ERROR}, but multiple fields are set")
    elif exactly is not None:
        yield from _validate_class_name(exactly.deviceClassName, f"{field_path}.exactly.deviceClassName")
        yield from _validate_exact_request(exactly, f"{field_path}.exactly")
    else:
        path = f"{field_path}.firstAvailable"
        yield from validate_items(alternatives, _MAX_ALTERNATIVES, _validate_subrequest, path)


def _validate_subrequest(part: DeviceSubRequest, path: str) -> FieldErrors:
    yield from validate_dns_label(part.name, f"{path}.name")
    yield from _validate_exact_request(part, path)


def _validate_class_name(name: str, path: str) -> FieldErrors:
    yield from validate_dns_subdomain(name, path) if name else validate_required("", path)


def _validate_exact_request(part: ExactDeviceRequest | DeviceSubRequest, path: str) -> FieldErrors:
    yield from validate_selectors(part.selectors, f"{path}.selectors")
    if part.allocationMode == "All" and part.count:
        yield FieldError.invalid(f"{path}.count", part.count, "must not be specified when allocationMode is 'All'")
    elif part.allocationMode == "ExactCount" and part.count <= 0:
        yield FieldError.invalid(f"{path}.count", part.count, "must be greater than zero")
    for index, toleration in enumerate(part.tolerations):
        yield from validate_device_toleration(toleration, f"{path}.tolerations[{index}]")
