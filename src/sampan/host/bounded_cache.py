"""The caches for results that depend on user input: bounded in entries and in bytes, their keys included."""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from enum import Enum
from sys import getsizeof
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from sampan.host.clock import Clock

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

ENTRY_BYTES: Final = 300
"""The memory that an entry takes besides its key and value: a link, and its places in two hash tables."""
_SHARED = (type, Enum, ModuleType, FunctionType, BuiltinFunctionType, CodeType)
_LEAVES = frozenset((str, bytes, int, float, bool, type(None)))


class BoundedCache(OrderedDict[Key, Value]):
    """The results of a function by its argument. Reading a missing item computes it; reading any other one takes no
    longer than with a dict. Without a function a cache has only what `keep` adds.

    Neither the entries together nor a single one can take more memory than allowed: the oldest entries are dropped, and
    one that is too large is computed whenever it is needed. Several threads may use a cache.
    """

    def __init__(
        self,
        compute: Callable[[Key], Value] | None = None,
        *,
        max_entries: int,
        max_entry_bytes: int = 2 << 10,
        max_bytes: int = 4 << 20,
        measure: Callable[[Value, int], int] | None = None,
    ) -> None:
        """`max_entry_bytes` applies to key and value together. `measure` returns the bytes of a value, and may stop
        counting beyond its second argument."""
        super().__init__()
        self._compute: Callable[[Key], Value] = compute or _raise_key_error
        self._measure = measure or measure_bytes
        self.max_entries, self.max_entry_bytes, self.max_bytes = max_entries, max_entry_bytes, max_bytes
        self._sizes: dict[Key, int] = {}
        self._lock = threading.Lock()
        self.bytes = 0
        """The memory of all entries, estimated."""

    def __missing__(self, key: Key) -> Value:
        value = self._compute(key)
        self.keep(key, value)
        return value

    def use(self, key: Key) -> Value:
        """Return an item as reading it does, and make it the newest one: for results that are expensive to compute."""
        value = self[key]
        with self._lock:
            if key in self:
                self.move_to_end(key)
        return value

    def keep(self, key: Key, value: Value) -> None:
        """Add or replace an entry, as the newest one, unless it is too large."""
        maximum = self.max_entry_bytes
        size = measure_bytes(key, maximum)
        if size <= maximum:
            size += self._measure(value, maximum - size)
        with self._lock:
            self._remove(key)
            if size > maximum or self.max_entries < 1:
                return
            self[key] = value
            self._sizes[key] = size = size + ENTRY_BYTES
            self.bytes += size
            while len(self) > self.max_entries or self.bytes > self.max_bytes:
                self.bytes -= self._sizes.pop(self.popitem(last=False)[0])

    def discard(self, key: Key) -> None:
        """Remove an entry if it is there."""
        with self._lock:
            self._remove(key)

    def clear(self) -> None:
        with self._lock:
            super().clear()
            self._sizes.clear()
            self.bytes = 0

    def _remove(self, key: Key) -> None:
        size = self._sizes.pop(key, None)
        if size is not None:
            self.bytes -= size
            del self[key]


class ExpiringCache(Generic[Key, Value]):
    """A bounded cache whose entries expire after a time, for the responses of other services. The entries that were
    not used for the longest time are dropped first."""

    def __init__(
        self, *, clock: Clock, max_entries: int, max_entry_bytes: int = 16 << 10, max_bytes: int = 16 << 20
    ) -> None:
        self._clock = clock
        self._entries: BoundedCache[Key, tuple[float, Value]] = BoundedCache(
            max_entries=max_entries, max_entry_bytes=max_entry_bytes, max_bytes=max_bytes
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


def _raise_key_error(key: object) -> Any:
    raise KeyError(key)


def measure_bytes(value: Any, limit: int) -> int:
    """Return the memory that a value takes together with all that it refers to, except types, functions and modules.
    Counting stops beyond the limit."""
    if value.__class__ in _LEAVES:
        return getsizeof(value)
    total, pending, counted = 0, [value], set[int]()
    while pending and total <= limit:
        item = pending.pop()
        if id(item) in counted or isinstance(item, _SHARED):
            continue
        counted.add(id(item))
        total += getsizeof(item)
        if total <= limit:
            pending += gc.get_referents(item)
    return total
