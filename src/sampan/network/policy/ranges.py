"""Ranges of addresses and ports, as the elements of nftables interval sets, which must not overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address

from sampan.api.addresses import Network, parse_network

Range = tuple[int, int]
"""The first and the last number of a range."""

MAX_RANGES = 20_000
"""The largest number of address ranges that a rule may have. Traffic of further ranges is not allowed."""


def merge(ranges: Iterable[Range]) -> list[Range]:
    """Return the same numbers as the fewest ranges, in ascending order."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return merged


def subtract(whole: Range, holes: Iterable[Range]) -> list[Range]:
    """Return the parts of a range that are in none of the holes."""
    parts, start = [], whole[0]
    for first, last in merge(holes):
        if first > start:
            parts.append((start, min(first - 1, whole[1])))
        start = max(start, last + 1)
        if start > whole[1]:
            return parts
    return [*parts, (start, whole[1])]


def block_ranges(blocks: Iterable[tuple[str, Sequence[str]]]) -> dict[int, tuple[Range, ...]]:
    """Return the addresses of CIDRs without their exceptions, as ranges by IP version.

    An exception applies to its own CIDR only: an address that another CIDR contains is part of the result.
    """
    ranges: dict[int, list[Range]] = {4: [], 6: []}
    for cidr, exceptions in blocks:
        network = parse_network(cidr)
        if network is not None:
            others = [item for item in map(parse_network, exceptions) if item is not None]
            holes = [_range(item) for item in others if item.version == network.version]
            ranges[network.version] += subtract(_range(network), holes)
    return {version: tuple(merge(items)[:MAX_RANGES]) for version, items in ranges.items() if items}


def range_text(version: int, addresses: Range) -> str:
    """Return a range of addresses as an element of an interval set."""
    make = IPv4Address if version == 4 else IPv6Address
    first, last = addresses
    return str(make(first)) if first == last else f"{make(first)}-{make(last)}"


def _range(network: Network) -> Range:
    return int(network.network_address), int(network.broadcast_address)
