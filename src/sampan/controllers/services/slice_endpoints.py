"""The desired endpoints of a service's slices: one per pod and address family, grouped by ports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sampan.api.semantics.pods import is_ready
from sampan.api.types.core_v1 import Node, ObjectReference, Pod, Service
from sampan.api.types.discovery_v1 import Endpoint, EndpointConditions, EndpointHints, EndpointPort, ForNode, ForZone
from sampan.controllers.services.membership import (
    IPV4,
    IPV6,
    addresses_of,
    hostname_of,
    may_serve,
    port_number,
)

ZONE: Final = "topology.kubernetes.io/zone"

PortsKey = tuple[tuple[str, int | None, str, str], ...]
Identity = tuple[tuple[str, ...], str, str, str]


@dataclass(slots=True)
class Group:
    """Endpoints with the same ports."""

    ports: list[EndpointPort]
    endpoints: dict[Identity, Endpoint] = field(default_factory=dict)


@dataclass(slots=True)
class Wanted:
    groups: dict[PortsKey, Group] = field(default_factory=dict)
    missing_nodes: set[str] = field(default_factory=set)
    """Nodes that are not in the cache yet; their pods are omitted until they are."""


def families_of(service: Service) -> Sequence[str]:
    if service.spec.ipFamilies:
        return service.spec.ipFamilies
    if service.spec.clusterIP in ("", "None"):
        return (IPV4, IPV6)
    return (IPV6,) if ":" in service.spec.clusterIP else (IPV4,)


def wanted_endpoints(
    service: Service, pods: Iterable[Pod], family: str, node_of: Callable[[str], Node | None]
) -> Wanted:
    desired = Wanted()
    for pod in pods:
        if not may_serve(pod, with_terminating=True) or not (addresses := addresses_of(pod, family)):
            continue
        node = node_of(pod.spec.nodeName)
        if node is None and not service.spec.publishNotReadyAddresses:
            desired.missing_nodes.add(pod.spec.nodeName)
            continue
        ports = _ports(service, pod)
        group = desired.groups.setdefault(ports_key(ports), Group(ports))
        endpoint = _endpoint(service, pod, addresses, node)
        group.endpoints[identity(endpoint)] = endpoint
    return desired


def ports_key(ports: Iterable[EndpointPort]) -> PortsKey:
    return tuple(sorted((port.name or "", port.port, port.protocol or "", port.appProtocol or "") for port in ports))


def identity(endpoint: Endpoint) -> Identity:
    """Return the part of an endpoint that stays the same while its conditions change."""
    ref = endpoint.targetRef
    namespace, name = (ref.namespace, ref.name) if ref is not None else ("", "")
    return (tuple(endpoint.addresses or ()), endpoint.hostname or "", namespace, name)


def _ports(service: Service, pod: Pod) -> list[EndpointPort]:
    return [
        EndpointPort(name=port.name, port=number, protocol=port.protocol, appProtocol=port.appProtocol)
        for port in service.spec.ports
        if (number := port_number(pod, port)) is not None
    ]


def _endpoint(service: Service, pod: Pod, addresses: list[str], node: Node | None) -> Endpoint:
    is_serving, is_terminating = is_ready(pod), pod.metadata.deletionTimestamp is not None
    is_usable = service.spec.publishNotReadyAddresses or (is_serving and not is_terminating)
    meta = pod.metadata
    endpoint = Endpoint(
        addresses=addresses,
        conditions=EndpointConditions(ready=is_usable, serving=is_serving, terminating=is_terminating),
        targetRef=ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid),
        nodeName=pod.spec.nodeName or None,
        zone=(node.metadata.labels.get(ZONE) or None) if node is not None else None,
        hostname=hostname_of(pod, service) or None,
    )
    endpoint.hints = _hints(service.spec.trafficDistribution, endpoint)
    return endpoint


_NEAR: Final[Mapping[str, bool]] = {"PreferClose": False, "PreferSameZone": False, "PreferSameNode": True}
"""The values of `trafficDistribution` that yield hints, and whether they include hints for nodes."""


def _hints(distribution: str | None, endpoint: Endpoint) -> EndpointHints | None:
    if distribution is None or distribution not in _NEAR:
        return None
    zones = [ForZone(name=endpoint.zone)] if endpoint.zone else []
    nodes = [ForNode(name=endpoint.nodeName)] if endpoint.nodeName and _NEAR[distribution] else []
    return EndpointHints(forZones=zones, forNodes=nodes) if zones or nodes else None
