"""Endpoints: the addresses of a service's pods, the predecessor of EndpointSlice."""

from collections.abc import Iterable, Sequence

from sampan.api import addresses, names
from sampan.api.addresses import join_host_port
from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import EndpointAddress, EndpointPort, Endpoints, EndpointSubset
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.validation import (
    FieldErrors,
    ip_warnings,
    validate_dns_label,
    validate_endpoint_ip,
    validate_one_of,
    validate_qualified_name,
)
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MANAGED_BY_LABEL = ("endpoints.kubernetes.io/managed-by", "endpoint-controller")
_SHOWN = 3


def _endpoints(endpoints: Endpoints, now: float) -> str:
    if not endpoints.subsets:
        return cells.NONE
    endpoint_texts = [text for subset in endpoints.subsets for text in _format_subset_endpoints(subset)]
    shown = ",".join(endpoint_texts[:_SHOWN])
    return f"{shown} + {len(endpoint_texts) - _SHOWN} more..." if len(endpoint_texts) > _SHOWN else shown


_COLUMNS = (NAME, Column("Endpoints", _endpoints, field="subsets"), AGE)


class EndpointsStrategy(Strategy):
    columns = _COLUMNS
    allow_create_on_update = True

    def default(self, obj: Endpoints) -> None:
        for subset in obj.subsets:
            for port in subset.ports:
                if not port.protocol:
                    port.protocol = "TCP"

    def validate_create(self, ctx: Context, obj: Endpoints) -> Iterable[FieldError]:
        return _validate_subsets(obj.subsets)

    def validate_update(self, ctx: Context, obj: Endpoints, old: Endpoints) -> Iterable[FieldError]:
        return list(_validate_subsets(obj.subsets)) if obj.subsets != old.subsets else ()

    def warnings(self, ctx: Context, obj: Endpoints, old: Endpoints | None) -> Iterable[str]:
        key, controller = _MANAGED_BY_LABEL
        if obj.metadata.labels.get(key) == controller:
            return
        for index, subset in enumerate(obj.subsets):
            for field in ("addresses", "notReadyAddresses"):
                for address_index, address in enumerate(getattr(subset, field)):
                    yield from ip_warnings(address.ip, f"subsets[{index}].{field}[{address_index}].ip")


def _validate_subsets(subsets: Sequence[EndpointSubset]) -> FieldErrors:
    for index, subset in enumerate(subsets):
        path = f"subsets[{index}]"
        if not subset.addresses and not subset.notReadyAddresses:
            yield FieldError.required(path, "must specify `addresses` or `notReadyAddresses`")
        for position, address in enumerate(subset.addresses):
            yield from _validate_address(address, f"{path}.addresses[{position}]")
        for position, address in enumerate(subset.notReadyAddresses):
            yield from _validate_address(address, f"{path}.notReadyAddresses[{position}]")
        for position, port in enumerate(subset.ports):
            yield from _validate_port(port, f"{path}.ports[{position}]", needs_name=len(subset.ports) > 1)


def _validate_address(address: EndpointAddress, path: str) -> FieldErrors:
    yield from addresses.legacy_ip(address.ip, f"{path}.ip")
    if address.hostname:
        yield from validate_dns_label(address.hostname, f"{path}.hostname")
    if address.nodeName is not None:
        for text in names.dns1123_subdomain(address.nodeName):
            yield FieldError.invalid(f"{path}.nodeName", address.nodeName, text)
    yield from validate_endpoint_ip(address.ip, f"{path}.ip")


def _validate_port(port: EndpointPort, path: str, *, needs_name: bool) -> FieldErrors:
    if port.name:
        yield from validate_dns_label(port.name, f"{path}.name")
    elif needs_name:
        yield FieldError.required(f"{path}.name")
    for text in names.port_number(port.port):
        yield FieldError.invalid(f"{path}.port", port.port, text)
    yield from validate_one_of(port.protocol, _PROTOCOLS, f"{path}.protocol")
    if port.appProtocol is not None:
        yield from validate_qualified_name(port.appProtocol, f"{path}.appProtocol")


# -- table columns -----------------------------------------------------------------------------------------------------


def _format_subset_endpoints(subset: EndpointSubset) -> list[str]:
    if not subset.ports:
        return [address.ip for address in subset.addresses]
    return [join_host_port(address.ip, port.port) for port in subset.ports for address in subset.addresses]


BEHAVIOR = ResourceBehavior(
    strategy=EndpointsStrategy(),
    deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
)
