"""Reads from etcd: a key, a range in chunks, a count, and how far back the history reaches, which etcd reports only to
watches. Concurrent callers of the same request share it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sampan.storage.backend import (
    BackendClosed,
    Compacted,
    FutureRevision,
    KeyValue,
    StorageError,
    StoreEvent,
    StorePage,
)
from sampan.storage.etcd import wire
from sampan.storage.etcd.client import EtcdClient, EtcdError, FailureKind
from sampan.storage.etcd.stream import WatchStream


class _CompactionProbe:
    """A watch from a compacted revision, which etcd cancels with the oldest available revision."""

    wants_own_keys_only = False

    def __init__(self, position: int) -> None:
        self.position = position
        self.refusal: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()

    def on_revisions(self, events: Sequence[StoreEvent], position: int) -> None:
        self._settle(None)

    def on_lost(self, error: StorageError) -> None:
        self._settle(error)

    def _settle(self, refusal: StorageError | None) -> None:
        if not self.refusal.done():
            self.refusal.set_result(refusal)


async def probe_compaction(stream: WatchStream, revision: int, *, current: int, timeout_s: float) -> Compacted:
    """Return the error for a read at `revision`, which etcd has rejected as compacted.

    If the probe gets no response in time, the error assumes the smallest possible compacted revision.
    """
    probe = _CompactionProbe(revision)
    number = stream.subscribe(probe)
    try:
        async with asyncio.timeout(timeout_s):
            refusal = await probe.refusal
    except TimeoutError:
        refusal = None
    finally:
        stream.unsubscribe(number)
    return Compacted(refusal.compacted if isinstance(refusal, Compacted) else revision + 1, current)


Revision = Callable[[], Awaitable[int]]


class SharedRequest:
    """Shares requests between callers: `await ask()` returns the response to a request that was sent after the call.
    Callers that arrive while a request is in flight wait for the next one, because the store may have served the
    running request before a write that the caller already knows of. `run` has to be running."""

    def __init__(self, put: Revision) -> None:
        self._put = put
        self._next: asyncio.Future[int] | None = None
        self._requested = asyncio.Event()

    async def ask(self) -> int:
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            self._requested.set()
        return await asyncio.shield(self._next)

    async def run(self) -> None:
        while True:
            await self._requested.wait()
            self._requested.clear()
            response, self._next = self._next, None
            if response is not None:
                await self._settle(response)

    async def _settle(self, response: asyncio.Future[int]) -> None:
        try:
            response.set_result(await self._put())
        except asyncio.CancelledError:
            _fail(response, BackendClosed("the etcd backend was closed"))
            raise
        except Exception as error:
            _fail(response, error)

    def close(self) -> None:
        if self._next is not None:
            _fail(self._next, BackendClosed("the etcd backend was closed"))


def _fail(response: asyncio.Future[int], error: Exception) -> None:
    response.set_exception(error)
    response.exception()  # mark as retrieved: all callers may have been cancelled


CHUNK = 1000
"""The number of entries per request, so that decoding a long range does not block the event loop."""

MAX_TRIES = 3

CompactionError = Callable[[int, int], Awaitable[Compacted]]
"""Takes a compacted revision and the current one, and returns the error with the oldest available revision."""


class EtcdReader:
    def __init__(
        self, *, client: EtcdClient, keys: wire.KeyCodec, current_revision: Revision, compaction_error: CompactionError
    ) -> None:
        self._client, self._keys = client, keys
        self._current_revision, self._compaction_error = current_revision, compaction_error

    async def revision(self) -> int:
        """Return the current revision, from the header of a linearizable read of a key that does not exist."""
        response = await self._client.call(self._client.range, wire.get(self._keys.encode("\0")))
        revision: int = response.header.revision
        return revision

    async def get(self, key: str, revision: int) -> tuple[KeyValue | None, int]:
        response = await self._range(key=self._keys.encode(key), revision=revision)
        return (self._keys.entry(response.kvs[0]) if response.kvs else None), revision or response.header.revision

    async def count(self, prefix: str) -> int:
        key, end = self._keys.bounds(prefix)
        count: int = (await self._range(key=key, range_end=end, count_only=True)).count
        return count

    async def range(self, prefix: str, start: str, limit: int, revision: int) -> StorePage:
        """Read a range; one at the current revision is restarted if a compaction happens between two chunks."""
        bounds = self._keys.bounds(prefix, start)
        for _ in range(MAX_TRIES - 1):
            try:
                return await self._pieces(bounds, limit, revision)
            except Compacted:
                if revision:
                    raise
        return await self._pieces(bounds, limit, revision)

    async def _pieces(self, bounds: tuple[bytes, bytes], limit: int, revision: int) -> StorePage:
        first, end = bounds
        entries: list[KeyValue] = []
        while True:
            size = min(CHUNK, limit - len(entries)) if limit else CHUNK
            response = await self._range(key=first, range_end=end, limit=size, revision=revision)
            revision = revision or response.header.revision
            entries.extend(map(self._keys.entry, response.kvs))
            remaining = response.count - len(response.kvs)
            if remaining <= 0 or len(entries) == limit:
                return StorePage(entries, revision, remaining)
            first = response.kvs[-1].key + b"\0"

    async def _range(self, **fields: Any) -> Any:
        revision: int = fields.get("revision", 0)
        try:
            return await self._client.call(self._client.range, self._client.range.request(**fields))
        except EtcdError as error:
            current = await self._current_revision()
            if error.kind is FailureKind.FUTURE:
                raise FutureRevision(revision, current) from error
            raise await self._compaction_error(revision, current) from error
