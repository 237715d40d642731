"""The destination of a proxied request: `name`, `name:port` or `scheme:name:port` of a node, pod or service. Pure."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sampan.api import addresses
from sampan.api.addresses import is_address
from sampan.api.semantics.endpoint_slices import numbered_ports, ready_endpoints
from sampan.api.types.core_v1 import Endpoints, Node, Pod, Service
from sampan.api.types.discovery_v1 import Endpoint, EndpointPort, EndpointSlice
from sampan.api.values.integers import parse_int64, parse_port
from sampan.machinery import errors

KUBELET_PORT = 10250


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyTarget:
    scheme: str = ""
    name: str
    port: str = ""
    text: str = field(default="", compare=False)
    """The name in the request path, as the client sent it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    host: str
    port: int
    is_tls: bool = False
    is_kubelet: bool = False
    """Whether the server authenticates with its kubelet client certificate."""
    server_name: str = ""
    """The name that the server certificate must have, if it is not the host."""
    pod: tuple[str, str] | None = None
    """The namespace and name of the pod with this address, if the endpoints name it."""
    tls: ssl.SSLContext | None = field(default=None, compare=False, repr=False)
    """The TLS settings for a server of another API, whose certificate is verified."""

    def with_tls(self, tls: ssl.SSLContext, server_name: str) -> Location:
        return replace(self, is_tls=True, tls=tls, server_name=server_name)

    @property
    def scheme(self) -> str:
        return "https" if self.is_tls else "http"

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def target_of(kind: str, text: str) -> ProxyTarget:
    parts = text.split(":")
    scheme, name, port = ("", *parts, "")[:3] if len(parts) < 3 else parts[:3]
    if len(parts) > 3 or not name or scheme not in ("", "http", "https"):
        raise errors.bad_request(f'invalid {kind} request "{text}"')
    return ProxyTarget(scheme=scheme, name=name, port=port, text=text)


def node_address(node: Node, types: Sequence[str]) -> str:
    """Return the address of the node that the API server prefers for connections to its kubelet."""
    for kind in types:
        for address in node.status.addresses:
            if address.type == kind and address.address:
                return address.address
    wanted_types, known_types = " ".join(types), " ".join(address.type for address in node.status.addresses)
    text = f"no preferred addresses found; known addresses: [{known_types}]" if known_types else "no addresses found"
    raise errors.ApiError(f"{text} for node {node.metadata.name}, wanted [{wanted_types}]", code=500, reason="")


def kubelet_port(node: Node) -> int:
    return node.status.daemonEndpoints.kubeletEndpoint.Port or KUBELET_PORT


def is_kubelet_port(node: Node, port: int) -> bool:
    """Whether a port in a request to a node in this process names its kubelet: 0 for none, the one that the node
    publishes, or the default port, which clients use without reading the node. Nodes that share an address have other
    ports."""
    return port in (0, kubelet_port(node), KUBELET_PORT)


def pod_location(pod: Pod, target: ProxyTarget) -> Location:
    port = target.port or next(
        (
            str(container_port.containerPort)
            for container in pod.spec.containers or ()
            for container_port in container.ports
        ),
        "",
    )
    address = pod.status.podIPs[0].ip if pod.status.podIPs else pod.status.podIP
    if not is_reachable(address):
        raise errors.bad_request("address not allowed")
    is_tls = target.scheme == "https"
    return Location(host=address, port=_number(port) if port else 443 if is_tls else 80, is_tls=is_tls)


def service_port_name(service: Service, target: ProxyTarget) -> str:
    """Return the port name. A numeric port is looked up in the service."""
    if not (target.port.isascii() and target.port.isdecimal()):
        return target.port
    number = parse_int64(target.port)
    for port in service.spec.ports:
        if port.port == number:
            return port.name
    raise errors.service_unavailable(f'no service port {target.port} found for service "{target.name}"')


def service_locations(
    slices: Sequence[EndpointSlice], port_name: str, target: ProxyTarget, families: Sequence[str] = ()
) -> list[Location]:
    """Return the ready endpoints of the port, from which the caller chooses; only those of the first IP family in
    `families` if it has any."""
    primary = [endpoint_slice for endpoint_slice in slices if endpoint_slice.addressType in families[:1]]
    for candidates in (primary, slices):
        if locations := list(_locate_endpoints(candidates, port_name, target)):
            return locations
    service = target.text if slices else target.name
    raise errors.service_unavailable(f'no endpoints available for service "{service}"')


def _locate_endpoints(slices: Iterable[EndpointSlice], port_name: str, target: ProxyTarget) -> Iterator[Location]:
    for endpoint_slice in slices:
        numbers = [number for port, number in numbered_ports(endpoint_slice) if (port.name or "") == port_name]
        for endpoint, address in ready_endpoints(endpoint_slice):
            if is_reachable(address):
                pod = _pod_of(endpoint_slice, endpoint)
                for number in numbers:
                    yield Location(host=address, port=number, is_tls=target.scheme == "https", pod=pod)


def slices_of_endpoints(endpoints: Endpoints) -> list[EndpointSlice]:
    """Return the subsets of an Endpoints object as EndpointSlices."""
    return [
        EndpointSlice(
            metadata=endpoints.metadata,
            endpoints=[Endpoint(addresses=[row.ip], targetRef=row.targetRef) for row in subset.addresses],
            ports=[EndpointPort(name=port.name, port=port.port) for port in subset.ports],
        )
        for subset in endpoints.subsets
    ]


def _pod_of(endpoint_slice: EndpointSlice, endpoint: Endpoint) -> tuple[str, str] | None:
    target = endpoint.targetRef
    if target is None or target.kind != "Pod":
        return None
    return target.namespace or endpoint_slice.metadata.namespace, target.name


def unreachable_error(text: str) -> errors.ApiError:
    return errors.service_unavailable(f"error trying to reach service: {text}")


def is_reachable(address: str) -> bool:
    """Whether the address is a unicast address that other hosts can reach."""
    if not is_address(address):
        return False
    ip = addresses.unmap_address(ipaddress.ip_address(address))
    return not (ip.is_unspecified or ip.is_loopback or ip.is_multicast or ip.is_link_local)


def check_reachable(addresses: Iterable[str]) -> None:
    if not all(is_reachable(address) for address in addresses):
        raise errors.bad_request("address not allowed")


def _number(port: str) -> int:
    number = parse_port(port)
    if number is None:
        raise errors.service_unavailable(f"error trying to reach service: dial tcp: unknown port {port}")
    return number


__all__ = [
    "Location",
    "ProxyTarget",
    "check_reachable",
    "is_kubelet_port",
    "is_reachable",
    "kubelet_port",
    "node_address",
    "pod_location",
]
__all__ += ["service_locations", "service_port_name", "slices_of_endpoints", "target_of", "unreachable_error"]
