"""The ports of a service with the endpoints that a node uses for them. Pure.

`categorize` selects the endpoints for each traffic policy; `resolve` does that for all ports of a service.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sampan.api.limits import NODE_SERVICE_PAIRS, SERVICE_FREE_PAIRS
from sampan.api.types.core_v1 import Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.network.proxy.services import (
    EndpointCategories,
    EndpointInfo,
    ServicePortInfo,
    ServicePortState,
    Topology,
    endpoints_by_port,
    service_ports,
)


class ResolvedService(NamedTuple):
    """The ports of a service on a node."""

    ports: tuple[ServicePortState, ...] = ()
    problems: tuple[str, ...] = ()
    """Why the service has fewer ports or endpoints than its objects say, as messages for its author."""

    @property
    def excess_pairs(self) -> int:
        """How many pairs of a port with an address, source range or endpoint the service has beyond those that every
        service may have. What a service with a single port needs is no larger than its objects, and does not count."""
        if len(self.ports) < 2:
            return 0
        return max(0, sum(state.info.address_count + len(state.endpoints) for state in self.ports) - SERVICE_FREE_PAIRS)


def resolve(
    service: Service,
    slices: Sequence[EndpointSlice],
    families: Iterable[str],
    topology: Topology,
    room: int = NODE_SERVICE_PAIRS,
) -> ResolvedService:
    """Return the ports of a service with the endpoints that a node with this topology uses. `room` is the number of
    pairs of ports and addresses or endpoints that the node has left."""
    infos = service_ports(service, families, room)
    counts = Counter(info.family for info in infos)
    by_family = {family: endpoints_by_port(slices, family, topology.node_name, room) for family in counts}
    states = []
    for info in infos:
        endpoints = by_family[info.family].endpoints.get((info.name.port, info.protocol), ())
        states.append(ServicePortState(info, endpoints, categorize(info, endpoints, topology)))
    problems = []
    if any(count < len(service.spec.ports) for count in counts.values()):
        most = f"only {max(counts.values())} of its {len(service.spec.ports)} ports are proxied"
        problems.append(f"Too many pairs of ports with addresses and source ranges: {most}")
    if not all(by_port.is_complete for by_port in by_family.values()):
        problems.append("Too many pairs of ports and endpoints: some ports have no endpoints, or not all of them")
    return ResolvedService(tuple(states), tuple(problems))


def categorize(info: ServicePortInfo, endpoints: Sequence[EndpointInfo], topology: Topology) -> EndpointCategories:
    """Select the endpoints for each traffic policy that a service port uses.

    Ready endpoints are used; without any, those that terminate and still serve, independently for both policies. Hints
    restrict the policy Cluster only if every ready endpoint has them and one of them is for this node or zone.
    """
    ready = tuple(endpoint for endpoint in endpoints if endpoint.is_ready)
    draining = tuple(e for e in endpoints if not e.is_ready and e.is_serving and e.is_terminating)
    cluster: tuple[EndpointInfo, ...] = ()
    local: tuple[EndpointInfo, ...] = ()
    if info.uses_cluster_endpoints:
        cluster = _near(ready, topology) or draining
    if info.uses_local_endpoints:
        local = tuple(e for e in ready if e.is_local) or tuple(e for e in draining if e.is_local)
    return EndpointCategories(cluster, local, _union(cluster, local), bool(ready or draining))


def _near(ready: tuple[EndpointInfo, ...], topology: Topology) -> tuple[EndpointInfo, ...]:
    """Return the ready endpoints whose hints are for this node, or else for this zone, or else all of them."""
    on_node = tuple(endpoint for endpoint in ready if topology.node_name in endpoint.node_hints)
    if on_node and all(endpoint.node_hints for endpoint in ready):
        return on_node
    in_zone = tuple(endpoint for endpoint in ready if topology.zone in endpoint.zone_hints)
    if in_zone and all(endpoint.zone_hints for endpoint in ready):
        return in_zone
    return ready


def _union(cluster: tuple[EndpointInfo, ...], local: tuple[EndpointInfo, ...]) -> tuple[EndpointInfo, ...]:
    if not local or not cluster:
        return cluster or local
    extra = [endpoint for endpoint in local if endpoint not in cluster]
    return tuple(sorted([*cluster, *extra], key=lambda e: (e.address, e.port))) if extra else cluster
