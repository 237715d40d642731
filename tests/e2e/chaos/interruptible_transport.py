"""A transport to an API server that can be interrupted, as a network can.

A request that is in flight when the server stops may or may not be carried out, and its response is lost. Watches end.
Until the next server starts, requests fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from sampan.apiserver.loopback import LoopbackTransport
from sampan.apiserver.request.call import UserInfo
from sampan.machinery.client.codecs import ObjectCodec
from sampan.machinery.client.transport import ConnectionFailed, Events, Request, Response, WatchEvent
from tests.eventually import eventually

_LOOK_AGAIN_S = 0.005


class Line:
    """The connection that all components share, to the API server that runs at the moment, if one does."""

    def __init__(self) -> None:
        self._server: LoopbackTransport | None = None
        self._cut: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests: set[asyncio.Task[Response]] = set()
        self._lost: set[asyncio.Task[Any]] = set()
        """Tasks whose watch was cut and is not established again yet."""

    def open(self, server: LoopbackTransport) -> None:
        self._server, self._cut = server, asyncio.get_running_loop().create_future()

    async def cut(self) -> None:
        """Lose all further responses, and wait until the server has finished the requests that it has begun."""
        self._server = None
        self._cut.set_result(None)
        while self._requests:
            await asyncio.wait(self._requests)

    def server(self) -> LoopbackTransport:
        if self._server is None:
            raise ConnectionFailed("no API server is running", may_have_happened=False)
        return self._server

    async def idle(self) -> bool:
        """Wait until all watches that were cut are established again: their pauses are real time, which a virtual clock
        does not see. Return whether there was one to wait for."""
        if self._is_connected():
            return False
        await eventually(self._is_connected, timeout_s=600, poll_s=_LOOK_AGAIN_S)
        return True

    def _is_connected(self) -> bool:
        self._lost = {task for task in self._lost if not task.done()}
        return self._server is None or not self._lost

    async def send_request(self, request: Request, user: UserInfo) -> Response:
        server, cut = self.server(), self._cut
        task = asyncio.get_running_loop().create_task(server.as_user(user).send(request))
        self._requests.add(task)
        task.add_done_callback(self._on_request_done)
        try:
            response = await asyncio.shield(task)
        except Exception:
            if not cut.done():
                raise
        if cut.done():
            raise ConnectionFailed("the response is lost", may_have_happened=True)
        return response

    @asynccontextmanager
    async def open_watch(self, request: Request, codec: ObjectCodec, user: UserInfo) -> AsyncIterator[Events]:
        follower, cut = asyncio.current_task(), self._cut
        assert follower is not None
        async with self.server().as_user(user).watch(request, codec) as events:
            self._lost.discard(follower)
            try:
                yield _read_until_cut(events, cut)
            finally:
                if cut.done():
                    self._lost.add(follower)

    def _on_request_done(self, task: asyncio.Task[Response]) -> None:
        self._requests.discard(task)
        if not task.cancelled():
            task.exception()  # retrieve it: the client may have been killed


async def _read_until_cut(events: Events, cut: asyncio.Future[None]) -> AsyncIterator[Sequence[WatchEvent]]:
    while True:
        coming = asyncio.ensure_future(anext(events))
        try:
            await asyncio.wait((coming, cut), return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                raise ConnectionFailed("the connection broke", may_have_happened=False)
            try:
                yield coming.result()
            except StopAsyncIteration:
                return
        finally:
            if not coming.done():
                coming.cancel()
                with suppress(asyncio.CancelledError):
                    await coming


class LineTransport:
    """The transport of one component over a `Line`."""

    def __init__(self, *, line: Line, user: UserInfo) -> None:
        self._line, self._user = line, user

    def as_user(self, user: UserInfo) -> LineTransport:
        return LineTransport(line=self._line, user=user)

    async def send(self, request: Request) -> Response:
        return await self._line.send_request(request, self._user)

    @asynccontextmanager
    async def watch(self, request: Request, codec: ObjectCodec) -> AsyncIterator[Events]:
        async with self._line.open_watch(request, codec, self._user) as events:
            yield events

    async def close(self) -> None:
        """There is nothing to release."""
