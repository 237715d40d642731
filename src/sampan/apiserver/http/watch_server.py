"""Watches over HTTP: frames of the watch cache, written to connections as they arrive.

The task of the request only opens the watch and waits for its end; events are written by the pump, for all streams that
have some at once. A client that does not keep up gets nothing more until it has read what was written. It is
disconnected when too much is queued for it meanwhile, when it has not read for too long, or when all watchers together
exceed the memory budget of the server and it has not read for the longest time.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from sampan.api.limits import WATCH_SEND_BYTES, WATCHER_CONGESTED_S
from sampan.apiserver.http import websocket
from sampan.apiserver.http.pump import Pump
from sampan.apiserver.metrics import RequestMetrics, WatchCount
from sampan.apiserver.request.call import Call
from sampan.apiserver.response.renderer import wants_gzip
from sampan.apiserver.response.responses import WatchResponse, translate_storage_error
from sampan.apiserver.response.watch_frames import UnsupportedOutputFormat, WatchFrames
from sampan.host.http import HttpConnection, HttpRequest, StreamResponse
from sampan.machinery import errors
from sampan.storage.cacher import CacheEvent, CacheItem, FrameEncoder, WatchBudget, Watcher
from sampan.storage.cacher.errors import CacheError, TooLargeVersion, TooSlow, VersionExpired

_FAREWELL_S = 5.0
"""How long writing the end of a stream may take."""
_GZIP_LEVEL = 1
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""The head of a gzip stream without a name, a time and a system."""
_LAST_BLOCK = b"\x03\x00"
"""An empty deflate block that ends its stream."""
_JOINED_BYTES = 4096
"""Frames smaller than this on average are joined: a write costs more than copying so many bytes."""


class WatchServer:
    """All watches of a server."""

    def __init__(
        self,
        *,
        metrics: RequestMetrics,
        budget: WatchBudget,
        congested_s: float = WATCHER_CONGESTED_S,
        compresses_lists: bool = False,
    ) -> None:
        """`compresses_lists` is whether watches that begin with a list are compressed for clients that accept gzip, as
        the gate WatchListCompression says."""
        self._metrics, self._compresses_lists = metrics, compresses_lists
        self._budget, self._congested_s = budget, congested_s
        self._pump = Pump(is_urgent=lambda: budget.is_under_pressure)
        self._watchers: dict[Watcher, None] = {}

    def end_all(self) -> None:
        """End every watch with a proper end of its stream, when the server shuts down."""
        for watcher in list(self._watchers):
            watcher.end()

    async def serve(
        self,
        request: HttpRequest,
        response: StreamResponse,
        call: Call,
        watch: WatchResponse,
        frames: WatchFrames,
    ) -> None:
        """Stream a watch. `response` has all headers except the Content-Type and those of a compressed response."""
        response.headers["Content-Type"] = frames.content_type
        is_chunked = request.version == (1, 1)
        if self._compresses_lists and _wants_compressed_list(call):
            response.headers["Content-Encoding"] = "gzip"
            response.headers.add("Vary", "Accept-Encoding")
            wire_frames: WatchFrames = CompressedWatchFrames(frames, is_chunked=is_chunked)
            frames = wire_frames
        else:
            wire_frames = frames.wrap_frames(ChunkEncoder) if is_chunked else frames
        try:
            async with watch.watcher as watcher:
                _release_seats(call)
                _send_head(request, response)
                await self._send(request, call, watcher, wire_frames)
                error, is_stalled = watcher.error, watcher.blocked_at is not None
        except (VersionExpired, TooLargeVersion) as cache_error:
            _send_head(request, response)
            error, is_stalled = cache_error, False
        except CacheError as cache_error:
            raise watch_error(cache_error, call) from cache_error
        if is_stalled and isinstance(error, TooSlow):
            request.abort()  # the client does not read, so the end of the stream could not be sent
        else:
            last = frames.error(watch_error(error, call).status) if sends_error_event(error) else b""
            await _end(request, response, last + frames.end())

    async def serve_websocket(
        self, request: HttpRequest, call: Call, watch: WatchResponse, frames: WatchFrames
    ) -> None:
        try:
            async with watch.watcher as watcher:
                _release_seats(call)
                socket = websocket.open_socket(request)
                with self._open(watcher), self._metrics.watching(call) as count:
                    await websocket.send(socket, watcher, frames, count)
                error = watcher.error
                if watcher.blocked_at is not None and isinstance(error, TooSlow):
                    request.abort()
        except (VersionExpired, TooLargeVersion) as cache_error:
            socket, error = websocket.open_socket(request), cache_error
        except CacheError as cache_error:
            raise watch_error(cache_error, call) from cache_error
        with suppress(ConnectionError):
            if sends_error_event(error):
                await websocket.send_frame(socket, frames, frames.error(watch_error(error, call).status))
            await socket.close()

    @contextmanager
    def _open(self, watcher: Watcher) -> Iterator[None]:
        self._watchers[watcher] = None
        try:
            yield
        finally:
            del self._watchers[watcher]

    async def _send(self, request: HttpRequest, call: Call, watcher: Watcher, frames: WatchFrames) -> None:
        connection = request.connection
        if connection.transport is None or connection.has_ended:
            return
        with self._open(watcher), self._metrics.watching(call) as count:
            stream = _WatchStream(
                watcher=watcher,
                frames=frames,
                connection=connection,
                transport=connection.transport,
                pump=self._pump,
                count=count,
                budget=self._budget,
                congested_s=self._congested_s,
            )
            await stream.run()


