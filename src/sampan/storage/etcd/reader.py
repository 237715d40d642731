"""Reads: a key, a range in chunks, a count."""

from collections.abc import Awaitable, Callable
from typing import Any

from sampan.storage.backend import Compacted, Entry, FutureRevision, Page
from sampan.storage.etcd import wire
from sampan.storage.etcd.client import Client
from sampan.storage.etcd.faults import Fault, Kind
from sampan.storage.etcd.question import Revision

CHUNK = 1000
"""The number of entries per request, so that decoding a long range does not block the event loop."""

MAX_TRIES = 3

Gone = Callable[[int, int], Awaitable[Compacted]]
"""Takes a compacted revision and the current one, and returns the error with the oldest available revision."""


class Reader:
    def __init__(self, *, client: Client, keys: wire.Keys, current_revision: Revision, gone: Gone) -> None:
        self._client, self._keys = client, keys
        self._current_revision, self._gone = current_revision, gone

    async def revision(self) -> int:
        """Return the current revision, from the header of a linearizable read of a key that does not exist."""
        answer = await self._client.call(self._client.range, wire.get(self._keys.encode("\0")))
        revision: int = answer.header.revision
        return revision

    async def get(self, key: str, revision: int) -> tuple[Entry | None, int]:
        answer = await self._range(key=self._keys.encode(key), revision=revision)
        return (self._keys.entry(answer.kvs[0]) if answer.kvs else None), revision or answer.header.revision

    async def count(self, prefix: str) -> int:
        key, end = self._keys.bounds(prefix)
        count: int = (await self._range(key=key, range_end=end, count_only=True)).count
        return count

    async def range(self, prefix: str, start: str, limit: int, revision: int) -> Page:
        """Read a range; one at the current revision is restarted if a compaction happens between two chunks."""
        bounds = self._keys.bounds(prefix, start)
        for _ in range(MAX_TRIES - 1):
            try:
                return await self._pieces(bounds, limit, revision)
            except Compacted:
                if revision:
                    raise
        return await self._pieces(bounds, limit, revision)

    async def _pieces(self, bounds: tuple[bytes, bytes], limit: int, revision: int) -> Page:
        first, end = bounds
        entries: list[Entry] = []
        while True:
            size = min(CHUNK, limit - len(entries)) if limit else CHUNK
            answer = await self._range(key=first, range_end=end, limit=size, revision=revision)
            revision = revision or answer.header.revision
            entries.extend(map(self._keys.entry, answer.kvs))
            remaining = answer.count - len(answer.kvs)
            if remaining <= 0 or len(entries) == limit:
                return Page(entries, revision, remaining)
            first = answer.kvs[-1].key + b"\0"

    async def _range(self, **fields: Any) -> Any:
        revision: int = fields.get("revision", 0)
        try:
            return await self._client.call(self._client.range, self._client.range.request(**fields))
        except Fault as error:
            current = await self._current_revision()
            if error.kind is Kind.FUTURE:
                raise FutureRevision(revision, current) from error
            raise await self._gone(revision, current) from error
