"""Allocation of equally sized CIDR blocks from a cluster CIDR."""

from __future__ import annotations

from collections.abc import Hashable
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
Network = IPv4Network | IPv6Network
_MAX_BLOCK_BITS = 16
"""The maximum number of bits between cluster and node prefix for IPv6, which bounds the number of blocks."""
_WIDE = 256
"""A node may have a pod CIDR as large as the cluster's. Networks that cover more blocks than this are tracked as one
interval instead of block by block.
"""


class CidrRangeFull(Exception):
    """All blocks are allocated."""


class InvalidCidr(ValueError):
    """The configured CIDRs are invalid."""


class CidrSets:
    """The blocks of one cluster CIDR.

    Blocks are allocated round-robin, so that a released block is not reused immediately. Any network that overlaps a
    block occupies it, whether larger or smaller than the block.
    """

    def __init__(self, cluster: Network, mask_size: int) -> None:
        bits = mask_size - cluster.prefixlen
        if bits < 0:
            raise InvalidCidr(
                f"the mask size of nodes, {mask_size}, is less than that of the cluster's range {cluster}"
            )
        if cluster.version == 6 and bits > _MAX_BLOCK_BITS:
            raise InvalidCidr(f"{cluster} has too many parts of mask size {mask_size}: at most {1 << _MAX_BLOCK_BITS}")
        self.cluster, self.mask_size = cluster, mask_size
        self._count = 1 << bits
        self._step = 1 << (cluster.max_prefixlen - mask_size)
        self._base = int(cluster.network_address)
        self._holders: dict[int, int] = {}
        """Number of holders per occupied block. With manually assigned pod CIDRs two nodes may hold the same block."""
        self._wide: dict[tuple[int, int], int] = {}
        """Number of holders per interval (first and last block) that is too large to be tracked block by block."""
        self._next = 0

    def __len__(self) -> int:
        covered, end = 0, -1
        for first, last in sorted(self._wide):
            covered += max(last - max(first, end + 1) + 1, 0)
            end = max(end, last)
        return self._count - covered - sum(self._last_wide_block(index) is None for index in self._holders)

    def take(self) -> Network:
        """Allocate and return the next free block; raise CidrRangeFull if there is none."""
        offset = 0
        while offset < self._count:
            index = (self._next + offset) % self._count
            if index in self._holders:
                offset += 1
            elif (end := self._last_wide_block(index)) is not None:
                offset += end - index + 1
            else:
                self._holders[index] = 1
                self._next = (index + 1) % self._count
                return self._part(index)
        raise CidrRangeFull

    def occupy(self, network: Network) -> None:
        touched = self._blocks_of(network)
        if len(touched) > _WIDE:
            span = touched[0], touched[-1]
            self._wide[span] = self._wide.get(span, 0) + 1
            return
        for index in touched:
            self._holders[index] = self._holders.get(index, 0) + 1

    def release(self, network: Network) -> None:
        touched = self._blocks_of(network)
        if len(touched) > _WIDE:
            _release(self._wide, (touched[0], touched[-1]))
            return
        for index in touched:
            _release(self._holders, index)

    def _last_wide_block(self, index: int) -> int | None:
        """Return the last block of the intervals that contain this block, or None if there are none."""
        return max((last for first, last in self._wide if first <= index <= last), default=None)

    def _part(self, index: int) -> Network:
        network: Network = type(self.cluster)((self._base + index * self._step, self.mask_size))
        return network

    def _blocks_of(self, network: Network) -> range:
        if network.version != self.cluster.version or not network.overlaps(self.cluster):
            return range(0)
        first = max(int(network.network_address), self._base) - self._base
        last = min(int(network.broadcast_address), int(self.cluster.broadcast_address)) - self._base
        return range(first // self._step, last // self._step + 1)


def _release(holders: dict[K, int], key: K) -> None:
    remaining = holders.get(key, 0) - 1
    if remaining > 0:
        holders[key] = remaining
    else:
        holders.pop(key, None)


def network_of(text: str) -> Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise InvalidCidr(f"invalid CIDR address: {text}") from error
