"""Allocation of pod IP addresses. Pure: allocated addresses are loaded from and stored in records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_interface, ip_network

Network = IPv4Network | IPv6Network


class NoAddressLeft(Exception):
    """All addresses of a pod CIDR are in use."""


def parse_ranges(cidrs: Sequence[str]) -> tuple[Network, ...]:
    """Return the networks, at most one per IP family; raise ValueError if they are invalid."""
    found = tuple(ip_network(cidr, strict=False) for cidr in cidrs)
    if len({each.version for each in found}) != len(found):
        raise ValueError(f"{', '.join(cidrs)}: more than one range of one family")
    for each in found:
        if each.num_addresses < 4:
            raise ValueError(f"{each} has no room for pods")
    return found


def gateway(network: Network) -> str:
    """Return the address of the bridge, the first of the network, with its prefix length."""
    return f"{network.network_address + 1}/{network.prefixlen}"


class AddressPool:
    """Allocates addresses round-robin, so that a released address is not reused immediately."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {ip_interface(each).ip for each in taken}
        self._last: dict[int, int] = {
            version: max(int(each) for each in self._taken if each.version == version)
            for version in {each.version for each in self._taken}
        }

    def take(self, networks: Sequence[Network]) -> list[str]:
        """Allocate one address per network, each with its prefix length."""
        found = [(self._next(each), each.prefixlen) for each in networks]
        for address, _ in found:
            self._taken.add(address)
            self._last[address.version] = int(address)
        return [f"{address}/{length}" for address, length in found]

    def give_back(self, addresses: Iterable[str]) -> None:
        self._taken.difference_update(ip_interface(each).ip for each in addresses)

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


__all__ = ["AddressPool", "Network", "NoAddressLeft", "gateway", "parse_ranges"]
