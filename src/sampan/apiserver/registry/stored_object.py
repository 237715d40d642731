"""The stored state that a write starts from, and the retry when that state was outdated.

The state comes from the cache, which may lag behind the store when several API servers share one. A write based on an
outdated state fails in its compare-and-swap and is retried. A rejection based on an outdated state would be wrong, so
an error is raised only if the store has the same state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from sampan.apiserver.registry.codec import ResourceCodec
from sampan.machinery import errors
from sampan.storage.backend import Backend, KeyValue, StoreConflict
from sampan.storage.cacher import CacheItem, Cacher, CorruptValue
from sampan.storage.cacher.item import ItemMaker

Result = TypeVar("Result")


class StoredObject:
    """A stored object: its bytes as clients see them, and the decoded object, which is shared and read-only."""

    __slots__ = ("_codec", "_obj", "is_current", "item", "raw")

    def __init__(self, item: CacheItem, codec: ResourceCodec, *, is_current: bool) -> None:
        self.item, self.raw, self._codec = item, item.raw, codec
        self._obj: Any = item.decoded
        self.is_current = is_current
        """Whether the state was read from the store; otherwise it comes from the cache."""

    @property
    def revision(self) -> int:
        return self.item.revision

    @property
    def obj(self) -> Any:
        if self._obj is None:
            self._obj = self._codec.decode(self.raw)
        return self._obj

    def copy(self) -> Any:
        """Return a private copy of the object."""
        return self._codec.decode(self.raw)


class StoredObjects:
    """Reads the objects of one resource for writes."""

    def __init__(self, *, backend: Backend, cacher: Cacher, items: ItemMaker, codec: ResourceCodec) -> None:
        self._backend, self._cacher, self._items, self._codec = backend, cacher, items, codec

    async def guaranteed_update(
        self,
        namespace: str,
        name: str,
        act: Callable[[StoredObject | None], Awaitable[Result]],
        *,
        from_store: bool = False,
    ) -> Result:
        """Run `act` on the stored object and return its result; each `StoreConflict` leads to a retry from the newer
        state.

        A conflict means that another writer succeeded, so there is always progress. An ApiError that is based on an
        outdated cache is retried too. With `from_store`, the first state is read from the store instead of the cache.
        """
        key = self._cacher.shape.key(namespace, name)
        is_current = from_store or not self._cacher.is_ready
        stored = await self.read(key) if is_current else self.peek(namespace, name)
        while True:
            try:
                return await act(stored)
            except StoreConflict as conflict:
                stored, is_current = self.from_entry(conflict.current), True
            except errors.ApiError:
                if is_current:
                    raise
                newer = await self.read(key)
                if _revision(newer) == _revision(stored):
                    raise
                stored, is_current = newer, True

    async def check_current(self, stored: StoredObject) -> None:
        """Raise `StoreConflict` if the state is outdated. Call this for an outcome without a write, for which no
        compare-and-swap notices an outdated state."""
        if not stored.is_current:
            entry, _ = await self._backend.get(stored.item.key)
            if entry is None or entry.revision != stored.revision:
                raise StoreConflict(stored.item.key, entry)

    def from_entry(self, entry: KeyValue | None) -> StoredObject | None:
        if entry is None:
            return None
        return StoredObject(self._items.make(entry.key, entry.value, entry.revision), self._codec, is_current=True)

    def is_readable(self, entry: KeyValue) -> bool:
        """Whether the stored value is an object of the resource."""
        try:
            stored = self.from_entry(entry)
            return stored is not None and stored.obj is not None
        except (CorruptValue, ValueError):
            return False

    def peek(self, namespace: str, name: str) -> StoredObject | None:
        item = self._cacher.peek(namespace, name)
        return None if item is None else StoredObject(item, self._codec, is_current=False)

    async def read(self, key: str) -> StoredObject | None:
        return self.from_entry((await self._backend.get(key))[0])


def _revision(stored: StoredObject | None) -> int:
    return stored.revision if stored is not None else 0
