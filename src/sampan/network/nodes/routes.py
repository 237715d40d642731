"""Routes to the pod CIDRs of the nodes: which there should be, and how they are changed in a network namespace."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from sampan.api.types.core_v1 import Node
from sampan.machinery.hollow import is_hollow_node
from sampan.network import netlink


def pod_routes(nodes: Iterable[Node], node_cidrs: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return by node name the gateway of each pod CIDR: the node's address on the bridge. Nodes without an address
    there, such as those of other machines, have no routes."""
    routes: dict[str, dict[str, str]] = {}
    for node in nodes:
        gateways = _bridge_addresses(node, node_cidrs)
        for destination in _pod_cidrs(node):
            if (gateway := gateways.get(destination.version)) is not None:
                routes.setdefault(node.metadata.name, {})[str(destination)] = gateway
    return routes


def distant_pod_cidrs(nodes: Iterable[Node], node_cidrs: Sequence[str]) -> list[str]:
    """Return the pod CIDRs of real nodes of other machines, which the nodes on the bridge reach through this
    machine."""
    distant = [node for node in nodes if not _bridge_addresses(node, node_cidrs) and not is_hollow_node(node)]
    return [str(destination) for node in distant for destination in _pod_cidrs(node)]


def _bridge_addresses(node: Node, node_cidrs: Sequence[str]) -> dict[int, str]:
    """Return the addresses of a node on the bridge, by IP version."""
    networks = [ip_network(cidr) for cidr in node_cidrs]
    addresses: dict[int, str] = {}
    for entry in node.status.addresses:
        if entry.type == "InternalIP":
            address = ip_address(entry.address)
            if any(address in network for network in networks):
                addresses.setdefault(address.version, entry.address)
    return addresses


def _pod_cidrs(node: Node) -> list[IPv4Network | IPv6Network]:
    cidrs = node.spec.podCIDRs or ([node.spec.podCIDR] if node.spec.podCIDR else [])
    return [ip_network(cidr, strict=False) for cidr in cidrs]


class RouteTable:
    """Sampan's routes to pod CIDRs in the network namespace of a netlink socket, through one link."""

    def __init__(self, link: socket.socket, index: int) -> None:
        self._link, self._index = link, index
        self._routes = netlink.pod_routes(link, index)

    def apply(self, desired: Mapping[str, str]) -> None:
        """Add and remove routes, so that there are exactly the desired gateways by destination. Raise OSError."""
        for destination in sorted(self._routes.keys() - desired.keys()):
            self._remove(destination)
            del self._routes[destination]
        for destination, gateway in sorted(desired.items()):
            if self._routes.get(destination) != gateway:
                netlink.say(self._link, [netlink.route(self._index, destination, gateway)])
                self._routes[destination] = gateway

    def _remove(self, destination: str) -> None:
        try:
            netlink.say(self._link, [netlink.no_route(self._index, destination)])
        except OSError as error:
            if error.errno != errno.ESRCH:
                raise
