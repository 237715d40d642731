"""Exec and attach streams of the Docker Engine. With a terminal they carry raw bytes, otherwise frames with an 8-byte
header that contains the channel and the length."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress

from sampan.machinery.multiplex.wire import close_writer
from sampan.runtimes.docker.client import Streams
from sampan.runtimes.streams import STDERR, STDOUT

_READ = 64 << 10
_HEAD = 8

Resize = Callable[[int, int], Awaitable[None]]


class Pieces:
    """Splits a multiplexed stream into frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        self._data += data
        pieces = []
        while len(self._data) >= _HEAD:
            channel, size = struct.unpack_from(">BxxxI", self._data)
            if len(self._data) < _HEAD + size:
                break
            pieces.append((STDERR if channel == STDERR else STDOUT, bytes(self._data[_HEAD : _HEAD + size])))
            del self._data[: _HEAD + size]
        return pieces


class DockerStream:
    """A process with attached streams; see `streams.ProcessStream`. `ended` returns the exit code after the end of the
    output; `given_up` is called if the stream is closed before that."""

    def __init__(
        self,
        streams: Streams,
        *,
        has_stdin: bool,
        has_tty: bool,
        resize: Resize,
        ended: Callable[[], Awaitable[int]],
        given_up: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._reader, self._writer = streams
        self._has_stdin, self._has_tty = has_stdin, has_tty
        self._resize, self._ended, self._given_up = resize, ended, given_up
        self._pieces = Pieces()
        self._waiting: list[tuple[int, bytes]] = []
        self._is_over = False

    async def read(self) -> tuple[int, bytes] | None:
        while not self._waiting:
            if self._is_over or not (data := await self._more()):
                self._is_over = True
                return None
            self._waiting = [(STDOUT, data)] if self._has_tty else self._pieces.feed(data)
        return self._waiting.pop(0)

    async def _more(self) -> bytes:
        try:
            return await self._reader.read(_READ)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        if self._has_stdin and not self._writer.is_closing():
            with suppress(OSError):
                self._writer.write(data)
                await self._writer.drain()

    async def close_input(self) -> None:
        if self._has_stdin and self._writer.can_write_eof() and not self._writer.is_closing():
            with suppress(OSError):
                self._writer.write_eof()

    async def resize(self, width: int, height: int) -> None:
        if self._has_tty:
            await self._resize(width, height)

    async def wait(self) -> int:
        while await self.read() is not None:
            pass
        return await self._ended()

    async def close(self) -> None:
        is_given_up, self._is_over = not self._is_over, True
        await close_writer(self._writer)
        if is_given_up and self._given_up is not None:
            await self._given_up()
