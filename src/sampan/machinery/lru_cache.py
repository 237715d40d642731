"""A bounded LRU cache whose entries expire after a time, for the responses of other services."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from sampan.machinery.clock import Clock

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    def __init__(self, *, clock: Clock, most: int) -> None:
        self._clock, self._most = clock, most
        self._kept: OrderedDict[Key, tuple[float, Value]] = OrderedDict()
        """The monotonic time at which each entry expires, and the cached value."""

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> Value | None:
        entry = self._kept.get(key)
        if entry is None:
            return None
        if entry[0] <= self._clock.monotonic():
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return entry[1]

    def keep(self, key: Key, value: Value, seconds: float) -> None:
        if seconds <= 0:
            return
        self._kept[key] = (self._clock.monotonic() + seconds, value)
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
