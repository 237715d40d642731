"""A backend that encrypts the values in another backend."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sampan.storage.backend import Backend, Batch, KeyValue, OnBatch, StoreConflict, StoreEvent, StorePage, StoreWatch
from sampan.storage.encryption.values import Values
from sampan.storage.wrapped_backend import WrappedBackend


class EncryptingBackend(WrappedBackend):
    def __init__(self, *, inner: Backend, values: Values) -> None:
        super().__init__(inner)
        self._values = values

    async def get(self, key: str, *, revision: int = 0) -> tuple[KeyValue | None, int]:
        entry, shown = await self._inner.get(key, revision=revision)
        return self._entry(entry) if entry is not None else None, shown

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> StorePage:
        page = await self._inner.range(prefix, start=start, limit=limit, revision=revision)
        return StorePage([self._entry(entry) for entry in page.entries], page.revision, page.remaining)

    async def put(self, key: str, value: bytes, *, expected: int | None = None, ttl_s: float | None = None) -> int:
        try:
            return await self._inner.put(key, self._values.seal(key, value), expected=expected, ttl_s=ttl_s)
        except StoreConflict as conflict:
            raise self._conflict(conflict) from None

    async def delete(self, key: str, *, expected: int | None = None) -> int:
        try:
            return await self._inner.delete(key, expected=expected)
        except StoreConflict as conflict:
            raise self._conflict(conflict) from None

    def watch(self, prefix: str, *, after: int, on_batch: OnBatch | None = None) -> StoreWatch:
        if on_batch is None:
            return _DecryptingWatch(self._inner.watch(prefix, after=after), self)
        return self._inner.watch(prefix, after=after, on_batch=lambda batch: on_batch(self.opened(batch)))

    async def is_stale(self, key: str) -> bool:
        """Whether the value should be rewritten without a change, because it is not encrypted with the first key."""
        entry, _ = await self._inner.get(key)
        return entry is not None and self._values.is_stale(key, entry.value)

    def opened(self, batch: Batch) -> Batch:
        return Batch([self._event(event) for event in batch.events], batch.revision)

    def _event(self, event: StoreEvent) -> StoreEvent:
        if event.value is None:
            return event
        return StoreEvent(event.revision, event.key, self._values.open(event.key, event.value), event.create_revision)

    def _entry(self, entry: KeyValue) -> KeyValue:
        return KeyValue(entry.key, self._values.open(entry.key, entry.value), entry.revision, entry.create_revision)

    def _conflict(self, conflict: StoreConflict) -> StoreConflict:
        return StoreConflict(conflict.key, self._entry(conflict.current) if conflict.current is not None else None)


class _DecryptingWatch:
    def __init__(self, inner: StoreWatch, backend: EncryptingBackend) -> None:
        self._inner, self._backend = inner, backend

    async def __aenter__(self) -> _DecryptingWatch:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._inner.__aexit__(*exc)

    def __aiter__(self) -> AsyncIterator[Batch]:
        return self._batches()

    async def _batches(self) -> AsyncIterator[Batch]:
        async for batch in self._inner:
            yield self._backend.opened(batch)

    async def request_progress(self) -> None:
        await self._inner.request_progress()
