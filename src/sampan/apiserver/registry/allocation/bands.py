"""The order in which a range is searched for a free address or port.

Dynamic allocation prefers the upper band of a range, so that the lower band stays free for static allocation (KEP-3070,
KEP-3668).
"""

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network
from random import Random

_NETWORK_BAND = (16, 256, 16)
_PORT_BAND = (16, 128, 32)


def usable(network: IPv4Network | IPv6Network) -> tuple[int, int]:
    """Return the first and the last address, as numbers, that a service can get."""
    first, last = int(network.network_address) + 1, int(network.broadcast_address)
    return first, last - 1 if network.version == 4 else last


def of_network(network: IPv4Network | IPv6Network, random: Random) -> Iterator[int]:
    """Yield the addresses of a network as numbers, those of the upper band first."""
    first, last = usable(network)
    middle = min(first + _lower(network.num_addresses, *_NETWORK_BAND), last + 1)
    yield from _round(middle, last, random)
    yield from _round(first, middle - 1, random)


def of_ports(ports: range, random: Random) -> Iterator[int]:
    middle = ports.start + _lower(len(ports), *_PORT_BAND)
    yield from _round(middle, ports.stop - 1, random)
    yield from _round(ports.start, middle - 1, random)


def _lower(size: int, least: int, most: int, step: int) -> int:
    """Return the size of the lower band of a range."""
    return 0 if size <= least else max(least, min(size // step, most))


def _round(first: int, last: int, random: Random) -> Iterator[int]:
    """Yield all numbers from first to last, starting at a random one."""
    if first > last:
        return
    start = random.randint(first, last)
    number = start
    while number <= last:
        yield number
        number += 1
    yield from range(first, start)
