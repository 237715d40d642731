"""Selection of CIDRs that are not in use on this machine, for clusters that do not configure any."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

_ROUTES = Path("/proc/thread-self/net/route")


def free_range(candidates: Iterable[str], bridge: str, take: Callable[[str], bool] = lambda cidr: True) -> str:
    """Return the first CIDR without a route that `take` accepts. Routes through the bridge itself are ignored."""
    text = _ROUTES.read_text() if _ROUTES.exists() else ""
    return first_free(candidates, list(routed(text, bridge)), take)


def first_free(
    candidates: Iterable[str], taken: Iterable[IPv4Network], take: Callable[[str], bool] = lambda cidr: True
) -> str:
    """Return the first unused CIDR, or the first of all if none is unused: applying it then reports the conflict."""
    ranges, networks = list(candidates), list(taken)
    unused = (cidr for cidr in ranges if not any(IPv4Network(cidr).overlaps(other) for other in networks))
    free = (cidr for cidr in unused if take(cidr))
    return next(free, ranges[0])


def routed(text: str, bridge: str) -> Iterator[IPv4Network]:
    """Yield the destinations of routes in /proc/net/route, except the default route and routes through the bridge."""
    for line in text.splitlines()[1:]:
        columns = line.split()
        if columns and columns[0] != bridge and columns[7] != "00000000":
            yield IPv4Network(f"{_address(columns[1])}/{_address(columns[7])}", strict=False)


def _address(digits: str) -> IPv4Address:
    """Decode an address, which the kernel prints as a number in host byte order."""
    return IPv4Address(struct.pack("=I", int(digits, 16)))
