"""Addresses of hollow pods, allocated in turn, so that a released address is not reused at once."""

import ipaddress

from sampan.api.addresses import parse


class AddressRange:
    def __init__(self, cidr: str) -> None:
        network = ipaddress.ip_network(cidr, strict=False)
        self.cidr = cidr
        self._first = int(network.network_address) + 1
        self._count = max(network.num_addresses - 2, 1)
        self._make = type(network.network_address)
        self._used: set[int] = set()
        self._next = 0

    def take(self) -> str:
        """Return an unused address, or an empty string if all are in use."""
        if len(self._used) >= self._count:
            return ""
        while self._next in self._used:
            self._next = (self._next + 1) % self._count
        index = self._next
        self._used.add(index)
        self._next = (index + 1) % self._count
        return str(self._make(self._first + index))

    def claim(self, address: str) -> bool:
        """Allocate this address. Return False if it is in use or outside of the CIDR."""
        index = self._index(address)
        if index is None or index in self._used:
            return False
        self._used.add(index)
        return True

    def give_back(self, address: str) -> None:
        index = self._index(address)
        if index is not None:
            self._used.discard(index)

    def _index(self, address: str) -> int | None:
        ip = parse(address)
        if not isinstance(ip, self._make):
            return None
        index = int(ip) - self._first
        return index if 0 <= index < self._count else None
