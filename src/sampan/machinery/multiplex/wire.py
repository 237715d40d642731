"""A connection as bytes, and a bounded buffer between its reader and a consumer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol

PIECE = 64 << 10
MAX_BUFFERED_BYTES = 256 << 10
"""The maximum number of bytes that wait for a consumer; beyond it, reading from the other side stops."""


class Wire(Protocol):
    async def read(self) -> bytes:
        """Return the received data; empty at the end. Raise ConnectionError if the connection broke off."""

    async def write(self, data: bytes) -> None:
        """Write data and wait until there is room for more. Raise ConnectionError if the other side is gone."""

    async def close(self) -> None:
        """Close the connection after the data that was written has been sent."""


_FAREWELL_S = 1.0


async def close_writer(writer: asyncio.StreamWriter) -> None:
    """Close a connection for good. Written data is still sent, but the other side has only a moment for its part of the
    TLS shutdown: a transport that still waits for the other side when its event loop stops would never be closed."""
    writer.close()
    try:
        async with asyncio.timeout(_FAREWELL_S):
            await writer.wait_closed()
    except TimeoutError:
        writer.transport.abort()
    except OSError:
        return


class StreamWire:
    """A wire over asyncio's streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(PIECE)

    async def write(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        await close_writer(self._writer)


class ByteQueue:
    """A bounded buffer of bytes between two tasks. `put` waits while the buffer is full."""

    def __init__(self, maximum: int = MAX_BUFFERED_BYTES) -> None:
        self._pieces: list[bytes] = []
        self._size, self._maximum = 0, maximum
        self._is_ended = False
        self._error: Exception | None = None
        self._come, self._room = asyncio.Event(), asyncio.Event()
        self._room.set()

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    async def put(self, data: bytes) -> None:
        """Add data, or drop it if the end is already marked. Wait while the buffer is full."""
        self.put_nowait(data)
        if self._size >= self._maximum and not self._is_ended:
            self._room.clear()
            await self._room.wait()

    def put_nowait(self, data: bytes) -> None:
        if data and not self._is_ended:
            self._pieces.append(data)
            self._size += len(data)
            self._come.set()

    def end(self, error: Exception | None = None) -> None:
        """Mark the end; reading past the remaining data raises the exception, if there is one."""
        if not self._is_ended:
            self._is_ended, self._error = True, error
        self._come.set()
        self._room.set()

    def discard(self, error: Exception | None = None) -> None:
        """Drop the data and mark the end; reading raises the exception, if there is one."""
        self._pieces.clear()
        self._size = 0
        self.end(error)

    async def get(self) -> bytes:
        """Return all buffered data, waiting for some; empty at the end."""
        while not self._pieces:
            if self._is_ended:
                if self._error is not None:
                    raise self._error
                return b""
            self._come.clear()
            await self._come.wait()
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        self._room.set()
        return data


async def copy_data(source: Wire, target: Wire) -> None:
    """Copy everything from one wire to the other, until either is closed."""
    with suppress(ConnectionError):
        while data := await source.read():
            await target.write(data)


async def join_wires(left: Wire, right: Wire) -> None:
    """Copy in both directions until one side is closed, then close both."""
    try:
        async with asyncio.TaskGroup() as group:
            both = (group.create_task(copy_data(left, right)), group.create_task(copy_data(right, left)))
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in both:
                task.cancel()
    finally:
        try:
            await right.close()
        finally:
            await left.close()
