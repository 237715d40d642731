"""Look-ups of objects by admission plugins: from the watch cache, or by a consistent read if they are missing there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sampan.apiserver.registry.store import Store


async def find(store: Store, namespace: str, name: str) -> Any | None:
    """Return the object, shared and read-only. It may be slightly stale, but None means that it certainly does not
    exist."""
    obj = store.peek(namespace, name)
    return obj if obj is not None else await find_now(store, namespace, name)


async def find_now(store: Store, namespace: str, name: str) -> Any | None:
    """Return the current object, by a consistent read."""
    item = await store.cacher.get(namespace, name)
    return item.object(store.codec.decode) if item is not None else None


async def everything(store: Store) -> list[Any]:
    """Return all cached objects, shared and read-only."""
    await store.cacher.wait_ready()
    return [item.object(store.codec.decode) for item in store.cacher.peek_all()]


async def in_namespace(store: Store, namespace: str) -> list[Any]:
    """Return the cached objects of a namespace, ordered by name, shared and read-only."""
    if not store.cacher.is_ready:
        await store.cacher.wait_ready()
    return [item.object(store.codec.decode) for item in store.cacher.peek_in(namespace)]


def newest(objects: Iterable[Any]) -> Any | None:
    """Return the most recently created object; of those created in the same second the first by name."""
    by_name = sorted(objects, key=lambda obj: obj.metadata.name)
    return max(by_name, key=lambda obj: obj.metadata.creationTimestamp or "", default=None)
