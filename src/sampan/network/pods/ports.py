"""Host ports as elements of nftables maps, and conflicts between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface
from typing import NamedTuple

from sampan.network.pods.records import HostPortMapping, PodNetworkRecord

_PROTOCOLS = ("tcp", "udp", "sctp")


class Element(NamedTuple):
    set: str
    key: str
    value: str = ""
    """The value if the set is a map."""

    def __str__(self) -> str:
        return f"{self.key} : {self.value}" if self.value else self.key


def port_errors(ports: Iterable[HostPortMapping]) -> Iterator[str]:
    for port in ports:
        if port.protocol not in _PROTOCOLS:
            yield f"host port {port.host_port}: there is no protocol {port.protocol!r}"
        if not (0 < port.host_port < 65536 and 0 < port.container_port < 65536):
            yield f"host port {port.host_port} to {port.container_port}: not a port"
        if port.host_ip and not _is_address(port.host_ip):
            yield f"host port {port.host_port}: {port.host_ip!r} is not an IP address"


@lru_cache(maxsize=1024)
def elements(record: PodNetworkRecord) -> frozenset[Element]:
    """Return the elements of a pod: `ports` by port, `bound` by host IP and port, `own` for hairpin connections."""
    result: set[Element] = set()
    for ip in [ip_interface(address).ip for address in record.addresses if record.ports]:
        result.add(Element(f"own{ip.version}", f"{ip} . {ip}"))
        for port in record.ports:
            result.update(_of_port(port, ip))
    return frozenset(result)


def _of_port(port: HostPortMapping, ip: IPv4Address | IPv6Address) -> Iterator[Element]:
    to = f"{ip} . {port.container_port}"
    host = ip_address(port.host_ip) if port.host_ip else None
    if host is not None and host.version != ip.version:
        return
    if host is None or host.is_unspecified:
        yield Element(f"ports{ip.version}", f"{port.protocol} . {port.host_port}", to)
    else:
        yield Element(f"bound{ip.version}", f"{host} . {port.protocol} . {port.host_port}", to)


def conflict(record: PodNetworkRecord, others: Iterable[PodNetworkRecord]) -> str:
    """Return a message about a host port that another pod has, or an empty string."""
    keys = {(element.set, element.key) for element in elements(record)}
    for other in others:
        if other.uid == record.uid or not other.ports:
            continue
        for element in elements(other):
            if (element.set, element.key) in keys:
                return f"host port {element.key} is in use by pod {other.uid}"
    return ""


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
