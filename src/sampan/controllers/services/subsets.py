"""The subsets of an Endpoints object. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import msgspec

from sampan.api.limits import SERVICE_TARGET_PORTS
from sampan.api.semantics.pods import is_ready
from sampan.api.types.core_v1 import (
    EndpointAddress,
    EndpointPort,
    EndpointSubset,
    ObjectReference,
    Pod,
    Service,
    ServicePort,
)
from sampan.controllers.services.pods import TargetPorts, addresses_of, hostname_of, may_serve

CAPACITY: Final = 1000

_Port = tuple[str, int, str, str]


@dataclass(slots=True)
class _PortSubset:
    address: EndpointAddress
    is_ready: bool
    ports: list[EndpointPort]


def subsets_of(service: Service, pods: Iterable[Pod]) -> list[EndpointSubset]:
    """Return the subsets of a service. With publishNotReadyAddresses, unready and terminating pods count as ready."""
    publishes = service.spec.publishNotReadyAddresses
    entries: list[_PortSubset] = []
    targets = TargetPorts(service, _endpoint_port)
    for pod in pods:
        if not may_serve(pod, with_terminating=publishes):
            continue
        address = _address(service, pod)
        if address is not None and (ports := _ports(service, targets, pod)) is not None:
            entries.append(_PortSubset(address, publishes or is_ready(pod), ports))
    return _pack_subsets(entries)


def _address(service: Service, pod: Pod) -> EndpointAddress | None:
    families = service.spec.ipFamilies
    ips = addresses_of(pod, families[0] if families else "IPv4")
    if not ips:
        return None
    meta = pod.metadata
    ref = ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)
    return EndpointAddress(ip=ips[0], nodeName=pod.spec.nodeName, targetRef=ref, hostname=hostname_of(pod, service))


def _endpoint_port(port: ServicePort, number: int) -> EndpointPort:
    return EndpointPort(name=port.name, port=number, protocol=port.protocol, appProtocol=port.appProtocol)


def _ports(service: Service, targets: TargetPorts[EndpointPort], pod: Pod) -> list[EndpointPort] | None:
    """Return the ports of the pod, or None if it has none of the service's; a headless service may have no ports."""
    if not service.spec.ports:
        return [] if service.spec.clusterIP == "None" else None
    return targets.find(pod) or None


def repack_subsets(subsets: Sequence[EndpointSubset]) -> tuple[list[EndpointSubset], int]:
    """Return the subsets in canonical form, where each address is in one subset only, with all its ports; and the
    number of addresses that are left out because there would be too many ports.

    Addresses that are in the same subsets share their list of ports.
    """
    subsets_of_address: dict[tuple[str, str, bool], tuple[EndpointAddress, list[int]]] = {}
    for number, subset in enumerate(subsets):
        for is_usable, addresses in ((True, subset.addresses), (False, subset.notReadyAddresses)):
            for address in addresses:
                numbers = subsets_of_address.setdefault((*_ip_and_uid(address), is_usable), (address, []))[1]
                if number not in numbers[-1:]:
                    numbers.append(number)
    lists: dict[tuple[int, ...], list[EndpointPort]] = {}
    entries: list[_PortSubset] = []
    count = 0
    for (_, _, is_usable), (address, numbers) in subsets_of_address.items():
        ports = lists.get(tuple(numbers))
        if ports is None:
            size = sum(len(subsets[number].ports) for number in numbers)
            if lists and count + size > SERVICE_TARGET_PORTS:
                continue
            count += size
            merged = {_order(port): port for number in numbers for port in subsets[number].ports}
            ports = lists[tuple(numbers)] = list(merged.values())
        entries.append(_PortSubset(address, is_usable, ports))
    return _pack_subsets(entries), len(subsets_of_address) - len(entries)


def _pack_subsets(entries: Sequence[_PortSubset]) -> list[EndpointSubset]:
    groups: dict[tuple[_Port, ...], EndpointSubset] = {}
    by_list: dict[int, EndpointSubset] = {}
    for entry in entries:
        if (subset := by_list.get(id(entry.ports))) is None:
            ports = sorted(entry.ports, key=_order)
            key = tuple(_order(port) for port in ports)
            subset = by_list[id(entry.ports)] = groups.setdefault(key, EndpointSubset(ports=ports))
        (subset.addresses if entry.is_ready else subset.notReadyAddresses).append(entry.address)
    for subset in groups.values():
        subset.addresses.sort(key=_ip_and_uid)
        subset.notReadyAddresses.sort(key=_ip_and_uid)
    return [groups[key] for key in sorted(groups)]


def _order(port: EndpointPort) -> _Port:
    return (port.name, port.port, port.protocol, port.appProtocol or "")


def _ip_and_uid(address: EndpointAddress) -> tuple[str, str]:
    return (address.ip, address.targetRef.uid if address.targetRef is not None else "")


def truncate_subsets(subsets: Sequence[EndpointSubset], maximum: int = CAPACITY) -> list[EndpointSubset] | None:
    """Return the subsets truncated to `maximum` addresses, or None if all fit.

    Ready addresses come first, and the limit is shared among the subsets in proportion to their size.
    """
    ready = sum(len(subset.addresses) for subset in subsets)
    unready = sum(len(subset.notReadyAddresses) for subset in subsets)
    if ready + unready <= maximum:
        return None
    cuts_ready = ready > maximum
    capacity, total = (maximum, ready) if cuts_ready else (maximum - ready, unready)
    remaining, result = capacity, []
    for subset in subsets:
        source = subset.addresses if cuts_ready else subset.notReadyAddresses
        endpoints = source[: min(ceil(len(source) / total * capacity), remaining)]
        remaining -= len(endpoints)
        result.append(
            msgspec.structs.replace(subset, addresses=endpoints, notReadyAddresses=[])
            if cuts_ready
            else msgspec.structs.replace(subset, notReadyAddresses=endpoints)
        )
    return result
