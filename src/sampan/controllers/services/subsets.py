"""The subsets of an Endpoints object. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import msgspec

from sampan.api.semantics.pods import is_ready
from sampan.api.types.core_v1 import EndpointAddress, EndpointPort, EndpointSubset, ObjectReference, Pod, Service
from sampan.controllers.services.pods import addresses_of, hostname_of, may_serve, port_number

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
    for pod in pods:
        if not may_serve(pod, with_terminating=publishes):
            continue
        address = _address(service, pod)
        if address is not None and (ports := _ports(service, pod)) is not None:
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


def _ports(service: Service, pod: Pod) -> list[EndpointPort] | None:
    """Return the ports of the pod, or None if it has none of the service's; a headless service may have no ports."""
    if not service.spec.ports:
        return [] if service.spec.clusterIP == "None" else None
    ports = [
        EndpointPort(name=port.name, port=number, protocol=port.protocol, appProtocol=port.appProtocol)
        for port in service.spec.ports
        if (number := port_number(pod, port)) is not None
    ]
    return ports or None


def repack_subsets(subsets: Iterable[EndpointSubset]) -> list[EndpointSubset]:
    """Return the subsets in canonical form: each address is in one subset only, with all its ports."""
    entries: dict[tuple[str, str, bool], _PortSubset] = {}
    for subset in subsets:
        for is_usable, addresses in ((True, subset.addresses), (False, subset.notReadyAddresses)):
            for address in addresses:
                entry = entries.setdefault((*_ip_and_uid(address), is_usable), _PortSubset(address, is_usable, []))
                entry.ports += [port for port in subset.ports if port not in entry.ports]
    return _pack_subsets(entries.values())


def _pack_subsets(_founds: Iterable[_PortSubset]) -> list[EndpointSubset]:
    groups: dict[tuple[_Port, ...], EndpointSubset] = {}
    for entry in _founds:
        ports = sorted(entry.ports, key=_order)
        key = tuple(_order(port) for port in ports)
        subset = groups.setdefault(key, EndpointSubset(ports=ports))
        (subset.addresses if entry.is_ready else subset.notReadyAddresses).append(entry.address)
    for subset in groups.values():
        subset.addresses.sort(key=_ip_and_uid)
        subset.notReadyAddresses.sort(key=_ip_and_uid)
    return [groups[key] for key in sorted(groups)]


def _order(port: EndpointPort) -> _Port:
    return (port.name, port.port, port.protocol, port.appProtocol or "")


def _ip_and_uid(address: EndpointAddress) -> tuple[str, str]:
    return (address.ip, address.targetRef.uid if address.targetRef is not None else "")


def truncate_subsets(subsets: Sequence[EndpointSubset], most: int = CAPACITY) -> list[EndpointSubset] | None:
    """Return the subsets truncated to `most` addresses, or None if all fit.

    Ready addresses come first, and the limit is shared among the subsets in proportion to their size.
    """
    ready = sum(len(subset.addresses) for subset in subsets)
    unready = sum(len(subset.notReadyAddresses) for subset in subsets)
    if ready + unready <= most:
        return None
    cuts_ready = ready > most
    room, total = (most, ready) if cuts_ready else (most - ready, unready)
    remaining, result = room, []
    for subset in subsets:
        source = subset.addresses if cuts_ready else subset.notReadyAddresses
        kept = source[: min(ceil(len(source) / total * room), remaining)]
        remaining -= len(kept)
        result.append(
            msgspec.structs.replace(subset, addresses=kept, notReadyAddresses=[])
            if cuts_ready
            else msgspec.structs.replace(subset, notReadyAddresses=kept)
        )
    return result