def _wants_compressed_list(call: Call) -> bool:
    """Whether a watch begins with a list and its client accepts gzip."""
    query = call.query
    is_list = query.flag("sendInitialEvents") and query.flag("allowWatchBookmarks")
    return is_list and wants_gzip(call.headers.get("Accept-Encoding", ""))


def _release_seats(call: Call) -> None:
    if call.transport is not None:
        call.transport.release_seats()


class _WatchStream:
    """The stream of one client."""

    __slots__ = (
        "_budget",
        "_buffered",
        "_congested_s",
        "_connection",
        "_count",
        "_frames",
        "_over",
        "_timer",
        "_transport",
        "_wake",
        "_watcher",
    )

    def __init__(
        self,
        *,
        watcher: Watcher,
        frames: WatchFrames,
        connection: HttpConnection,
        transport: asyncio.Transport,
        pump: Pump,
        count: WatchCount,
        budget: WatchBudget,
        congested_s: float,
    ) -> None:
        self._watcher, self._frames, self._count = watcher, frames, count
        self._connection, self._transport = connection, transport
        self._budget, self._congested_s = budget, congested_s
        self._wake = partial(pump.add, self)
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer: asyncio.TimerHandle | None = None
        """Running while the connection is congested, that is while the client has not read what was written."""
        self._buffered = 0
        """The bytes of the congested connection that count against the budget."""

    async def run(self) -> None:
        """Serve until the watch ends or the client disconnects."""
        # By default TLS buffers 512 KB before it reports that the client does not read.
        self._transport.set_write_buffer_limits(high=WATCH_SEND_BYTES)
        self._connection.on_lost = self._finish
        self._watcher.set_end_callback(self._on_ended)
        self._watcher.arm(self._wake)
        try:
            await self._over
        finally:
            self._connection.on_lost = self._connection.on_drained = None
            self._stop_counting()
            # Break a reference cycle, which would keep the connection and its buffers until the next full collection.
            del self._wake, self._transport, self._connection

    def send(self) -> None:
        if self._over.done():
            return None
        watcher = self._watcher
        events = watcher.pop_ready()
        if events:
            try:
                frames = self._frames.encode(events)
            except UnsupportedOutputFormat:
                return self._finish()
            size = self._write(frames)
            self._count.record_sent(len(events), size)
            if self._connection.is_congested:
                return self._on_congested(size)
        elif watcher.is_ended:
            return self._finish()
        return watcher.arm(self._wake)

    def _write(self, frames: list[bytes]) -> int:
        """Write frames and return their size. Large frames, which all watchers share, are not copied."""
        if len(frames) == 1:
            self._transport.write(frames[0])
            return len(frames[0])
        size = sum(map(len, frames))
        if size < len(frames) * _JOINED_BYTES:
            self._transport.write(b"".join(frames))
        else:
            self._transport.writelines(frames)
        return size

    def _on_congested(self, size: int) -> None:
        self._watcher.block()
        self._buffered = size = 2 * size  # twice: the previous write probably still fills a socket buffer
        self._timer = asyncio.get_running_loop().call_later(self._congested_s, self._watcher.terminate)
        self._connection.on_drained = self._on_drained
        self._budget.hold(size)  # this may terminate this very watch

    def _on_drained(self) -> None:
        self._watcher.unblock()
        self._stop_counting()
        self._wake()

    def _stop_counting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._budget.give_back(self._buffered)

    def _on_ended(self) -> None:
        if self._timer is not None:
            self._stop_counting()  # at once, so that no other watch is terminated for memory that is about to be freed
            self._finish()

    def _finish(self) -> None:
        if not self._over.done():
            self._over.set_result(None)


