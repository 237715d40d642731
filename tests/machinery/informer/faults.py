"""A transport that cuts connections and expires resource versions at random."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random

from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed, Events, Request, Response, Transport
from sampan.machinery.client.codecs import ObjectCodec


class FaultyTransport:
    def __init__(self, inner: Transport, random: Random, *, stream_error: errors.ApiError | None = None) -> None:
        self._inner, self._random = inner, random
        self._stream_error = stream_error
        """The error of a server that does not support streaming lists."""
        self.streaming_lists = 0
        self.is_reliable = False
        self.cuts = 0
        self.expired = 0

    async def send(self, request: Request) -> Response:
        if self._fails(0.1):
            raise ConnectionFailed("cut", may_have_happened=False)
        return await self._inner.send(request)

    def watch(self, request: Request, codec: ObjectCodec) -> AbstractAsyncContextManager[Events]:
        return self._watch(request, codec)

    @asynccontextmanager
    async def _watch(self, request: Request, codec: ObjectCodec) -> AsyncIterator[Events]:
        query = dict(request.query)
        if "sendInitialEvents" in query:
            self.streaming_lists += 1
            if self._stream_error is not None:
                raise self._stream_error
        if query.get("resourceVersion") and self._fails(0.3):
            self.expired += 1
            raise errors.expired("too old resource version")
        async with self._inner.watch(request, codec) as events:
            yield _FaultyEvents(self, events)

    async def close(self) -> None:
        await self._inner.close()

    def _fails(self, chance: float) -> bool:
        is_failure = not self.is_reliable and self._random.random() < chance
        self.cuts += is_failure
        return is_failure


class _FaultyEvents:
    def __init__(self, owner: FaultyTransport, events: Events) -> None:
        self._owner, self._events = owner, events

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self):  # type: ignore[no-untyped-def]
        if self._owner._fails(0.15):
            raise ConnectionFailed("cut", may_have_happened=False)
        batch = await anext(self._events)
        if self._owner._fails(0.15):
            raise ConnectionFailed("cut before it arrived", may_have_happened=False)
        return batch
