"""Packing of endpoints into slices with as few changes to existing slices as possible. Pure.

First, undesired endpoints are removed from their slices and changed ones are updated in place. New endpoints fill up
the slices that change anyway. The rest goes into one unchanged slice with room for all of it, or else into new slices.

`slice_of` makes the EndpointSlice objects, with labels, owner reference and annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from sampan.api.semantics.pods import is_ready
from sampan.api.types.core_v1 import Node, ObjectReference, Pod, Service, ServicePort
from sampan.api.types.discovery_v1 import (
    Endpoint,
    EndpointConditions,
    EndpointHints,
    EndpointPort,
    EndpointSlice,
    ForNode,
    ForZone,
)
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.controllers.services.pods import (
    HEADLESS,
    IPV4,
    IPV6,
    LAST_CHANGE,
    TargetPorts,
    addresses_of,
    hostname_of,
    is_headless,
    may_serve,
)
from sampan.machinery.object_key import NamespacedName

ZONE: Final = "topology.kubernetes.io/zone"
PortsKey = tuple[tuple[str, int | None, str, str], ...]
Identity = tuple[tuple[str, ...], str, str, str]
SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
_RESERVED: Final = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS})


@dataclass(slots=True)
class PortGroup:
    """Endpoints with the same ports."""

    ports: list[EndpointPort]
    endpoints: dict[Identity, Endpoint] = field(default_factory=dict)


@dataclass(slots=True)
class DesiredEndpoints:
    groups: dict[PortsKey, PortGroup] = field(default_factory=dict)
    missing_nodes: set[str] = field(default_factory=set)
    """Nodes that are not in the cache yet; their pods are omitted until they are."""
    omitted: list[str] = field(default_factory=list)
    """Pods that are omitted because the service would have too many ports."""


def families_of(service: Service) -> Sequence[str]:
    if service.spec.ipFamilies:
        return service.spec.ipFamilies
    if service.spec.clusterIP in ("", "None"):
        return (IPV4, IPV6)
    return (IPV6,) if ":" in service.spec.clusterIP else (IPV4,)


def desired_endpoints(
    service: Service, pods: Iterable[Pod], family: str, node_of: Callable[[str], Node | None]
) -> DesiredEndpoints:
    desired, targets = DesiredEndpoints(), TargetPorts(service, _endpoint_port)
    groups: dict[int, PortGroup] = {}
    """The groups by the identity of the lists of `targets`, since it costs much to compare long lists."""
    for pod in pods:
        if not may_serve(pod, with_terminating=True) or not (addresses := addresses_of(pod, family)):
            continue
        node = node_of(pod.spec.nodeName)
        if node is None and not service.spec.publishNotReadyAddresses:
            desired.missing_nodes.add(pod.spec.nodeName)
            continue
        if (ports := targets.find(pod)) is None:
            desired.omitted.append(pod.metadata.name)
            continue
        if (group := groups.get(id(ports))) is None:
            group = groups[id(ports)] = desired.groups.setdefault(ports_key(ports), PortGroup(ports))
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


def _endpoint_port(port: ServicePort, number: int) -> EndpointPort:
    return EndpointPort(name=port.name, port=number, protocol=port.protocol, appProtocol=port.appProtocol)


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


@dataclass(slots=True)
class SliceContent:
    """The desired content of an existing or a new slice."""

    existing: EndpointSlice | None
    ports: list[EndpointPort]
    endpoints: list[Endpoint]


@dataclass(slots=True)
class SliceChanges:
    same: list[EndpointSlice] = field(default_factory=list)
    changed: list[SliceContent] = field(default_factory=list)
    new: list[SliceContent] = field(default_factory=list)
    unneeded: list[EndpointSlice] = field(default_factory=list)

    def __iadd__(self, other: SliceChanges) -> SliceChanges:
        self.same += other.same
        self.changed += other.changed
        self.new += other.new
        self.unneeded += other.unneeded
        return self


def pack(existing: Sequence[EndpointSlice], groups: Mapping[PortsKey, PortGroup], maximum: int) -> SliceChanges:
    """Pack the slices of one address family. Without endpoints, one slice without endpoints and ports remains."""
    by_ports: dict[PortsKey, list[EndpointSlice]] = {}
    for endpoint_slice in existing:
        by_ports.setdefault(ports_key(endpoint_slice.ports or ()), []).append(endpoint_slice)
    packing = SliceChanges()
    for key, group in groups.items():
        packing += _pack_group(by_ports.pop(key, ()), group, maximum)
    packing.unneeded += [endpoint_slice for slices in by_ports.values() for endpoint_slice in slices]
    if not (packing.same or packing.changed or packing.new):
        _keep_placeholder(packing)
    return _reuse_slices(packing)


def _keep_placeholder(packing: SliceChanges) -> None:
    placeholder = next(
        (candidate for candidate in packing.unneeded if not candidate.endpoints and not candidate.ports), None
    )
    if placeholder is None:
        packing.new.append(SliceContent(None, [], []))
    else:
        packing.unneeded.remove(placeholder)
        packing.same.append(placeholder)


def _reuse_slices(packing: SliceChanges) -> SliceChanges:
    """Reuse slices to be deleted for new content."""
    while packing.new and packing.unneeded:
        content = packing.new.pop()
        content.existing = packing.unneeded.pop(0)
        packing.changed.append(content)
    return packing


def _pack_group(existing: Sequence[EndpointSlice], group: PortGroup, maximum: int) -> SliceChanges:
    waiting, packing = dict(group.endpoints), SliceChanges()
    for endpoint_slice in existing:
        endpoints = _take_desired_endpoints(endpoint_slice, waiting)
        if not endpoints:
            packing.unneeded.append(endpoint_slice)
        elif endpoints == endpoint_slice.endpoints:
            packing.same.append(endpoint_slice)
        else:
            packing.changed.append(SliceContent(endpoint_slice, endpoint_slice.ports or [], endpoints))
    for content in packing.changed:
        _fill(content, waiting, maximum)
    while waiting:
        content = _take_fullest_with_room(packing, len(waiting), maximum) or _add_content(packing, group.ports)
        _fill(content, waiting, maximum)
    return packing


def _take_desired_endpoints(endpoint_slice: EndpointSlice, waiting: dict[Identity, Endpoint]) -> list[Endpoint]:
    """Return the slice's endpoints that are still desired, in their new state, and remove them from `waiting`."""
    return [
        now for endpoint in endpoint_slice.endpoints or () if (now := waiting.pop(identity(endpoint), None)) is not None
    ]


