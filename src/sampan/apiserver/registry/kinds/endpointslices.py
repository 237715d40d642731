"""EndpointSlice: a subset of the endpoints of a service."""

from collections.abc import Iterable, Sequence
from typing import Any

from sampan.api import addresses, names
from sampan.api.field_errors import FieldError
from sampan.api.types.discovery_v1 import Endpoint, EndpointHints, EndpointPort, EndpointSlice
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.validation import (
    FieldErrors,
    ip_warnings,
    validate_dns_label,
    validate_dns_subdomain,
    validate_endpoint_ip,
    validate_label_value,
    validate_optional_one_of,
    validate_qualified_name,
    validate_unique,
)
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MAX_ENDPOINTS, _MAX_PORTS, _MAX_HINTS = 1000, 20000, 8
_MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
_CONTROLLERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")
_SHOWN = 3


def _ports(endpoint_slice: EndpointSlice, now: float) -> str:
    return _summarize_texts(
        [str(port.port) if port.port is not None else port.name or "" for port in endpoint_slice.ports or ()]
    )


def _addresses(endpoint_slice: EndpointSlice, now: float) -> str:
    return _summarize_texts(
        [address for endpoint in endpoint_slice.endpoints or () for address in endpoint.addresses or ()]
    )


_COLUMNS = (
    NAME,
    Column("AddressType", lambda endpoint_slice, now: endpoint_slice.addressType, field="addressType"),
    Column("Ports", _ports, field="ports"),
    Column("Endpoints", _addresses, field="endpoints"),
    AGE,
)


class EndpointSliceStrategy(Strategy):
    columns = _COLUMNS
    counts_generation = True

    def spec_of(self, obj: EndpointSlice) -> Any:
        return obj.addressType, obj.endpoints, obj.ports, obj.metadata.labels

    def default(self, obj: EndpointSlice) -> None:
        for port in obj.ports or ():
            if port.name is None:
                port.name = ""
            if port.protocol is None:
                port.protocol = "TCP"
        obj.endpoints = obj.endpoints or None
        obj.ports = obj.ports or None

    def prepare_for_create(self, ctx: Context, obj: EndpointSlice) -> None:
        """Clear deprecatedTopology, which clients of discovery.k8s.io/v1 cannot set."""
        for endpoint in obj.endpoints or ():
            endpoint.deprecatedTopology = {}

    def prepare_for_update(self, ctx: Context, obj: EndpointSlice, old: EndpointSlice) -> None:
        if obj.endpoints != old.endpoints:
            self.prepare_for_create(ctx, obj)

    def validate_create(self, ctx: Context, obj: EndpointSlice) -> Iterable[FieldError]:
        yield from _validate_port(obj.ports or ())
        yield from _validate_endpoint(obj.endpoints or (), obj.addressType)

    def validate_update(self, ctx: Context, obj: EndpointSlice, old: EndpointSlice) -> Iterable[FieldError]:
        yield from _validate_port(obj.ports or ())
        if obj.endpoints != old.endpoints:
            yield from _validate_endpoint(obj.endpoints or (), obj.addressType)

    def warnings(self, ctx: Context, obj: EndpointSlice, old: EndpointSlice | None) -> Iterable[str]:
        if obj.addressType == "FQDN" and old is None:
            yield "spec.addressType: FQDN endpoints are deprecated"
        if obj.metadata.labels.get(_MANAGED_BY_LABEL) in _CONTROLLERS:
            return
        for index, endpoint in enumerate(obj.endpoints or ()):
            for address_index, address in enumerate(endpoint.addresses or ()):
                yield from ip_warnings(address, f"endpoints[{index}].addresses[{address_index}]")


def _validate_port(ports: Sequence[EndpointPort]) -> FieldErrors:
    if len(ports) > _MAX_PORTS:
        yield FieldError.too_many("ports", len(ports), _MAX_PORTS)
        return
    port_names: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"ports[{index}]", port.name or ""
        if name:
            yield from validate_dns_label(name, f"{path}.name")
        yield from validate_unique(name, port_names, f"{path}.name")
        yield from validate_optional_one_of(port.protocol, _PROTOCOLS, f"{path}.protocol")
        if port.appProtocol is not None:
            yield from validate_qualified_name(port.appProtocol, f"{path}.appProtocol")


def _validate_endpoint(endpoints: Sequence[Endpoint], kind: str) -> FieldErrors:
    if len(endpoints) > _MAX_ENDPOINTS:
        yield FieldError.too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)
        return
    for index, endpoint in enumerate(endpoints):
        path = f"endpoints[{index}]"
        yield from _validate_address(endpoint.addresses or (), kind, f"{path}.addresses")
        if endpoint.nodeName is not None:
            yield from validate_dns_subdomain(endpoint.nodeName, f"{path}.nodeName")
        if endpoint.hostname is not None:
            yield from validate_dns_label(endpoint.hostname, f"{path}.hostname")
        if endpoint.hints is not None:
            yield from _validate_hint(endpoint.hints, f"{path}.hints")


def _validate_address(addresses_of_endpoint: Sequence[str], kind: str, field_path: str) -> FieldErrors:
    for index, text in enumerate(addresses_of_endpoint):
        path = f"{field_path}[{index}]"
        if kind == "FQDN":
            yield from names.fully_qualified_domain_name(text, path)
        elif kind in ("IPv4", "IPv6"):
            yield from _validate_ip(text, kind, field_path, path)


def _validate_ip(text: str, kind: str, path: str, item_path: str) -> FieldErrors:
    errors = addresses.legacy_ip(text, item_path) if kind == "IPv4" else addresses.ip(text, item_path)
    if errors:
        yield from errors
        return
    if (":" in text) != (kind == "IPv6"):
        yield FieldError.invalid(path, text, f"must be an {kind} address")
    yield from validate_endpoint_ip(text, item_path)


def _validate_hint(hints: EndpointHints, path: str) -> FieldErrors:
    if len(hints.forZones) > _MAX_HINTS:
        yield FieldError.too_many(f"{path}.forZones", len(hints.forZones), _MAX_HINTS)
        return
    targets: set[str] = set()
    for index, zone in enumerate(hints.forZones):
        yield from validate_unique(zone.name, targets, f"{path}.forZones[{index}].name")
        yield from validate_label_value(zone.name, f"{path}.forZones[{index}].name")
    if len(hints.forNodes) > _MAX_HINTS:
        yield FieldError.too_many(f"{path}.forNodes", len(hints.forNodes), _MAX_HINTS)
        return
    targets = set()
    for index, node in enumerate(hints.forNodes):
        yield from validate_unique(node.name, targets, f"{path}.forNodes[{index}].name")
        for text in names.dns1123_subdomain(node.name):
            yield FieldError.invalid(f"{path}.forNodes[{index}].name", node.name, text)


# -- table columns -----------------------------------------------------------------------------------------------------


def _summarize_texts(texts: Sequence[str]) -> str:
    shown = ",".join(texts[:_SHOWN]) or cells.UNSET
    return f"{shown} + {len(texts) - _SHOWN} more..." if len(texts) > _SHOWN else shown


BEHAVIOR = ResourceBehavior(strategy=EndpointSliceStrategy())
