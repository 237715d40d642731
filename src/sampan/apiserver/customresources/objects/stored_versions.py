"""Conversion between the storage version of a custom resource and the version of a path.

Each version of a custom resource has a store of its own, whose backend is a `ConvertingBackend`: it shows all values in
that version and stores them in the storage version. The registry, the cacher and the endpoints therefore need to know
nothing about versions of custom resources. The counterpart is
`k8s.io/apiextensions-apiserver/pkg/apiserver/conversion`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from sampan.api.codec import custom
from sampan.api.codec import json as json_codec
from sampan.api.schema.tree import SchemaSource
from sampan.storage.backend import (
    Backend,
    EventBatch,
    KeyValue,
    OnBatch,
    StoreConflict,
    StoreEvent,
    StorePage,
    StoreWatch,
    WrappedBackend,
)

Value = dict[str, Any]


class ValueConversion(Protocol):
    """Converts objects between the versions of one custom resource."""

    @property
    def needs_request(self) -> bool:
        """Whether a conversion waits for a webhook. If not, `convert_now` does it at once."""

    def convert_now(self, value: Value, api_version: str) -> Value:
        """Return the object in that version. With a webhook, this blocks the thread, which must not be that of the
        event loop."""

    async def convert(self, values: Sequence[Value], api_version: str) -> Sequence[Value]:
        """Return the objects in that version."""


class NoneConversion:
    """The conversion strategy None: versions differ in nothing but the apiVersion."""

    needs_request = False

    def convert_now(self, value: Value, api_version: str) -> Value:
        return {**value, "apiVersion": api_version}

    async def convert(self, values: Sequence[Value], api_version: str) -> Sequence[Value]:
        return [self.convert_now(value, api_version) for value in values]


class StoredVersion:
    """How the objects of a custom resource are shown in one version, and how they are stored."""

    def __init__(
        self,
        *,
        kind: str,
        api_version: str,
        storage_version: str,
        schemas: Mapping[str, SchemaSource],
        conversion: ValueConversion,
    ) -> None:
        """`schemas` are those of all versions of the definition, by apiVersion."""
        self.api_version, self._storage_version = api_version, storage_version
        self._schemas, self.conversion, self._is_only_version = schemas, conversion, len(schemas) == 1
        self._has_trees = False
        self._head, self._storage_head = (
            b'{"kind":"%b","apiVersion":"%b",' % (kind.encode(), version.encode())
            for version in (api_version, storage_version)
        )

    def is_current(self, value: bytes) -> bool:
        """Whether a stored value is in the storage version."""
        return value.startswith(self._storage_head)

    def is_shown_as_stored(self, value: bytes) -> bool:
        """Whether a value that was just written needs no conversion and no defaults, because it was written with the
        current schema: a changed schema gets a new store. With several versions, it may have been written with the
        schema of another one."""
        return self._is_only_version and value.startswith(self._head)

    @property
    def loses_fields(self) -> bool:
        """Whether an object may have fields in this version that are not stored, because the storage version does not
        have them. What a webhook does with them is not known in advance."""
        return self._head != self._storage_head and not self.conversion.needs_request

    def convert_now(self, value: bytes) -> bytes | None:
        """Return a stored value in this version; None if a webhook has to convert it.

        Fields that the schema of the stored version does not have are removed, and its defaults are applied; after the
        conversion, the fields are removed that the schema of this version does not have. Defaults of this version are
        not applied: only requests set them.
        """
        decoded = self._read_stored(value)
        if decoded.get("apiVersion") != self.api_version:
            if self.conversion.needs_request:
                return None
            decoded = self._finish(self.conversion.convert_now(decoded, self.api_version), self.api_version)
        return _encode_unless_same(decoded, value)

    async def convert(self, values: Sequence[bytes]) -> list[bytes]:
        """Return stored values in this version; those in other versions are converted by one request."""
        if values and not self._has_trees:  # creating the trees of large schemas takes long
            await asyncio.to_thread(self._create_trees)
            self._has_trees = True
        converted = [self.convert_now(value) for value in values]
        pending = [index for index, value in enumerate(converted) if value is None]
        if pending:
            decoded = [self._read_stored(values[index]) for index in pending]
            results = await self.conversion.convert(decoded, self.api_version)
            for index, result in zip(pending, results, strict=True):
                finished = self._finish(result, self.api_version)
                converted[index] = _encode_unless_same(finished, values[index])
        return [value for value in converted if value is not None]

    async def to_storage(self, value: bytes) -> bytes:
        """Return a value of this version in the storage version, without the fields that its schema does not have."""
        if self._head == self._storage_head:
            return value
        (converted,) = await self.conversion.convert([json_codec.read_any(value)], self._storage_version)
        return json_codec.encode(_order_fields(self._finish(converted, self._storage_version)))

    def _create_trees(self) -> None:
        for schema in self._schemas.values():
            _ = schema.tree

    def _read_stored(self, value: bytes) -> Value:
        decoded: Value = json_codec.read_any(value)
        schema = self._schemas.get(decoded.get("apiVersion", ""))
        if schema is not None:
            custom.repair(decoded, schema.tree)
            custom.apply_defaults(decoded, schema.tree)
        return decoded

    def _finish(self, converted: Value, api_version: str) -> Value:
        """Remove from a converted object, in place, what the schema of its version does not allow."""
        custom.repair(converted, self._schemas[api_version].tree)
        return converted


def _encode_unless_same(value: Value, source: bytes) -> bytes:
    """Return the encoded object, as the same bytes if it is unchanged."""
    encoded = json_codec.encode(_order_fields(value))
    return source if encoded == source else encoded


def _order_fields(value: Value) -> Value:
    """Return the object with kind, apiVersion and metadata first, which the cacher relies on."""
    title: Value = {field: value[field] for field in ("kind", "apiVersion", "metadata") if field in value}
    return {**title, **value}


class ConvertingBackend(WrappedBackend):
    """Shows the values of one custom resource in one version."""

    def __init__(self, *, inner: Backend, version: StoredVersion) -> None:
        super().__init__(inner)
        self._version = version
        self._replayed_revision = sys.maxsize
        """The last revision that may have been written with an earlier schema; unknown until history is replayed."""

    async def get(self, key: str, *, revision: int = 0) -> tuple[KeyValue | None, int]:
        entry, shown = await self._inner.get(key, revision=revision)
        return (await self._convert_entries([entry]))[0] if entry is not None else None, shown

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> StorePage:
        page = await self._inner.range(prefix, start=start, limit=limit, revision=revision)
        return StorePage(await self._convert_entries(page.entries), page.revision, page.remaining)

    async def put(self, key: str, value: bytes, *, expected: int | None = None, ttl_s: float | None = None) -> int:
        stored = await self._version.to_storage(value)
        try:
            return await self._inner.put(key, stored, expected=expected, ttl_s=ttl_s)
        except StoreConflict as conflict:
            raise await self._convert_conflict(conflict) from None

    async def delete(self, key: str, *, expected: int | None = None) -> int:
        try:
            return await self._inner.delete(key, expected=expected)
        except StoreConflict as conflict:
            raise await self._convert_conflict(conflict) from None

    def watch(self, prefix: str, *, after: int, on_batch: OnBatch | None = None) -> StoreWatch:
        if on_batch is None or self._version.conversion.needs_request:
            return _ConvertingWatch(self._inner.watch(prefix, after=after), self, on_batch)
        return self._inner.watch(prefix, after=after, on_batch=lambda batch: on_batch(self._convert_batch_now(batch)))

    async def replay_start(self, revisions: int) -> int:
        """Note that everything written so far has to be converted, since it is replayed from history."""
        self._replayed_revision = await self._inner.current_revision()
        return await super().replay_start(revisions)

    async def read_back(self, value: bytes) -> bytes:
        """Return a value as clients see it after it was stored."""
        if not self._version.loses_fields:
            return value
        stored = await self._version.to_storage(value)
        return (await self._version.convert([stored]))[0]

    async def is_stale(self, key: str) -> bool:
        """Whether the value should be rewritten without a change, because it is not in the storage version."""
        entry, _ = await self._inner.get(key)
        return entry is not None and not self._version.is_current(entry.value)

    async def convert_batch(self, batch: EventBatch) -> EventBatch:
        """Return the events with their values in this version."""
        pending = [event.value for event in batch.events if event.value is not None and not self._is_ready(event)]
        if not pending:
            return batch
        converted = iter(await self._version.convert(pending))
        events = [
            event if event.value is None or self._is_ready(event) else _with_value(event, next(converted))
            for event in batch.events
        ]
        return EventBatch(events, batch.revision)

    def _convert_batch_now(self, batch: EventBatch) -> EventBatch:
        events = [
            event if event.value is None or self._is_ready(event) else self._convert_event_now(event)
            for event in batch.events
        ]
        return EventBatch(events, batch.revision)

    def _convert_event_now(self, event: StoreEvent) -> StoreEvent:
        assert event.value is not None
        converted = self._version.convert_now(event.value)
        assert converted is not None
        return _with_value(event, converted)

    def _is_ready(self, event: StoreEvent) -> bool:
        if event.value is None or event.revision <= self._replayed_revision:
            return False
        return self._version.is_shown_as_stored(event.value)

    async def _convert_entries(self, entries: Sequence[KeyValue]) -> list[KeyValue]:
        values = await self._version.convert([entry.value for entry in entries])
        return [
            KeyValue(entry.key, value, entry.revision, entry.create_revision)
            for entry, value in zip(entries, values, strict=True)
        ]

    async def _convert_conflict(self, conflict: StoreConflict) -> StoreConflict:
        current = (await self._convert_entries([conflict.current]))[0] if conflict.current is not None else None
        return StoreConflict(conflict.key, current)


def _with_value(event: StoreEvent, value: bytes) -> StoreEvent:
    return StoreEvent(event.revision, event.key, value, event.create_revision)


class _ConvertingWatch:
    """A watch whose batches are converted one after the other, so that their order is kept while a webhook responds."""

    def __init__(self, inner: StoreWatch, backend: ConvertingBackend, on_batch: OnBatch | None) -> None:
        self._inner, self._backend, self._on_batch = inner, backend, on_batch

    async def __aenter__(self) -> _ConvertingWatch:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._inner.__aexit__(*exc)

    def __aiter__(self) -> AsyncIterator[EventBatch]:
        return self._batches()

    async def _batches(self) -> AsyncIterator[EventBatch]:
        async for batch in self._inner:
            converted = await self._backend.convert_batch(batch)
            if self._on_batch is None:
                yield converted
            else:
                self._on_batch(converted)

    async def request_progress(self) -> None:
        await self._inner.request_progress()
