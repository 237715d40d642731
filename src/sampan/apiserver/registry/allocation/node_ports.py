"""The allocator of node ports: a bitmap in the store, whose lower band is for requests that name a port. Here is also
the order in which `addresses` tries the addresses of a network, which has such a band too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network
from random import Random
from typing import TypeVar

from sampan.api.codec import json
from sampan.api.types.core_v1 import RangeAllocation
from sampan.apiserver.registry.allocation.ranges import AllocationError, AllocatorFull
from sampan.storage.backend import Backend, StoreConflict

_NETWORK_BAND = (16, 256, 16)
_PORT_BAND = (16, 128, 32)


def usable_range(network: IPv4Network | IPv6Network) -> tuple[int, int]:
    """Return the first and the last address, as numbers, that a service can get."""
    first, last = int(network.network_address) + 1, int(network.broadcast_address)
    return first, last - 1 if network.version == 4 else last


def generate_candidate_addresses(network: IPv4Network | IPv6Network, random: Random) -> Iterator[int]:
    """Yield the addresses of a network as numbers, those of the upper band first."""
    first, last = usable_range(network)
    middle = min(first + _compute_lower_band_size(network.num_addresses, *_NETWORK_BAND), last + 1)
    yield from _cycle_from_random(middle, last, random)
    yield from _cycle_from_random(first, middle - 1, random)


def generate_candidate_ports(ports: range, random: Random) -> Iterator[int]:
    middle = ports.start + _compute_lower_band_size(len(ports), *_PORT_BAND)
    yield from _cycle_from_random(middle, ports.stop - 1, random)
    yield from _cycle_from_random(ports.start, middle - 1, random)


def _compute_lower_band_size(size: int, minimum: int, maximum: int, step: int) -> int:
    """Return the size of the lower band of a range."""
    return 0 if size <= minimum else max(minimum, min(size // step, maximum))


def _cycle_from_random(first: int, last: int, random: Random) -> Iterator[int]:
    """Yield all numbers from first to last, starting at a random one."""
    if first > last:
        return
    start = random.randint(first, last)
    number = start
    while number <= last:
        yield number
        number += 1
    yield from range(first, start)


_PROTOBUF = b"k8s\x00"


class PortBitmap:
    """The allocated ports of a range. `is_changed` is whether it was modified since it was read."""

    def __init__(self, ports: range, bits: int = 0) -> None:
        self._ports, self._bits = ports, bits
        self.is_changed = False

    @classmethod
    def decode(cls, ports: range, value: bytes | None) -> PortBitmap:
        """Return the bitmap of a stored record, empty for None. A record of another range keeps the common ports."""
        if value is None:
            return cls(ports)
        record = _read(value)
        bits, text = int.from_bytes(record.data or b"", "big"), _text(ports)
        if record.range == text:
            return cls(ports, bits)
        start = int(record.range.partition("-")[0] or 0)
        moved = cls(ports)
        moved.add(start + offset for offset in range(bits.bit_length()) if bits >> offset & 1)
        return moved

    def encode(self) -> bytes:
        data = self._bits.to_bytes((self._bits.bit_length() + 7) // 8, "big")
        return json.encode(RangeAllocation(range=_text(self._ports), data=data))

    def __contains__(self, port: int) -> bool:
        return port in self._ports and bool(self._bits >> (port - self._ports.start) & 1)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the allocated ports."""
        return (port for port in self._ports if port in self)

    def take(self, port: int) -> int:
        if port not in self._ports:
            valid = f"The range of valid ports is {_text(self._ports)}"
            raise AllocationError(f"provided port is not in the valid range. {valid}")
        if port in self:
            raise AllocationError("provided port is already allocated")
        self._set(self._bits | 1 << (port - self._ports.start))
        return port

    def take_any(self, random: Random) -> int:
        for port in generate_candidate_ports(self._ports, random):
            if port not in self:
                return self.take(port)
        raise AllocatorFull

    def add(self, ports: Iterable[int]) -> None:
        """Allocate those ports that are inside the range and not allocated yet."""
        for port in ports:
            if port in self._ports and port not in self:
                self.take(port)

    def release(self, ports: Iterable[int]) -> None:
        for port in ports:
            if port in self:
                self._set(self._bits & ~(1 << (port - self._ports.start)))

    def _set(self, bits: int) -> None:
        self._bits = bits
        self.is_changed = True


def _text(ports: range) -> str:
    return f"{ports.start}-{ports.stop - 1}"


def _read(value: bytes) -> RangeAllocation:
    if value.startswith(_PROTOBUF):
        from sampan.api.codec import protobuf

        value = json.encode(protobuf.decode(value))
    return json.read(value, RangeAllocation)


KEY = "/registry/ranges/servicenodeports"

T = TypeVar("T")


class NodePortAllocator:
    def __init__(self, *, backend: Backend, ports: range, random: Random) -> None:
        self._backend, self._ports, self.random = backend, ports, random

    async def change(self, decide: Callable[[PortBitmap], T], *, dry_run: bool = False) -> T:
        """Store the changes that `decide` makes to the bitmap, and return its result.

        `decide` is called again after a conflict with another server, so it must not have other side effects.
        """
        while True:
            entry, _ = await self._backend.get(KEY)
            bitmap = PortBitmap.decode(self._ports, entry.value if entry is not None else None)
            decided = decide(bitmap)
            if dry_run or not bitmap.is_changed:
                return decided
            try:
                await self._backend.put(KEY, bitmap.encode(), expected=entry.revision if entry is not None else 0)
            except StoreConflict:
                continue
            return decided

    async def release(self, ports: Iterable[int]) -> None:
        released = tuple(ports)
        if released:
            await self.change(lambda bitmap: bitmap.release(released))
