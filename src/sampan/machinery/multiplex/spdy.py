"""A SPDY/3.1 connection over a wire, on either side.

All users of it (kubectl, kubelet and container runtimes) do without its flow control: if one stream is not read, the
whole connection stalls once a bounded buffer is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType

from sampan.machinery.multiplex import spdy_frames as frames
from sampan.machinery.multiplex.spdy_frames import BadSpdyFrame, SpdyFrame
from sampan.machinery.multiplex.wire import PIECE, ByteQueue, Wire

_MAX_STREAMS = 1000
_ANSWER_S = 30.0
_FAREWELL_S = 2.0


class SpdyStream:
    def __init__(self, connection: SpdyConnection, number: int, headers: Mapping[str, str]) -> None:
        self._connection, self.number = connection, number
        self.headers = headers
        self.inbox = ByteQueue()
        self.is_closed = False
        """Whether this side writes no more."""
        self.replied = asyncio.Event()
        """Set when the other side has accepted or rejected the stream."""

    async def read(self) -> bytes:
        return await self.inbox.get()

    async def write(self, data: bytes) -> None:
        for index in range(0, len(data), PIECE):
            if self.is_closed:
                raise ConnectionResetError("the stream is closed")
            await self._connection.send_data(self.number, data[index : index + PIECE])

    async def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            with suppress(ConnectionError):
                await self._connection.send_data(self.number, b"", is_last=True)
            self._connection.forget_if_over(self)

    async def reset(self) -> None:
        if not (self.is_closed and self.inbox.is_ended):
            with suppress(ConnectionError):
                await self._connection.send_reset(self.number, frames.CANCEL)
        self.inbox.discard(ConnectionResetError("the stream was reset"))
        self.mark_reset()
        self._connection.forget_if_over(self)

    def mark_reset(self) -> None:
        """Mark the stream as reset by either side. Data that was received before can still be read: a runtime sends the
        result of a command and resets the stream at once."""
        self.is_closed = True
        self.inbox.end(ConnectionResetError("the stream was reset"))
        self.replied.set()


class SpdyConnection:
    """`async with SpdyConnection(wire, is_server=…):` runs until the block is left; then the wire is closed."""

    def __init__(self, wire: Wire, *, is_server: bool) -> None:
        self._wire, self._is_server = wire, is_server
        self._reader, self._writer = frames.SpdyFrameReader(), frames.SpdyFrameWriter()
        self._streams: dict[int, SpdyStream] = {}
        self._next, self._last_of_peer, self._peer_parity = (2, 0, 1) if is_server else (1, 0, 0)
        self._next_ping = self._next
        self._sending = asyncio.Lock()
        self._accepted: asyncio.Queue[SpdyStream | None] = asyncio.Queue()
        self._is_leaving = False
        """Whether the other side has announced (GOAWAY) that it opens no more streams."""
        self._group = asyncio.TaskGroup()
        self._task: asyncio.Task[None] | None = None
        self.closed = asyncio.Event()
        """Set when the other side has closed or aborted the connection."""

    async def __aenter__(self) -> SpdyConnection:
        await self._group.__aenter__()
        self._task = self._group.create_task(self._receive())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(_FAREWELL_S):
                    await self._send(self._writer.goaway(self._last_of_peer))
                    for stream in self._streams.values():
                        stream.inbox.discard()
                    if kind is None and self._is_server:
                        await self.closed.wait()  # the client closes first: it knows when it has read everything
        finally:
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait([self._task])  # only one task may read the wire
            await self._wire.close()
            await self._group.__aexit__(None, None, None)  # an exception of the block propagates unchanged

    async def accept(self) -> SpdyStream | None:
        """Return the next stream that the other side opens; None when there are no more."""
        return await self._accepted.get()

    async def open(self, headers: Mapping[str, str]) -> SpdyStream:
        stream = SpdyStream(self, self._next, headers)
        self._next += 2
        self._streams[stream.number] = stream
        async with self._sending:  # headers are compressed in the order in which they are sent
            await self._write(self._writer.syn_stream(stream.number, headers))
        try:
            async with asyncio.timeout(_ANSWER_S):
                await stream.replied.wait()
        except TimeoutError:
            raise ConnectionResetError("Timed out waiting for a response to a new stream") from None
        if stream.is_closed:
            raise ConnectionResetError("the stream was refused")
        return stream

    # -- sending -----------------------------------------------------------------------------------------------------

    async def ping(self) -> None:
        """Send a ping, which keeps proxies between the two sides from closing a quiet connection."""
        self._next_ping += 2
        await self._send(self._writer.ping(self._next_ping - 2))

    async def send_data(self, stream: int, data: bytes, *, is_last: bool = False) -> None:
        await self._send(self._writer.data(stream, data, is_last=is_last))

    async def send_reset(self, stream: int, status: int) -> None:
        await self._send(self._writer.rst_stream(stream, status))

    async def _send(self, data: bytes) -> None:
        async with self._sending:
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        if self.closed.is_set():
            raise ConnectionResetError("the SPDY connection is closed")
        await self._wire.write(data)

    def forget_if_over(self, stream: SpdyStream) -> None:
        if stream.is_closed and stream.inbox.is_ended:
            self._streams.pop(stream.number, None)

    # -- receiving ---------------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        error: Exception | None = None
        try:
            while data := await self._wire.read():
                for frame in self._reader.feed(data):
                    await self._handle_frame(frame)
        except ConnectionError as broken:
            error = broken
        except BadSpdyFrame as bad:
            error = ConnectionResetError(str(bad))
        finally:
            self.closed.set()
            self._accepted.put_nowait(None)
            for stream in list(self._streams.values()):
                stream.inbox.end(error)
                stream.replied.set()

    async def _handle_frame(self, frame: SpdyFrame) -> None:
        if frame.kind == frames.SYN_STREAM:
            await self._accept_stream(frame)
            return
        if frame.kind == frames.PING:
            if frame.stream % 2 == self._peer_parity:
                await self._send(self._writer.ping(frame.stream))
            return
        if frame.kind == frames.GOAWAY:
            if not self._is_leaving:
                self._is_leaving = True
                self._accepted.put_nowait(None)
            return
        stream = self._streams.get(frame.stream)
        if stream is None:
            return
        if frame.kind == frames.RST_STREAM:
            stream.mark_reset()
            self.forget_if_over(stream)
            return
        if frame.kind == frames.SYN_REPLY:
            stream.replied.set()
        await stream.inbox.put(frame.data)
        if frame.is_last:
            stream.inbox.end()
            self.forget_if_over(stream)

    async def _accept_stream(self, frame: SpdyFrame) -> None:
        number = frame.stream
        if number % 2 != self._peer_parity or number <= self._last_of_peer:
            raise BadSpdyFrame(f"invalid SPDY stream ID {number}")
        self._last_of_peer = number
        # Streams that are opened and reset at once are no longer in `_streams`, but still wait to be accepted.
        if len(self._streams) >= _MAX_STREAMS or self._accepted.qsize() >= _MAX_STREAMS:
            await self.send_reset(number, frames.REFUSED_STREAM)
            return
        stream = self._streams[number] = SpdyStream(self, number, frame.headers)
        if frame.is_last:
            stream.inbox.end()
        async with self._sending:
            await self._write(self._writer.syn_reply(number, {}))
        self._accepted.put_nowait(stream)