def _fill(content: SliceContent, waiting: dict[Identity, Endpoint], max_count: int) -> None:
    while waiting and len(content.endpoints) < max_count:
        content.endpoints.append(waiting.pop(next(iter(waiting))))


def _take_fullest_with_room(packing: SliceChanges, needed: int, maximum: int) -> SliceContent | None:
    """Move the fullest unchanged slice with room for all remaining endpoints to the changed ones and return it."""
    fitting = [
        endpoint_slice for endpoint_slice in packing.same if len(endpoint_slice.endpoints or ()) + needed <= maximum
    ]
    if not fitting:
        return None
    best = max(fitting, key=lambda endpoint_slice: len(endpoint_slice.endpoints or ()))
    packing.same.remove(best)
    packing.changed.append(SliceContent(best, best.ports or [], list(best.endpoints or ())))
    return packing.changed[-1]


def _add_content(packing: SliceChanges, ports: list[EndpointPort]) -> SliceContent:
    packing.new.append(SliceContent(None, ports, []))
    return packing.new[-1]


def labels_of(service: Service) -> dict[str, str]:
    labels = {key: value for key, value in service.metadata.labels.items() if key not in _RESERVED}
    if is_headless(service):
        labels[HEADLESS] = ""
    return labels | {SERVICE_NAME: service.metadata.name, MANAGED_BY: MANAGER}


def name_prefix(name: str) -> str:
    return f"{name}-"


def slice_of(
    service: Service, family: str, content: SliceContent, labels: Mapping[str, str], changed_at: str
) -> EndpointSlice:
    """Return the object to write: a new slice, or the existing one with new content."""
    existing = content.existing
    if existing is None:
        meta = ObjectMeta(
            generateName=name_prefix(service.metadata.name),
            namespace=service.metadata.namespace,
            ownerReferences=[_owner(service)],
        )
    else:
        meta = msgspec.structs.replace(existing.metadata, managedFields=[])
    annotations = {key: value for key, value in meta.annotations.items() if key != LAST_CHANGE}
    if changed_at:
        annotations[LAST_CHANGE] = changed_at
    meta = msgspec.structs.replace(meta, labels=dict(labels), annotations=annotations)
    return EndpointSlice(metadata=meta, addressType=family, endpoints=content.endpoints, ports=content.ports)


def _owner(service: Service) -> OwnerReference:
    meta = service.metadata
    return OwnerReference(
        apiVersion="v1", kind="Service", name=meta.name, uid=meta.uid, controller=True, blockOwnerDeletion=True
    )


def belongs_to_another(endpoint_slice: EndpointSlice, service: Service) -> bool:
    """Whether the slice is owned by an earlier service of the same name, so that garbage collection will delete it."""
    owners = endpoint_slice.metadata.ownerReferences
    return any(owner.controller and owner.uid != service.metadata.uid for owner in owners)


def service_keys(endpoint_slice: EndpointSlice, manager: str) -> tuple[NamespacedName, ...]:
    """Return the key of the service of a slice, if this controller manages the slice."""
    labels = endpoint_slice.metadata.labels
    if labels.get(MANAGED_BY) != manager or not labels.get(SERVICE_NAME):
        return ()
    return (NamespacedName(endpoint_slice.metadata.namespace, labels[SERVICE_NAME]),)
