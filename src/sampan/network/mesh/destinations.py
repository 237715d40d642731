"""Which destinations of another machine are routed to it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_network

from sampan.api.addresses import Network
from sampan.network.disjoint_networks import DisjointNetworks, is_within
from sampan.network.mesh.mesh_plan import Machine


def accept_destinations(own: Machine, others: Sequence[Machine], cluster_cidrs: Sequence[Network]) -> Iterator[Machine]:
    """Yield the other machines with those of their destinations that are routed to them.

    What belongs to this machine, or to a machine that precedes another one, stays there. Pod CIDRs must be in the
    cluster CIDRs, if there are any, and addresses of nodes must be private ones.
    """
    attached = (interface.network for interface in own.interfaces)
    reserved = DisjointNetworks([*own.destinations, *attached])
    for other in others:
        for interface in other.interfaces:
            reserved.add(ip_network(interface.ip))
        kept = [item for item in other.destinations if _is_plausible(item, cluster_cidrs) and reserved.add(item)]
        yield replace(other, destinations=kept)


def _is_plausible(destination: Network, cluster_cidrs: Sequence[Network]) -> bool:
    is_node_address = destination.prefixlen == destination.max_prefixlen
    return destination.is_private if is_node_address else is_within(destination, cluster_cidrs)
