"""A range cut into equal parts, of which each is given to one holder only."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network

Network = IPv4Network | IPv6Network
_MOST_BITS = 16
"""Of IPv6 ranges: more parts than that nobody counts through."""


class RangeFull(Exception):
    """Every part is taken."""


class RangeError(ValueError):
    """The ranges that were configured make no sense."""


class Ranges:
    """Parts are given out in turn, so that one just given back rests for a round. Anything that touches a part, larger
    or smaller than it, occupies it."""

    def __init__(self, cluster: Network, mask_size: int) -> None:
        bits = mask_size - cluster.prefixlen
        if bits < 0:
            raise RangeError(f"the mask size of nodes, {mask_size}, is less than that of the cluster's range {cluster}")
        if cluster.version == 6 and bits > _MOST_BITS:
            raise RangeError(f"{cluster} has too many parts of mask size {mask_size}: at most {1 << _MOST_BITS}")
        self.cluster, self.mask_size = cluster, mask_size
        self._count = 1 << bits
        self._step = 1 << (cluster.max_prefixlen - mask_size)
        self._base = int(cluster.network_address)
        self._holders: dict[int, int] = {}
        """How many hold each part that is taken: by hand two nodes may have been given the same."""
        self._next = 0

    def __len__(self) -> int:
        return self._count - len(self._holders)

    def take(self) -> Network:
        """The next free part."""
        for offset in range(self._count):
            index = (self._next + offset) % self._count
            if index not in self._holders:
                self._holders[index] = 1
                self._next = (index + 1) % self._count
                return self._part(index)
        raise RangeFull

    def occupy(self, network: Network) -> None:
        for index in self._touched(network):
            self._holders[index] = self._holders.get(index, 0) + 1

    def release(self, network: Network) -> None:
        for index in self._touched(network):
            left = self._holders.get(index, 0) - 1
            if left > 0:
                self._holders[index] = left
            else:
                self._holders.pop(index, None)

    def _part(self, index: int) -> Network:
        made: Network = type(self.cluster)((self._base + index * self._step, self.mask_size))
        return made

    def _touched(self, network: Network) -> Iterator[int]:
        if network.version != self.cluster.version or not network.overlaps(self.cluster):
            return
        first = max(int(network.network_address), self._base) - self._base
        last = min(int(network.broadcast_address), int(self.cluster.broadcast_address)) - self._base
        yield from range(first // self._step, last // self._step + 1)


def network_of(text: str) -> Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as fault:
        raise RangeError(f"invalid CIDR address: {text}") from fault


__all__ = ["Network", "RangeError", "RangeFull", "Ranges", "network_of"]