class CompressedWatchFrames(WatchFrames):
    """Encodes the events of a watch as one gzip stream, of which each write has complete blocks, so that the client can
    decompress at once what it has received. The blocks of a single event refer to nothing before them and are shared
    with other watches; events that are ready together, such as the initial ones, are compressed together.

    A gzip member for each write would not do: Go returns the end of a member only when it has the head of the next one.
    """

    def __init__(self, frames: WatchFrames, *, is_chunked: bool) -> None:
        super().__init__(media=frames.media, first=frames.first, remainder=frames.remainder)
        self._blocks = frames.wrap_frames(DeflateEncoder)
        self._is_chunked = is_chunked
        self._head = _GZIP_HEAD
        """The head of the stream until it has been written."""
        self._checksum = self._size = 0
        """Of what has been compressed."""

    def encode(self, events: Sequence[CacheEvent]) -> list[bytes]:
        plain = b"".join(super().encode(events))
        if len(events) == 1:
            (blocks,) = self._blocks.encode(events)
        else:
            self._blocks.skip_first()
            blocks = _deflate(plain)
        data = self._add(plain, blocks)
        return [_chunk(data) if self._is_chunked else data]

    def error(self, status: dict[str, Any]) -> bytes:
        plain = super().error(status)
        return self._add(plain, _deflate(plain))

    def end(self) -> bytes:
        return self._add(b"", _LAST_BLOCK) + struct.pack("<II", self._checksum, self._size & 0xFFFFFFFF)

    def _add(self, plain: bytes, blocks: bytes) -> bytes:
        """Return the next part of the stream."""
        self._checksum, self._size = zlib.crc32(plain, self._checksum), self._size + len(plain)
        head, self._head = self._head, b""
        return head + blocks


def _deflate(data: bytes) -> bytes:
    """Return deflate blocks that another may follow."""
    compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class DeflateEncoder:
    """Wraps frames as blocks of a deflate stream."""

    __slots__ = ("_inner", "key")

    def __init__(self, inner: FrameEncoder) -> None:
        self._inner = inner
        self.key: Hashable = ("deflate", inner.key)

    def frame(self, type: str, item: CacheItem) -> bytes:
        return _deflate(self._inner.frame(type, item))


class ChunkEncoder:
    """Wraps frames as chunks of HTTP/1.1 chunked encoding."""

    __slots__ = ("_inner", "key")

    def __init__(self, inner: FrameEncoder) -> None:
        self._inner = inner
        self.key: Hashable = ("chunk", inner.key)

    def frame(self, type: str, item: CacheItem) -> bytes:
        return _chunk(self._inner.frame(type, item))


def watch_error(cache_error: Exception | None, call: Call) -> errors.ApiError:
    api_error = translate_storage_error(cache_error, call) if cache_error is not None else None
    return api_error or errors.internal_error(str(cache_error))


def sends_error_event(error: Exception | None) -> bool:
    """Whether the client is sent an error event: not if it was terminated because it did not read."""
    return error is not None and not isinstance(error, TooSlow)


def _send_head(request: HttpRequest, response: StreamResponse) -> None:
    """Send the head at once, because the events bypass the response."""
    response.start(request)
    request.connection.flush()
    request.connection.forget_heads()


async def _end(request: HttpRequest, response: StreamResponse, last: bytes) -> None:
    transport = request.transport
    if transport is None or transport.is_closing():
        return
    with suppress(ConnectionError):
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await response.write(last)
                response.finish()
        except TimeoutError:
            transport.abort()
