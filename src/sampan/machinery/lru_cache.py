"""A bounded LRU cache whose entries expire after a time, for the responses of other services."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from sampan.host.bounded_cache import BoundedCache
from sampan.machinery.clock import Clock

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    def __init__(self, *, clock: Clock, most: int, max_entry_bytes: int = 16 << 10, max_bytes: int = 16 << 20) -> None:
        self._clock = clock
        self._entries: BoundedCache[Key, tuple[float, Value]] = BoundedCache(
            max_entries=most, max_entry_bytes=max_entry_bytes, max_bytes=max_bytes
        )
        """The monotonic time at which each entry expires, and the cached value."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[0] <= self._clock.monotonic():
            self._entries.discard(key)
            return None
        return self._entries.use(key)[1]

    def keep(self, key: Key, value: Value, seconds: float) -> None:
        if seconds > 0:
            self._entries.keep(key, (self._clock.monotonic() + seconds, value))
