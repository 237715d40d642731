"""Networks of which no two overlap.

Nodes report their pod CIDRs and addresses themselves. A hostile node could report those of other nodes, or all
addresses, to receive their traffic. A network that overlaps one of an earlier node is therefore refused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from sampan.api.addresses import Network
from sampan.network.policy.ranges import Range, merge


class DisjointNetworks:
    """Networks by IP version, in the order of their addresses."""

    def __init__(self, networks: Iterable[Network] = ()) -> None:
        ranges: dict[int, list[Range]] = {4: [], 6: []}
        for network in networks:
            ranges[network.version].append(_range(network))
        self._ranges = {version: merge(items) for version, items in ranges.items()}

    def add(self, network: Network) -> bool:
        """Add a network, and return True; return False if it overlaps one that was added before."""
        ranges, (first, last) = self._ranges[network.version], _range(network)
        index = bisect_left(ranges, (first, first))
        is_free = (index == 0 or ranges[index - 1][1] < first) and (index == len(ranges) or last < ranges[index][0])
        if is_free:
            ranges.insert(index, (first, last))
        return is_free


def is_within(network: Network, cidrs: Sequence[Network]) -> bool:
    """Return whether a network is part of one of the CIDRs; without CIDRs, every network is."""
    same_version = [cidr for cidr in cidrs if cidr.version == network.version]
    return not cidrs or any(network.subnet_of(cidr) for cidr in same_version)  # type: ignore[arg-type]


def _range(network: Network) -> Range:
    return int(network.network_address), int(network.broadcast_address)
