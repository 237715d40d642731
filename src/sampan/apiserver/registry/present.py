"""What is stored of an object when a write meets it, and trying again when it was not so any more.

The state that a write starts from comes from the cache, which may be behind the store where several servers share one.
A write from an old state fails by its compare and swap. A refusal that rests on an old state would be an error that
never was, so it is believed only if the store shows the same.
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
    """An object as it is stored: its bytes as clients see them, and the object, which is shared and read-only."""

    __slots__ = ("_codec", "_obj", "is_current", "item", "raw")

    def __init__(self, item: Item, codec: ResourceCodec, *, is_current: bool) -> None:
        self.item, self.raw, self._codec = item, item.raw, codec
        self._obj: Any = item.decoded
        self.is_current = is_current
        """The store has shown it; else it is what the cache has."""

    @property
    def revision(self) -> int:
        return self.item.revision

    @property
    def obj(self) -> Any:
        if self._obj is None:
            self._obj = self._codec.decode(self.raw)
        return self._obj

    def copy(self) -> Any:
        """The object for the caller to change."""
        return self._codec.decode(self.raw)


class Presence:
    """Reads of one resource's objects for writes."""

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
        """Act on what is stored, again when `act` meets a `Conflict`: then another writer has succeeded, so that there
        is always somebody who gets on. With `from_store` the cache is not asked."""
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
        """For an outcome that writes nothing, so that no compare and swap can fail: `Conflict` if the state is old."""
        if not present.is_current:
            entry, _ = await self._backend.get(present.item.key)
            if entry is None or entry.revision != present.revision:
                raise Conflict(present.item.key, entry)

    def of(self, entry: Entry | None) -> Present | None:
        if entry is None:
            return None
        return Present(self._items.make(entry.key, entry.value, entry.revision), self._codec, is_current=True)

    def cached(self, namespace: str, name: str) -> Present | None:
        """What the cache has now."""
        item = self._cacher.peek(namespace, name)
        return None if item is None else Present(item, self._codec, is_current=False)

    async def stored(self, key: str) -> Present | None:
        """What the store has under a key now."""
        return self.of((await self._backend.get(key))[0])


def _revision(present: Present | None) -> int:
    return present.revision if present is not None else 0


__all__ = ["Presence", "Present"]
