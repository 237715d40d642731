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
from sampan.storage.backend import Backend, Conflict, Entry
from sampan.storage.cacher import Cacher, Item
from sampan.storage.cacher.item import ItemMaker

Outcome = TypeVar("Outcome")


class Present:
    """A stored object: its bytes as clients see them, and the decoded object, which is shared and read-only."""

    __slots__ = ("_codec", "_obj", "is_current", "item", "raw")

    def __init__(self, item: Item, codec: ResourceCodec, *, is_current: bool) -> None:
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


class Presence:
    """Reads the objects of one resource for writes."""

    def __init__(self, *, backend: Backend, cacher: Cacher, items: ItemMaker, codec: ResourceCodec) -> None:
        self._backend, self._cacher, self._items, self._codec = backend, cacher, items, codec

    async def attempt(
        self,
        namespace: str,
        name: str,
        act: Callable[[Present | None], Awaitable[Outcome]],
        *,
        from_store: bool = False,
    ) -> Outcome:
        """Run `act` on the stored object and return its result, with a retry from the newer state for each `Conflict`.

        A conflict means that another writer succeeded, so there is always progress. An ApiError that is based on an
        outdated cache is retried too. With `from_store`, the first state is read from the store instead of the cache.
        """
        key = self._cacher.shape.key(namespace, name)
        is_current = from_store or not self._cacher.is_ready
        present = await self.stored(key) if is_current else self.cached(namespace, name)
        while True:
            try:
                return await act(present)
            except Conflict as conflict:
                present, is_current = self.of(conflict.current), True
            except errors.ApiError:
                if is_current:
                    raise
                newer = await self.stored(key)
                if _revision(newer) == _revision(present):
                    raise
                present, is_current = newer, True

    async def make_sure(self, present: Present) -> None:
        """Raise `Conflict` if the state is outdated. For outcomes that write nothing and have no compare-and-swap."""
        if not present.is_current:
            entry, _ = await self._backend.get(present.item.key)
            if entry is None or entry.revision != present.revision:
                raise Conflict(present.item.key, entry)

    def of(self, entry: Entry | None) -> Present | None:
        if entry is None:
            return None
        return Present(self._items.make(entry.key, entry.value, entry.revision), self._codec, is_current=True)

    def cached(self, namespace: str, name: str) -> Present | None:
        item = self._cacher.peek(namespace, name)
        return None if item is None else Present(item, self._codec, is_current=False)

    async def stored(self, key: str) -> Present | None:
        return self.of((await self._backend.get(key))[0])


def _revision(present: Present | None) -> int:
    return present.revision if present is not None else 0
