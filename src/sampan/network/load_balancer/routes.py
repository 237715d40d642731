"""Routes of the machine to load balancer addresses: each leads to a node of the bridge, which is chosen here and whose
kube-proxy translates the address.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network

from sampan.api.semantics.nodes import internal_addresses
from sampan.api.types.core_v1 import Node, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.host.clock import Clock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.host.netlink.netlink_socket import NetlinkSocket
from sampan.host.netlink.routing import RouteInfo, encode_route, encode_route_deletion, open_route_socket
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.network.load_balancer.addresses import addresses_in, is_in_pool
from sampan.network.routes import LOAD_BALANCER_PROTOCOL, gateways_through

_EXCLUDED = "node.kubernetes.io/exclude-from-external-load-balancers"
log = logging.getLogger(__name__)

_SERVICE_NAME = "kubernetes.io/service-name"
_TYPE = "LoadBalancer"
_PAUSE_S = 0.1
_RETRY_S = 5.0


def gateways(
    services: Iterable[Service],
    nodes: Iterable[Node],
    slices: Mapping[NamespacedName, Sequence[EndpointSlice]],
    cidrs: Sequence[str],
) -> dict[str, str]:
    """Return the address of the node that receives the traffic of each load balancer address of the node CIDRs.

    Only nodes that are ready receive traffic, and with the external traffic policy Local only those with endpoints. A
    service stays with its node as long as the node can serve it; services are spread over the nodes.
    """
    candidates = [node for node in nodes if is_ready(node)]
    routes = {}
    for service in services:
        for address in addresses_in(service):
            if not any(is_in_pool(address, cidr) for cidr in cidrs):
                continue
            usable = [node for node in candidates if node_address(node, address, cidrs)]
            if service.spec.externalTrafficPolicy == "Local":
                names = endpoint_nodes(slices.get(key_of(service), ()))
                usable = [node for node in usable if node.metadata.name in names]
            if usable:
                node = max(usable, key=lambda node: _weight(service, node))
                routes[address] = node_address(node, address, cidrs)
    return routes


def is_ready(node: Node) -> bool:
    meta = node.metadata
    if meta.deletionTimestamp is not None or _EXCLUDED in meta.labels:
        return False
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)


def node_address(node: Node, address: str, cidrs: Sequence[str]) -> str:
    """Return the address that a node has on the bridge in the IP family of `address`; empty if it has none."""
    networks = [ip_network(cidr) for cidr in cidrs]
    same_family = (own for own in internal_addresses(node) if (own.version == 6) == (":" in address))
    return next((str(own) for own in same_family if any(own in network for network in networks)), "")


def endpoint_nodes(slices: Iterable[EndpointSlice]) -> set[str]:
    """Return the names of the nodes with ready endpoints."""
    endpoints = (endpoint for slice in slices for endpoint in slice.endpoints or ())
    return {endpoint.nodeName for endpoint in endpoints if endpoint.nodeName and endpoint.conditions.ready is not False}


def _weight(service: Service, node: Node) -> bytes:
    """Return the weight of a node for a service, for rendezvous hashing: if a node fails, only its services move."""
    return hashlib.sha256(f"{key_of(service)} {node.metadata.name}".encode()).digest()


class LoadBalancerRoutes:
    """The routes of the machine to load balancer addresses. `run()` keeps them up to date with services and nodes until
    it is cancelled.

    The routes are removed together with the bridge.
    """

    def __init__(
        self,
        *,
        bridge: str,
        node_cidrs: Sequence[str],
        is_on: Callable[[Node], bool],
        informers: InformerFactory,
        clock: Clock,
        namespace: NetworkNamespace,
    ) -> None:
        """Create the routes. `is_on` returns whether a node runs. A stopped node stays ready until the node lifecycle
        controller notices that heartbeats are missing."""
        self._bridge, self._node_cidrs, self._is_on, self._clock = bridge, node_cidrs, is_on, clock
        self._services, self._nodes = informers.for_kind(Service), informers.for_kind(Node)
        self._slices = informers.for_kind(EndpointSlice)
        self._thread = namespace.executor("load-balancer-routes")
        self._changed, self._lock = asyncio.Event(), asyncio.Lock()
        self._unpublished: dict[NamespacedName, Service] = {}
        """Services with assigned addresses that the objects in the informer cache do not show yet."""
        self._applied: dict[str, str] | None = None
        """The gateways by address as last written. None before the first sync, which removes the routes of an earlier
        process, and after an error."""

    async def run(self) -> None:
        stops: list[Callable[[], None]] = [
            self._services.subscribe(self._on_service),
            self._nodes.subscribe(self._on_change),
            self._slices.subscribe(self._on_change),
        ]
        try:
            while True:
                self._changed.clear()
                await self._sync()
                await self._clock.sleep(_PAUSE_S if self._applied is not None else _RETRY_S)
                if self._applied is not None:
                    await self._changed.wait()
        finally:
            for stop in stops:
                stop()
            self._thread.shutdown(wait=False)

    async def ensure(self, service: Service) -> None:
        """Route the addresses in the status of a service, which may be newer than the object in the store. If no node
        can receive them, or the kernel refuses the route, `run()` does it later."""
        self._unpublished[key_of(service)] = service
        await self._sync()

    def _on_service(self, old: Service | None, new: Service | None) -> None:
        service = new or old
        if service is not None and (new is None or new.spec.type != _TYPE or new.status.loadBalancer.ingress):
            self._unpublished.pop(key_of(service), None)
        self._changed.set()

    def _on_change(self, old: object, new: object) -> None:
        self._changed.set()

    async def _sync(self) -> None:
        for informer in (self._services, self._nodes, self._slices):
            await informer.synced.wait()
        async with self._lock:
            desired = self._compute_routes()
            if desired == self._applied:
                return
            try:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._thread, route_addresses, self._bridge, desired)
            except OSError as error:
                log.warning("cannot route load balancer addresses to nodes: %s; retrying", error)
                self._applied = None
                return
            for address, gateway in desired.items():
                if (self._applied or {}).get(address) != gateway:
                    log.info("load balancer address %s leads to the node with address %s", address, gateway)
            self._applied = desired

    def _compute_routes(self) -> dict[str, str]:
        published = {key_of(service): service for service in self._services.lister}
        services = [
            service for service in (published | self._unpublished).values() if service.status.loadBalancer.ingress
        ]
        if not services:
            return {}
        slices: dict[NamespacedName, list[EndpointSlice]] = {}
        for slice in self._slices.lister:
            name = slice.metadata.labels.get(_SERVICE_NAME)
            if name:
                slices.setdefault(NamespacedName(slice.metadata.namespace, name), []).append(slice)
        nodes = [node for node in self._nodes.lister if self._is_on(node)]
        return gateways(services, nodes, slices, self._node_cidrs)


def route_addresses(bridge: str, desired: Mapping[str, str]) -> None:
    """Set the gateways of addresses on the machine. The call blocks. Raise OSError if the kernel refuses a route."""
    if not desired and bridge not in [name for _, name in socket.if_nameindex()]:
        return
    with open_route_socket() as netlink:
        index = socket.if_nametoindex(bridge)
        current = address_gateways(netlink, index)
        for address in current.keys() - desired.keys():
            netlink.send(encode_route_deletion(describe_route(address)))
        for address, gateway in desired.items():
            if current.get(address) != gateway:
                netlink.send(encode_route(describe_route(address, link=index, gateway=gateway)))


def address_gateways(netlink: NetlinkSocket, index: int) -> dict[str, str]:
    """Return the gateways of the routes to addresses of load balancers through a link, by address."""
    routes = gateways_through(netlink, index, LOAD_BALANCER_PROTOCOL)
    return {destination.partition("/")[0]: gateway for destination, gateway in routes.items()}


def describe_route(address: str, *, link: int = 0, gateway: str = "") -> RouteInfo:
    destination = f"{address}/{ip_address(address).max_prefixlen}"
    return RouteInfo(destination=destination, gateway=gateway, link=link, protocol=LOAD_BALANCER_PROTOCOL)
