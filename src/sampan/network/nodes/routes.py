"""Routes to the pod CIDRs of the nodes: which there should be, and how they are changed in a network namespace."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_network

from sampan.api.semantics.nodes import internal_addresses, pod_cidrs
from sampan.api.types.core_v1 import Node
from sampan.host.netlink.netlink_socket import NetlinkSocket
from sampan.host.netlink.routing import RouteInfo, encode_route, encode_route_deletion
from sampan.machinery.hollow import is_hollow_node
from sampan.network.disjoint_networks import DisjointNetworks, is_within
from sampan.network.routes import POD_CIDR_PROTOCOL, gateways_through


def pod_routes(
    nodes: Iterable[Node], node_cidrs: Sequence[str], cluster_cidrs: Sequence[str] = ()
) -> dict[str, dict[str, str]]:
    """Return by node name the gateway of each pod CIDR: the address of the node on the bridge.

    Nodes without an address on the bridge, such as those of other machines, have no routes. Pod CIDRs must be in the
    cluster CIDRs, if there are any. A pod CIDR that overlaps that of an older node is left out.
    """
    routes: dict[str, dict[str, str]] = {}
    reserved, clusters = DisjointNetworks(), [ip_network(cidr) for cidr in cluster_cidrs]
    for node in sorted(nodes, key=lambda node: (node.metadata.creationTimestamp or "", node.metadata.name)):
        gateways = _bridge_addresses(node, node_cidrs)
        for destination in pod_cidrs(node):
            gateway = gateways.get(destination.version)
            if gateway is not None and is_within(destination, clusters) and reserved.add(destination):
                routes.setdefault(node.metadata.name, {})[str(destination)] = gateway
    return routes


def distant_pod_cidrs(nodes: Iterable[Node], node_cidrs: Sequence[str]) -> list[str]:
    """Return the pod CIDRs of real nodes of other machines, which the nodes on the bridge reach through this
    machine."""
    distant = [node for node in nodes if not _bridge_addresses(node, node_cidrs) and not is_hollow_node(node)]
    return [str(destination) for node in distant for destination in pod_cidrs(node)]


def _bridge_addresses(node: Node, node_cidrs: Sequence[str]) -> dict[int, str]:
    """Return the addresses of a node on the bridge, by IP version."""
    networks = [ip_network(cidr) for cidr in node_cidrs]
    addresses: dict[int, str] = {}
    for address in internal_addresses(node):
        if any(address in network for network in networks):
            addresses.setdefault(address.version, str(address))
    return addresses


class RouteTable:
    """Sampan's routes to pod CIDRs in the network namespace of a netlink socket, through one link."""

    def __init__(self, netlink: NetlinkSocket, index: int) -> None:
        self._netlink, self._index = netlink, index
        self._routes = gateways_through(netlink, index, POD_CIDR_PROTOCOL)

    def apply(self, desired: Mapping[str, str]) -> None:
        """Add and remove routes, so that there are exactly the desired gateways by destination. Raise OSError if the
        kernel refuses a change."""
        for destination in sorted(self._routes.keys() - desired.keys()):
            self._remove(destination)
            del self._routes[destination]
        for destination, gateway in sorted(desired.items()):
            if self._routes.get(destination) != gateway:
                self._netlink.send(encode_route(self._describe(destination, gateway)))
                self._routes[destination] = gateway

    def _describe(self, destination: str, gateway: str = "") -> RouteInfo:
        return RouteInfo(destination=destination, gateway=gateway, link=self._index, protocol=POD_CIDR_PROTOCOL)

    def _remove(self, destination: str) -> None:
        try:
            self._netlink.send(encode_route_deletion(self._describe(destination)))
        except OSError as error:
            if error.errno != errno.ESRCH:
                raise
