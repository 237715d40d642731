"""The body of a request, and any other bytes that arrive on a connection for one consumer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Protocol

MAX_BUFFERED_BYTES = 256 << 10
"""The number of bytes that may wait for the consumer; beyond it nothing more is read from the connection."""


class BadBody(ConnectionError):
    """The body violates HTTP, or it ends before its length."""


class IncomingBytes:
    """Bytes on their way from a connection to one consumer. `read` returns them as they arrive."""

    __slots__ = ("_error", "_is_paused", "_pause", "_pieces", "_resume", "_size", "_waiter", "is_ended")

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        """`pause` and `resume` stop and continue reading from the connection."""
        self._pause, self._resume = pause, resume
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self.is_ended = False
        """Whether nothing more will arrive, by the proper end or by an error."""

    @property
    def error(self) -> Exception | None:
        return self._error

    def feed(self, data: bytes) -> None:
        if not data or self.is_ended:
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._size > MAX_BUFFERED_BYTES and not self._is_paused:
            self._is_paused = True
            self._pause()
        self._wake()

    def end(self, error: Exception | None = None) -> None:
        """Mark the end. Reading beyond the bytes that have arrived raises the error, if there is one."""
        if not self.is_ended:
            self.is_ended, self._error = True, error
            self._wake()

    def read_nowait(self) -> bytes:
        """Return what has arrived."""
        pieces = self._pieces
        if not pieces:
            return b""
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._size = 0
        if self._is_paused:
            self._is_paused = False
            self._resume()
        return data

    async def read(self) -> bytes:
        """Return what has arrived, waiting for some bytes; empty at the end."""
        while not self._pieces:
            if self.is_ended:
                if self._error is not None:
                    raise self._error
                return b""
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self.read_nowait()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield everything up to the end."""
        while piece := await self.read():
            yield piece

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _ignore() -> None: ...


NO_BYTES = IncomingBytes(_ignore, _ignore)
"""The body of all requests that have none."""
NO_BYTES.end()


class BodyDecoder(Protocol):
    """Finds the end of a body."""

    def decode(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Return the content in the data, and what follows the body; None before its end. Raise BadBody."""


class LengthDecoder:
    """The body of a request with a Content-Length."""

    __slots__ = ("_remaining",)

    def __init__(self, length: int) -> None:
        self._remaining = length

    def decode(self, data: bytes) -> tuple[bytes, bytes | None]:
        remaining = self._remaining
        if len(data) < remaining:
            self._remaining = remaining - len(data)
            return data, None
        self._remaining = 0
        return data[:remaining], data[remaining:]


_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})((?:;[\x09\x20-\x7e\x80-\xff]*)?)")
_TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\x00-\x08\x0a-\x1f\x7f]*")
_FRAMING = re.compile(rb"(?i)(content-length|transfer-encoding|host|content-encoding)[:]")
_MAX_LINE_BYTES, _MAX_TRAILER_BYTES = 4 << 10, 16 << 10
_MAX_EXTENSION_BYTES = 64 << 10


class ChunkDecoder:
    """A chunked body. Extensions and trailers are checked and dropped; all of them together are bounded."""

    __slots__ = ("_extension_bytes", "_input", "_is_trailer", "_remaining", "_trailer_bytes")

    def __init__(self) -> None:
        self._input = bytearray()
        self._remaining = 0
        """The bytes of the current chunk that are missing, with the line break that follows it."""
        self._is_trailer = False
        self._trailer_bytes = self._extension_bytes = 0

    def decode(self, data: bytes) -> tuple[bytes, bytes | None]:
        self._input += data
        content: list[bytes] = []
        position, is_over = self._decode(content)
        del self._input[:position]
        return b"".join(content), bytes(self._input) if is_over else None

    def _decode(self, content: list[bytes]) -> tuple[int, bool]:
        data, position = self._input, 0
        while True:
            if self._remaining:
                position = self._take_chunk(content, position)
                if self._remaining:
                    return position, False
            end = data.find(b"\r\n", position, position + _MAX_LINE_BYTES + 2)
            if end < 0:
                self._check_line(position)
                return position, False
            line = bytes(data[position:end])
            position = end + 2
            if self._is_trailer:
                if not line:
                    return position, True
                self._check_trailer(line)
            else:
                self._begin_chunk(line)

    def _take_chunk(self, content: list[bytes], position: int) -> int:
        data, remaining = self._input, self._remaining
        size = min(len(data) - position, remaining - 2)
        if size > 0:
            content.append(bytes(data[position : position + size]))
            position, remaining = position + size, remaining - size
        if remaining <= 2:
            end = bytes(data[position : position + 2])
            if not b"\r\n".startswith(end):
                raise BadBody("the end of a chunk is missing")
            if len(end) == 2:
                position, remaining = position + 2, 0
        self._remaining = remaining
        return position

    def _begin_chunk(self, line: bytes) -> None:
        match = _CHUNK_LINE.fullmatch(line)
        if match is None:
            raise BadBody("the size of a chunk is malformed")
        size = int(match[1], 16)
        self._extension_bytes += len(match[2])
        if size >= 1 << 60 or self._extension_bytes > _MAX_EXTENSION_BYTES:
            raise BadBody("the size of a chunk is malformed")
        if size:
            self._remaining = size + 2
        else:
            self._is_trailer = True

    def _check_trailer(self, line: bytes) -> None:
        self._trailer_bytes += len(line)
        if self._trailer_bytes > _MAX_TRAILER_BYTES or _TRAILER.fullmatch(line) is None or _FRAMING.match(line):
            raise BadBody("the trailer of the body is malformed or too large")

    def _check_line(self, position: int) -> None:
        """Refuse a line as soon as it is wrong: one that is too long, or that ends without CR."""
        line = bytes(self._input[position : position + _MAX_LINE_BYTES + 2])
        if len(line) > _MAX_LINE_BYTES or b"\n" in line or (line[:1] and not self._is_line_start(line)):
            raise BadBody("the size of a chunk is malformed")

    def _is_line_start(self, line: bytes) -> bool:
        line = line.removesuffix(b"\r")
        if not line or self._is_trailer:
            return True
        return _CHUNK_LINE.fullmatch(line) is not None
