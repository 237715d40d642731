"""Which node receives the traffic of a load balancer. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_network

from sampan.api.semantics.nodes import internal_addresses
from sampan.api.types.core_v1 import Node, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.network.load_balancer.addresses import addresses_in, is_in_pool

_EXCLUDED = "node.kubernetes.io/exclude-from-external-load-balancers"


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
    """Return the address of a node on the bridge in the IP family of an address; empty if it is not there."""
    networks = [ip_network(cidr) for cidr in cidrs]
    same_family = (own for own in internal_addresses(node) if (own.version == 6) == (":" in address))
    return next((str(own) for own in same_family if any(own in network for network in networks)), "")


def endpoint_nodes(slices: Iterable[EndpointSlice]) -> set[str]:
    """Return the names of the nodes with ready endpoints."""
    endpoints = (endpoint for slice in slices for endpoint in slice.endpoints or ())
    return {endpoint.nodeName for endpoint in endpoints if endpoint.nodeName and endpoint.conditions.ready is not False}


def _weight(service: Service, node: Node) -> bytes:
    """Rendezvous hashing: if a node goes, only its services move."""
    return hashlib.sha256(f"{key_of(service)} {node.metadata.name}".encode()).digest()
