"""The protocol of the monitor's socket: frames with a length, a kind and a content. Requests and responses are JSON."""

from __future__ import annotations

import json
import struct
from typing import Any

JSON, STDOUT, STDERR, STDIN, END_OF_STDIN, RESIZE = range(6)
HEAD = struct.Struct(">IB")
MAX_FRAME_BYTES = 4 << 20
"""The maximum size of a frame in bytes."""


class BadMonitorFrame(ValueError):
    """The peer does not speak this protocol."""


def frame(kind: int, content: bytes) -> bytes:
    return HEAD.pack(len(content), kind) + content


def message(value: dict[str, Any]) -> bytes:
    return frame(JSON, json.dumps(value, separators=(",", ":")).encode())


class MonitorFrames:
    """Splits a byte stream into frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        self._data += data
        frames = []
        while len(self._data) >= HEAD.size:
            size, kind = HEAD.unpack_from(self._data)
            if size > MAX_FRAME_BYTES:
                raise BadMonitorFrame(f"a frame of {size} bytes")
            end = HEAD.size + size
            if len(self._data) < end:
                break
            frames.append((kind, bytes(self._data[HEAD.size : end])))
            del self._data[:end]
        return frames
