"""The record of allocated node ports: a bitmap in the format of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from sampan.api.codec import json
from sampan.api.types.core_v1 import RangeAllocation
from sampan.apiserver.registry.allocation import bands
from sampan.apiserver.registry.allocation.failures import AllocationError, RangeFull

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
        for port in bands.of_ports(self._ports, random):
            if port not in self:
                return self.take(port)
        raise RangeFull

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
