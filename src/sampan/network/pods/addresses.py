"""Allocation of pod IP addresses, and selection of CIDRs for clusters that do not configure any.

The selected CIDRs are not in use on this machine. Everything is pure except the reading of routes: allocated addresses
are loaded from and stored in records.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_interface, ip_network
from pathlib import Path

Network = IPv4Network | IPv6Network


class NoAddressLeft(Exception):
    """All addresses of a pod CIDR are in use."""


def parse_cidrs(cidrs: Sequence[str]) -> tuple[Network, ...]:
    """Return the networks, at most one per IP family; raise ValueError if they are invalid."""
    networks = tuple(ip_network(cidr, strict=False) for cidr in cidrs)
    if len({network.version for network in networks}) != len(networks):
        raise ValueError(f"{', '.join(cidrs)}: at most one CIDR per IP family is allowed")
    for network in networks:
        if network.num_addresses < 4:
            raise ValueError(f"{network} has no room for pods")
    return networks


def gateway(network: Network) -> str:
    """Return the address of the bridge, the first of the network, with its prefix length."""
    return f"{network.network_address + 1}/{network.prefixlen}"


class AddressPool:
    """Allocates addresses round-robin, so that a released address is not reused immediately."""

    def __init__(self, allocated: Iterable[str]) -> None:
        self._allocated = {ip_interface(address).ip for address in allocated}
        self._last: dict[int, int] = {
            version: max(int(address) for address in self._allocated if address.version == version)
            for version in {address.version for address in self._allocated}
        }

    def allocate(self, networks: Sequence[Network]) -> list[str]:
        """Allocate one address per network, each with its prefix length."""
        allocated = [(self._find_free_address(network), network.prefixlen) for network in networks]
        for address, _ in allocated:
            self._allocated.add(address)
            self._last[address.version] = int(address)
        return [f"{address}/{length}" for address, length in allocated]

    def release(self, addresses: Iterable[str]) -> None:
        self._allocated.difference_update(ip_interface(address).ip for address in addresses)

    def _find_free_address(self, network: Network) -> IPv4Address | IPv6Address:
        first, last = int(network.network_address) + 2, int(network.broadcast_address) - (network.version == 4)
        start = self._last.get(network.version, first - 1) + 1
        if not first <= start <= last:
            start = first
        make = IPv4Address if network.version == 4 else IPv6Address
        for index in range(start, start + min(last - first + 1, len(self._allocated) + 1)):
            address = make(index if index <= last else index - last - 1 + first)
            if address not in self._allocated:
                return address
        raise NoAddressLeft(f"no address is left in {network}: {last - first + 1} are in use")


_ROUTES = Path("/proc/thread-self/net/route")


def free_cidr(candidates: Iterable[str], bridge: str, take: Callable[[str], bool] = lambda cidr: True) -> str:
    """Return the first CIDR without a route that `take` accepts. Routes through the bridge itself are ignored."""
    text = _ROUTES.read_text() if _ROUTES.exists() else ""
    return first_free_cidr(candidates, list(parse_routes(text, bridge)), take)


def first_free_cidr(
    candidates: Iterable[str], routes: Iterable[IPv4Network], take: Callable[[str], bool] = lambda cidr: True
) -> str:
    """Return the first unused CIDR, or the first of all if none is unused: applying it then reports the conflict."""
    cidrs, networks = list(candidates), list(routes)
    unused = (cidr for cidr in cidrs if not any(IPv4Network(cidr).overlaps(other) for other in networks))
    free = (cidr for cidr in unused if take(cidr))
    return next(free, cidrs[0])


def parse_routes(text: str, bridge: str) -> Iterator[IPv4Network]:
    """Yield the destinations of routes in /proc/net/route, except the default route and routes through the bridge."""
    for line in text.splitlines()[1:]:
        columns = line.split()
        if columns and columns[0] != bridge and columns[7] != "00000000":
            yield IPv4Network(f"{_address(columns[1])}/{_address(columns[7])}", strict=False)


def _address(digits: str) -> IPv4Address:
    """Decode an address, which the kernel prints as a number in host byte order."""
    return IPv4Address(struct.pack("=I", int(digits, 16)))
