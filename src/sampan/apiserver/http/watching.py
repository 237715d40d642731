"""Watches over HTTP: frames from the cacher, written to the connection as they come.

The request's own task only opens the watch and waits for its end; events are written by the pump, for all streams that
have some at once. A client that does not keep up gets nothing more until it has taken what was written: the watcher's
bounds then cut it off if it stays behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from aiohttp import web

from sampan.apiserver.call import Call
from sampan.apiserver.frames import Frames, NoForm
from sampan.apiserver.http import websocket
from sampan.apiserver.http.connection import Connection
from sampan.apiserver.http.pump import Pump
from sampan.apiserver.http.storage_errors import translated
from sampan.apiserver.request_metrics import RequestMetrics, WatchCount
from sampan.apiserver.results import WatchAnswer
from sampan.machinery import errors
from sampan.storage.cacher import FrameEncoder, Item, Watcher
from sampan.storage.cacher.errors import CacheError, Expired, TooLargeVersion, TooSlow

_FAREWELL_S = 5.0
"""How long the end of a stream may take to get out."""


class Watching:
    """All watches of a server."""

    def __init__(self, *, metrics: RequestMetrics) -> None:
        self._metrics = metrics
        self._pump = Pump()
        self._watchers: dict[Watcher, None] = {}

    def end_all(self) -> None:
        """Let every watch come to a proper end."""
        for watcher in list(self._watchers):
            watcher.end()

    async def serve(
        self, request: web.BaseRequest, response: web.StreamResponse, call: Call, answer: WatchAnswer, frames: Frames
    ) -> None:
        """Write a watch as an answer whose headers, but for the content type, are in `response`."""
        response.headers["Content-Type"] = frames.content_type
        if is_chunked := request.version >= (1, 1):
            response.enable_chunked_encoding()
        try:
            async with answer.watcher as watcher:
                await response.prepare(request)
                await self._send(request, call, watcher, frames.through(Chunk) if is_chunked else frames)
                error = watcher.error
        except (Expired, TooLargeVersion) as fault:
            await response.prepare(request)
            error = fault
        except CacheError as fault:
            raise told(fault, call) from fault
        await _end(request, response, frames.error(told(error, call).status) if is_told(error) else b"")

    async def serve_websocket(
        self, request: web.BaseRequest, call: Call, answer: WatchAnswer, frames: Frames
    ) -> web.StreamResponse:
        try:
            async with answer.watcher as watcher:
                socket = await websocket.open_socket(request)
                with self._open(watcher), self._metrics.watching(call) as count:
                    await websocket.send(socket, watcher, frames, count)
                error = watcher.error
        except (Expired, TooLargeVersion) as fault:
            socket, error = await websocket.open_socket(request), fault
        except CacheError as fault:
            raise told(fault, call) from fault
        with suppress(ConnectionError):
            if is_told(error):
                await websocket.send_frame(socket, frames, frames.error(told(error, call).status))
            await socket.close()
        return socket

    @contextmanager
    def _open(self, watcher: Watcher) -> Iterator[None]:
        self._watchers[watcher] = None
        try:
            yield
        finally:
            del self._watchers[watcher]

    async def _send(self, request: web.BaseRequest, call: Call, watcher: Watcher, frames: Frames) -> None:
        connection = request.protocol
        if not isinstance(connection, Connection) or connection.transport is None or connection.has_ended:
            return
        with self._open(watcher), self._metrics.watching(call) as count:
            await _Stream(watcher, frames, connection, connection.transport, self._pump, count).run()


class _Stream:
    """One client's stream."""

    __slots__ = (
        "_connection",
        "_count",
        "_frames",
        "_is_congested",
        "_over",
        "_transport",
        "_wake",
        "_watcher",
    )

    def __init__(
        self,
        watcher: Watcher,
        frames: Frames,
        connection: Connection,
        transport: asyncio.Transport,
        pump: Pump,
        count: WatchCount,
    ) -> None:
        self._watcher, self._frames, self._count = watcher, frames, count
        self._connection, self._transport = connection, transport
        self._wake = partial(pump.add, self)
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_congested = False

    async def run(self) -> None:
        """Until the watch ends or the client goes."""
        self._connection.on_lost = self._finish
        self._watcher.at_end(self._ended)
        self._watcher.arm(self._wake)
        try:
            await self._over
        finally:
            self._connection.on_lost = self._connection.on_drained = None

    def send(self) -> None:
        if self._over.done():
            return
        self._is_congested = False
        watcher = self._watcher
        events = watcher.pop_ready()
        if events:
            try:
                data = self._frames.join(events)
            except NoForm:
                return self._finish()
            self._transport.write(data)
            self._count.sent(len(events), len(data))
            if self._connection.writing_paused:
                self._is_congested = True
                self._connection.on_drained = self._wake
                return None
        elif watcher.is_ended:
            return self._finish()
        return watcher.arm(self._wake)

    def _ended(self) -> None:
        if self._is_congested:
            self._finish()

    def _finish(self) -> None:
        if not self._over.done():
            self._over.set_result(None)


class Chunk:
    """An encoder's frame as a chunk of HTTP/1.1."""

    __slots__ = ("_inner", "key")

    def __init__(self, inner: FrameEncoder) -> None:
        self._inner = inner
        self.key: Hashable = ("chunk", inner.key)

    def frame(self, type: str, item: Item) -> bytes:
        frame = self._inner.frame(type, item)
        return b"%x\r\n%b\r\n" % (len(frame), frame)


def told(fault: Exception | None, call: Call) -> errors.ApiError:
    known = translated(fault, call) if fault is not None else None
    return known or errors.internal_error(str(fault))


def is_told(error: Exception | None) -> bool:
    """Whether the client hears why its watch ended: one that did not listen does not."""
    return error is not None and not isinstance(error, TooSlow)


async def _end(request: web.BaseRequest, response: web.StreamResponse, last: bytes) -> None:
    transport = request.transport
    if transport is None or transport.is_closing():
        return
    with suppress(ConnectionError):
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await response.write_eof(last)
        except TimeoutError:
            transport.abort()


__all__ = ["Chunk", "Watching", "is_told", "told"]
