"""Allocation of pod IP addresses. Pure: allocated addresses are loaded from and stored in records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_interface, ip_network

Network = IPv4Network | IPv6Network


class NoAddressLeft(Exception):
    """All addresses of a pod CIDR are in use."""


def parse_ranges(cidrs: Sequence[str]) -> tuple[Network, ...]:
    """Return the networks, at most one per IP family; raise ValueError if they are invalid."""
    networks = tuple(ip_network(cidr, strict=False) for cidr in cidrs)
    if len({network.version for network in networks}) != len(networks):
        raise ValueError(f"{', '.join(cidrs)}: more than one range of one family")
    for network in networks:
        if network.num_addresses < 4:
            raise ValueError(f"{network} has no room for pods")
    return networks


def gateway(network: Network) -> str:
    """Return the address of the bridge, the first of the network, with its prefix length."""
    return f"{network.network_address + 1}/{network.prefixlen}"


class AddressPool:
    """Allocates addresses round-robin, so that a released address is not reused immediately."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {ip_interface(address).ip for address in taken}
        self._last: dict[int, int] = {
            version: max(int(address) for address in self._taken if address.version == version)
            for version in {address.version for address in self._taken}
        }

    def take(self, networks: Sequence[Network]) -> list[str]:
        """Allocate one address per network, each with its prefix length."""
        allocated = [(self._next(network), network.prefixlen) for network in networks]
        for address, _ in allocated:
            self._taken.add(address)
            self._last[address.version] = int(address)
        return [f"{address}/{length}" for address, length in allocated]

    def give_back(self, addresses: Iterable[str]) -> None:
        self._taken.difference_update(ip_interface(address).ip for address in addresses)

    def _next(self, network: Network) -> IPv4Address | IPv6Address:
        first, last = int(network.network_address) + 2, int(network.broadcast_address) - (network.version == 4)
        begin = self._last.get(network.version, first - 1) + 1
        if not first <= begin <= last:
            begin = first
        make = IPv4Address if network.version == 4 else IPv6Address
        for at in range(begin, begin + min(last - first + 1, len(self._taken) + 1)):
            address = make(at if at <= last else at - last - 1 + first)
            if address not in self._taken:
                return address
        raise NoAddressLeft(f"no address is left in {network}: {last - first + 1} are in use")
