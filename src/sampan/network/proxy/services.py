"""Service ports and the endpoints that a node uses for them, as values. Pure.

`service_ports` and `endpoints_by_port` translate API objects. A dual-stack service has one `ServicePortInfo` per port
and IP family.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from sampan.api.limits import SERVICE_ADDRESS_PORTS, SERVICE_ENDPOINT_PORTS
from sampan.api.semantics.endpoint_slices import numbered_ports
from sampan.api.types.core_v1 import Service, ServicePort
from sampan.api.types.discovery_v1 import Endpoint, EndpointSlice
from sampan.machinery.object_key import NamespacedName, key_of

log = logging.getLogger(__name__)

IPV4, IPV6 = "IPv4", "IPv6"
FAMILIES = (IPV4, IPV6)
TCP, UDP, SCTP = "TCP", "UDP", "SCTP"

SERVICE_PROXY_NAME = "service.kubernetes.io/service-proxy-name"
"""The label of services and slices that belong to another proxy."""
HEADLESS = "service.kubernetes.io/headless"
"""The label of objects that no proxy needs."""
SERVICE_NAME = "kubernetes.io/service-name"
ZONE = "topology.kubernetes.io/zone"

_LOCAL = "Local"
_DEFAULT_AFFINITY_S = 10800
_NO_HINTS: frozenset[str] = frozenset()

Network = IPv4Network | IPv6Network


class ServicePortName(NamedTuple):
    """Identifies a port of a service. Two ports with one name differ in their protocol."""

    namespace: str
    name: str
    port: str
    protocol: str

    @property
    def service(self) -> NamespacedName:
        return NamespacedName(self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}:{self.port}" if self.port else f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyTopology:
    """Where the proxy runs, for hints and for the traffic policy Local."""

    node_name: str
    zone: str = ""


class EndpointInfo(NamedTuple):
    """An endpoint of a service port. A tuple, because a service can have tens of thousands."""

    address: str
    port: int
    is_local: bool = False
    """Whether the endpoint is on the node of the proxy."""
    is_ready: bool = True
    is_serving: bool = True
    is_terminating: bool = False
    zone_hints: frozenset[str] = _NO_HINTS
    node_hints: frozenset[str] = _NO_HINTS

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePortInfo:
    """A port of a service in one IP family: where traffic arrives, and which endpoints it may go to."""

    name: ServicePortName
    family: str
    cluster_ip: str
    port: int
    node_port: int = 0
    external_ips: tuple[str, ...] = ()
    load_balancer_ips: tuple[str, ...] = ()
    """The load balancer addresses with the IP mode VIP. Traffic to other load balancer addresses reaches nodes by
    another address."""
    source_ranges: tuple[Network, ...] = ()
    """The allowed source ranges of load balancer traffic; empty if every source is allowed."""
    affinity_timeout_s: int = 0
    """The timeout of the session affinity ClientIP, or 0 without affinity."""
    created: str = ""
    """The creation time of the service: of two services that claim an address, the older one has it."""
    is_external_policy_local: bool = False
    is_internal_policy_local: bool = False
    health_check_node_port: int = 0

    @property
    def protocol(self) -> str:
        return self.name.protocol

    @property
    def is_externally_accessible(self) -> bool:
        return bool(self.node_port or self.load_balancer_ips or self.external_ips)

    @property
    def uses_cluster_endpoints(self) -> bool:
        """Whether the service port uses the endpoints of the traffic policy Cluster.

        A port that is reachable from outside always does, because traffic of pods and of the node itself to external
        addresses ignores the policy Local.
        """
        return not self.is_internal_policy_local or self.is_externally_accessible

    @property
    def uses_local_endpoints(self) -> bool:
        return self.is_internal_policy_local or (self.is_external_policy_local and self.is_externally_accessible)


@dataclass(frozen=True, slots=True)
class EndpointCategories:
    """The endpoints that this node uses for a service port. Endpoints are ordered by address and port."""

    cluster: tuple[EndpointInfo, ...] = ()
    """Endpoints for the traffic policy Cluster."""
    local: tuple[EndpointInfo, ...] = ()
    """Endpoints for the traffic policy Local."""
    reachable: tuple[EndpointInfo, ...] = ()
    """The endpoints of both traffic policies together."""
    has_any: bool = False
    """Whether any node of the cluster has a usable endpoint; if not, traffic is rejected rather than dropped."""


@dataclass(frozen=True, slots=True)
class ServicePortState:
    """A service port together with its endpoints: all of them, and the ones in use."""

    info: ServicePortInfo
    endpoints: tuple[EndpointInfo, ...]
    categories: EndpointCategories

    @property
    def local_ready_addresses(self) -> frozenset[str]:
        """The addresses of ready endpoints on this node, which a health check of the node counts."""
        return frozenset(endpoint.address for endpoint in self.endpoints if endpoint.is_local and endpoint.is_ready)


# -- translation of objects --------------------------------------------------------------------------------------------


def is_proxied(service: Service) -> bool:
    """Return whether this proxy is responsible for a service: it has a cluster IP and no label of another proxy."""
    spec = service.spec
    if spec.type == "ExternalName" or spec.clusterIP in ("", "None"):
        return False
    return not has_foreign_label(service.metadata.labels)


def has_foreign_label(labels: Mapping[str, str]) -> bool:
    return SERVICE_PROXY_NAME in labels or HEADLESS in labels


@dataclass(frozen=True, slots=True)
class _ServiceAddresses:
    """The addresses and sources of a service in one IP family, which all of its ports share."""

    cluster_ip: str
    external_ips: tuple[str, ...]
    load_balancer_ips: tuple[str, ...]
    source_ranges: tuple[Network, ...]
    provided_ports: dict[str, frozenset[tuple[str, int]]]
    """The protocols and ports of load balancer addresses that are provided for some ports only."""

    def load_balancer_ips_of(self, port: ServicePort) -> tuple[str, ...]:
        if not self.provided_ports:
            return self.load_balancer_ips
        pair, provided = (port.protocol or TCP, port.port), self.provided_ports
        return tuple(ip for ip in self.load_balancer_ips if ip not in provided or pair in provided[ip])


def count_addresses(service: ServicePortInfo | _ServiceAddresses) -> int:
    """Return the number of addresses and source ranges for which a port of the service has rules."""
    return 1 + len(service.external_ips) + len(service.load_balancer_ips) + len(service.source_ranges)


def service_ports(
    service: Service, families: Iterable[str] = FAMILIES, pair_budget: int = SERVICE_ADDRESS_PORTS
) -> list[ServicePortInfo]:
    """Return the ports of a service in these IP families; none for services without a cluster IP.

    Each port has rules for each address, so a service with very many of both loses its last ports. `pair_budget` is the
    number of pairs of a port and an address that the node has left. The first port needs no room, nor do the ports of a
    service with a single address."""
    if not is_proxied(service):
        return []
    infos = []
    for family in families:
        addresses = _service_addresses(service, family)
        if addresses is not None:
            count = count_addresses(addresses)
            maximum = max(1, min(pair_budget, SERVICE_ADDRESS_PORTS) // count) if count > 1 else None
            infos += [_service_port(service, port, family, addresses) for port in service.spec.ports[:maximum]]
    return infos


def _service_addresses(service: Service, family: str) -> _ServiceAddresses | None:
    """Return the addresses of a service in an IP family, or None if it has no cluster IP there."""
    spec = service.spec
    cluster_ip = next(iter(_addresses_of(spec.clusterIPs or [spec.clusterIP], family)), None)
    if cluster_ip is None:
        return None
    return _ServiceAddresses(
        cluster_ip,
        external_ips=tuple(_addresses_of(spec.externalIPs[:SERVICE_ADDRESS_PORTS], family)),
        load_balancer_ips=tuple(_addresses_of(_ingress_vips(service), family)),
        source_ranges=_source_ranges(spec.loadBalancerSourceRanges, family),
        provided_ports=_provided_ports(service),
    )


def _service_port(service: Service, port: ServicePort, family: str, addresses: _ServiceAddresses) -> ServicePortInfo:
    spec = service.spec
    is_external = spec.type in ("NodePort", "LoadBalancer") or bool(spec.externalIPs)
    is_external_local = is_external and spec.externalTrafficPolicy == _LOCAL
    return ServicePortInfo(
        name=ServicePortName(service.metadata.namespace, service.metadata.name, port.name, port.protocol or TCP),
        family=family,
        cluster_ip=addresses.cluster_ip,
        port=port.port,
        node_port=port.nodePort,
        external_ips=addresses.external_ips,
        load_balancer_ips=addresses.load_balancer_ips_of(port),
        source_ranges=addresses.source_ranges,
        affinity_timeout_s=_affinity_timeout_s(service),
        created=service.metadata.creationTimestamp or "",
        is_external_policy_local=is_external_local,
        is_internal_policy_local=spec.internalTrafficPolicy == _LOCAL,
        health_check_node_port=spec.healthCheckNodePort if spec.type == "LoadBalancer" and is_external_local else 0,
    )


def _ingress_vips(service: Service) -> Iterator[str]:
    for ingress in service.status.loadBalancer.ingress:
        if ingress.ip and ingress.ipMode in (None, "VIP"):
            yield ingress.ip


def _provided_ports(service: Service) -> dict[str, frozenset[tuple[str, int]]]:
    """Return the protocols and ports of those load balancer addresses whose status lists them."""
    return {
        canonical_address(ingress.ip): frozenset((port.protocol, port.port) for port in ingress.ports)
        for ingress in service.status.loadBalancer.ingress
        if ingress.ports
    }


def _affinity_timeout_s(service: Service) -> int:
    if service.spec.sessionAffinity != "ClientIP":
        return 0
    config = service.spec.sessionAffinityConfig
    timeout = config.clientIP.timeoutSeconds if config is not None and config.clientIP is not None else None
    return _DEFAULT_AFFINITY_S if timeout is None else timeout


def _source_ranges(ranges: Sequence[str], family: str) -> tuple[Network, ...]:
    """Return the source ranges of an IP family; none if one of them contains all addresses. Whitespace around a range
    is valid."""
    networks = []
    for text in ranges:
        address, _, length = text.strip().partition("/")
        if family_of(address) != family:
            continue
        try:
            network = ip_network(f"{canonical_address(address)}/{length}", strict=False)
        except ValueError:
            log.warning("ignoring the invalid load balancer source range %r", text)
            continue
        if network.prefixlen == 0:
            return ()
        networks.append(network)
    return tuple(dict.fromkeys(networks))


def _addresses_of(addresses: Iterable[str], family: str) -> list[str]:
    """Return the canonical addresses of a family, each once."""
    canonical = (canonical_address(address) for address in addresses if family_of(address) == family)
    return list(dict.fromkeys(address for address in canonical if address))


def family_of(address: str) -> str:
    return IPV6 if ":" in address else IPV4


def canonical_address(address: str) -> str:
    """Return an address as the kernel prints it, or an empty string for one that is not valid. Objects of old clusters
    may have IPv4 addresses with leading zeros, which are decimal."""
    try:
        if ":" not in address:
            address = ".".join(str(int(part)) for part in address.split("."))
        return str(ip_address(address))
    except ValueError:
        return ""


def service_of_slice(slice: EndpointSlice) -> NamespacedName | None:
    """Return the service whose endpoints a slice has, or None if the slice is not for this proxy."""
    labels = slice.metadata.labels
    name = labels.get(SERVICE_NAME)
    if not name or slice.addressType not in FAMILIES or has_foreign_label(labels):
        return None
    return NamespacedName(slice.metadata.namespace, name)


class EndpointsByPort(NamedTuple):
    """The endpoints of a service by port name and protocol."""

    endpoints: dict[tuple[str, str], tuple[EndpointInfo, ...]]
    is_complete: bool
    """Whether no pair of an endpoint and a port was left out."""


def endpoints_by_port(
    slices: Iterable[EndpointSlice], family: str, node_name: str, pair_budget: int = SERVICE_ENDPOINT_PORTS
) -> EndpointsByPort:
    """Return the endpoints of a service in one IP family, ordered by address and port.

    `pair_budget` is the number of pairs of an endpoint and a port that the node has left. Pairs with the first port of
    a slice need no room.

    An endpoint that moves between slices can be in two of them, and the address of a terminating pod can already belong
    to another pod. A terminating endpoint therefore never replaces another one.
    """
    endpoints: dict[tuple[str, str], dict[tuple[str, int], EndpointInfo]] = {}
    remaining, is_complete = SERVICE_ENDPOINT_PORTS, True
    for slice in sorted(slices, key=key_of):
        if slice.addressType != family:
            continue
        infos = [info for endpoint in slice.endpoints or () if (info := _endpoint(endpoint, node_name)) is not None]
        for index, (port, number) in enumerate(numbered_ports(slice)):
            cost = len(infos) if index else 0
            if remaining < len(infos) or pair_budget < cost:
                is_complete = False
                break
            remaining -= len(infos)
            pair_budget -= cost
            by_address = endpoints.setdefault((port.name or "", port.protocol or TCP), {})
            for info in infos:
                if not info.is_terminating or (info.address, number) not in by_address:
                    by_address[info.address, number] = info._replace(port=number)
    ordered = {port: tuple(map(by_address.__getitem__, sorted(by_address))) for port, by_address in endpoints.items()}
    return EndpointsByPort(ordered, is_complete)


def _endpoint(endpoint: Endpoint, node_name: str) -> EndpointInfo | None:
    """Return an endpoint whose port is not set, or None if it has no valid address."""
    address = canonical_address(endpoint.addresses[0]) if endpoint.addresses else ""
    if not address:
        return None
    conditions, hints = endpoint.conditions, endpoint.hints
    return EndpointInfo(
        address,
        0,
        is_local=bool(node_name) and endpoint.nodeName == node_name,
        is_ready=conditions.ready is not False,
        is_serving=conditions.serving is not False,
        is_terminating=conditions.terminating is True,
        zone_hints=frozenset(zone.name for zone in hints.forZones) if hints and hints.forZones else _NO_HINTS,
        node_hints=frozenset(node.name for node in hints.forNodes) if hints and hints.forNodes else _NO_HINTS,
    )
