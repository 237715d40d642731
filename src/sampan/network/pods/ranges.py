"""Ranges that nobody else on the machine uses, for clusters that are not told which to take."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

_ROUTES = Path("/proc/thread-self/net/route")


def free_range(candidates: Iterable[str], bridge: str, take: Callable[[str], bool] = lambda each: True) -> str:
    """The first range to which no route leads, except by that bridge (a node that begins anew keeps its own), and that
    can be taken."""
    text = _ROUTES.read_text() if _ROUTES.exists() else ""
    return first_free(candidates, list(routed(text, bridge)), take)


def first_free(
    candidates: Iterable[str], taken: Iterable[IPv4Network], take: Callable[[str], bool] = lambda each: True
) -> str:
    """Where none is free the first of all: using it then says what is in the way."""
    ranges, networks = list(candidates), list(taken)
    unused = (each for each in ranges if not any(IPv4Network(each).overlaps(other) for other in networks))
    free = (each for each in unused if take(each))
    return next(free, ranges[0])


def routed(text: str, bridge: str) -> Iterator[IPv4Network]:
    """From the kernel's list: where routes lead to, but for the default one and those by the bridge."""
    for line in text.splitlines()[1:]:
        columns = line.split()
        if columns and columns[0] != bridge and columns[7] != "00000000":
            yield IPv4Network(f"{_address(columns[1])}/{_address(columns[7])}", strict=False)


def _address(digits: str) -> IPv4Address:
    """The kernel prints the number as this machine has it."""
    return IPv4Address(struct.pack("=I", int(digits, 16)))


__all__ = ["first_free", "free_range", "routed"]
