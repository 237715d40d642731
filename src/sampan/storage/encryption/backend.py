"""A backend that encrypts the values in another backend: which key writes, and which keys read.

An encrypted value has the prefix `k8s:enc:PROVIDER:v1:KEY:` before the data of the cipher. A value without it is plain.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

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
from sampan.storage.encryption.ciphers import CannotDecrypt, Cipher

ENCRYPTED = b"k8s:enc:"


class EncryptingBackend(WrappedBackend):
    def __init__(self, *, inner: Backend, values: ValueTransformer) -> None:
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
        return self._inner.watch(prefix, after=after, on_batch=lambda batch: on_batch(self.decrypt_batch(batch)))

    async def is_stale(self, key: str) -> bool:
        """Whether the value should be rewritten without a change, because it is not encrypted with the first key."""
        entry, _ = await self._inner.get(key)
        return entry is not None and self._values.is_stale(key, entry.value)

    def decrypt_batch(self, batch: EventBatch) -> EventBatch:
        return EventBatch([self._event(event) for event in batch.events], batch.revision)

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

    def __aiter__(self) -> AsyncIterator[EventBatch]:
        return self._batches()

    async def _batches(self) -> AsyncIterator[EventBatch]:
        async for batch in self._inner:
            yield self._backend.decrypt_batch(batch)

    async def request_progress(self) -> None:
        await self._inner.request_progress()


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """A named key of a provider; without a cipher, values stay plain (the provider `identity`)."""

    prefix: bytes
    cipher: Cipher | None


IDENTITY = EncryptionKey(b"", None)


def key(provider: str, name: str, cipher: Cipher) -> EncryptionKey:
    return EncryptionKey(b"%b%b:v1:%b:" % (ENCRYPTED, provider.encode(), name.encode()), cipher)


class ValueTransformer:
    """Transforms values: the first key encrypts, and all keys can decrypt."""

    def __init__(self, keys: Sequence[EncryptionKey]) -> None:
        self.replace(keys)

    def replace(self, keys: Sequence[EncryptionKey]) -> None:
        self.keys = tuple(keys)
        self._first = self.keys[0]

    def seal(self, place: str, value: bytes) -> bytes:
        cipher = self._first.cipher
        return value if cipher is None else self._first.prefix + cipher.seal(value, place.encode())

    def open(self, place: str, value: bytes) -> bytes:
        """Return the plain value; a value that no key can decrypt is returned unchanged, so that the reader can report
        it.
        """
        return self._decrypt_value(place, value)[0]

    def is_stale(self, place: str, value: bytes) -> bool:
        """Whether the value was not written with the key that would be used now."""
        return self._decrypt_value(place, value)[1] is not self._first

    def _decrypt_value(self, place: str, value: bytes) -> tuple[bytes, EncryptionKey | None]:
        is_plain = not value.startswith(ENCRYPTED)
        for cipher_key in self.keys:
            if cipher_key.cipher is None:
                if is_plain:
                    return value, cipher_key
            elif value.startswith(cipher_key.prefix):
                try:
                    return cipher_key.cipher.open(value[len(cipher_key.prefix) :], place.encode()), cipher_key
                except CannotDecrypt:
                    continue
        return value, None
