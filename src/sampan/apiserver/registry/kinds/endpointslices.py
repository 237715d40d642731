"""EndpointSlice: a subset of the endpoints of a service."""

from collections.abc import Iterable, Sequence
from typing import Any

from sampan.api import addresses, domains, names
from sampan.api.faults import FieldError
from sampan.api.types.discovery_v1 import Endpoint, EndpointHints, EndpointPort, EndpointSlice
from sampan.apiserver.registry.address_rules import endpoint_ip_faults, ip_warnings
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.podspec.formats import (
    Faults,
    dns_label,
    dns_subdomain,
    label_value,
    optional_one_of,
    qualified,
    repeated,
)
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_TYPES, _PROTOCOLS = ("FQDN", "IPv4", "IPv6"), ("SCTP", "TCP", "UDP")
_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_PORTS, _MOST_HINTS = 1000, 100, 20000, 8
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_CONTROLLERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")
_SHOWN = 3


class EndpointSliceStrategy(Strategy):
    validates_whole = True
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

    def prepare_create(self, ctx: Context, obj: EndpointSlice) -> None:
        """Clear deprecatedTopology, which clients of discovery.k8s.io/v1 cannot set."""
        for endpoint in obj.endpoints or ():
            endpoint.deprecatedTopology = {}

    def prepare_update(self, ctx: Context, obj: EndpointSlice, old: EndpointSlice) -> None:
        if obj.endpoints != old.endpoints:
            self.prepare_create(ctx, obj)

    def validate_create(self, ctx: Context, obj: EndpointSlice) -> Iterable[FieldError]:
        yield from _head_faults(obj)
        yield from _endpoint_faults(obj.endpoints or (), obj.addressType)

    def validate_update(self, ctx: Context, obj: EndpointSlice, old: EndpointSlice) -> Iterable[FieldError]:
        yield from _head_faults(obj)
        if obj.endpoints != old.endpoints:
            yield from _endpoint_faults(obj.endpoints or (), obj.addressType)
        if obj.addressType != old.addressType:
            yield FieldError.invalid("addressType", obj.addressType, "field is immutable")

    def warnings(self, ctx: Context, obj: EndpointSlice, old: EndpointSlice | None) -> Iterable[str]:
        if obj.addressType == "FQDN" and old is None:
            yield "spec.addressType: FQDN endpoints are deprecated"
        if obj.metadata.labels.get(_MANAGED_BY) in _CONTROLLERS:
            return
        for index, endpoint in enumerate(obj.endpoints or ()):
            for address_index, address in enumerate(endpoint.addresses or ()):
                yield from ip_warnings(address, f"endpoints[{index}].addresses[{address_index}]")


def _head_faults(found: EndpointSlice) -> Faults:
    if not found.addressType:
        yield FieldError.required("addressType")
    elif found.addressType not in _TYPES:
        yield FieldError.not_supported("addressType", found.addressType, _TYPES)
    yield from _port_faults(found.ports or ())


def _port_faults(ports: Sequence[EndpointPort]) -> Faults:
    if len(ports) > _MOST_PORTS:
        yield FieldError.too_many("ports", len(ports), _MOST_PORTS)
        return
    port_names: set[str] = set()
    for index, port in enumerate(ports):
        at, name = f"ports[{index}]", port.name or ""
        if name:
            yield from dns_label(name, f"{at}.name")
        yield from repeated(name, port_names, f"{at}.name")
        yield from optional_one_of(port.protocol, _PROTOCOLS, f"{at}.protocol")
        if port.appProtocol is not None:
            yield from qualified(port.appProtocol, f"{at}.appProtocol")


def _endpoint_faults(endpoints: Sequence[Endpoint], kind: str) -> Faults:
    if len(endpoints) > _MOST_ENDPOINTS:
        yield FieldError.too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)
        return
    for index, endpoint in enumerate(endpoints):
        at = f"endpoints[{index}]"
        yield from _address_faults(endpoint.addresses or (), kind, f"{at}.addresses")
        if endpoint.nodeName is not None:
            yield from dns_subdomain(endpoint.nodeName, f"{at}.nodeName")
        if endpoint.hostname is not None:
            yield from dns_label(endpoint.hostname, f"{at}.hostname")
        if endpoint.hints is not None:
            yield from _hint_faults(endpoint.hints, f"{at}.hints")


def _address_faults(found: Sequence[str], kind: str, at: str) -> Faults:
    if not found:
        yield FieldError.required(at, "must contain at least 1 address")
    elif len(found) > _MOST_ADDRESSES:
        yield FieldError.too_many(at, len(found), _MOST_ADDRESSES)
    for index, text in enumerate(found):
        path = f"{at}[{index}]"
        if kind == "FQDN":
            yield from domains.fully_qualified_domain_name(text, path)
        elif kind in ("IPv4", "IPv6"):
            yield from _ip_faults(text, kind, at, path)


def _ip_faults(text: str, kind: str, at: str, here: str) -> Faults:
    faults = addresses.legacy_ip(text, here) if kind == "IPv4" else addresses.ip(text, here)
    if faults:
        yield from faults
        return
    if (":" in text) != (kind == "IPv6"):
        yield FieldError.invalid(at, text, f"must be an {kind} address")
    yield from endpoint_ip_faults(text, here)


def _hint_faults(hints: EndpointHints, at: str) -> Faults:
    if len(hints.forZones) > _MOST_HINTS:
        yield FieldError.too_many(f"{at}.forZones", len(hints.forZones), _MOST_HINTS)
        return
    targets: set[str] = set()
    for index, zone in enumerate(hints.forZones):
        yield from repeated(zone.name, targets, f"{at}.forZones[{index}].name")
        yield from label_value(zone.name, f"{at}.forZones[{index}].name")
    if len(hints.forNodes) > _MOST_HINTS:
        yield FieldError.too_many(f"{at}.forNodes", len(hints.forNodes), _MOST_HINTS)
        return
    targets = set()
    for index, node in enumerate(hints.forNodes):
        yield from repeated(node.name, targets, f"{at}.forNodes[{index}].name")
        for text in names.dns1123_subdomain(node.name):
            yield FieldError.invalid(f"{at}.forNodes[{index}].name", node.name, text)


# -- table columns -----------------------------------------------------------------------------------------------------


def _some(found: Sequence[str]) -> str:
    shown = ",".join(found[:_SHOWN]) or cells.UNSET
    return f"{shown} + {len(found) - _SHOWN} more..." if len(found) > _SHOWN else shown


def _ports(found: EndpointSlice, now: float) -> str:
    return _some([str(port.port) if port.port is not None else port.name or "" for port in found.ports or ()])


def _addresses(found: EndpointSlice, now: float) -> str:
    return _some([address for endpoint in found.endpoints or () for address in endpoint.addresses or ()])


EndpointSliceStrategy.columns = (
    NAME,
    Column("AddressType", lambda found, now: found.addressType, field="addressType"),
    Column("Ports", _ports, field="ports"),
    Column("Endpoints", _addresses, field="endpoints"),
    AGE,
)

BEHAVIOUR = ResourceBehaviour(strategy=EndpointSliceStrategy())
