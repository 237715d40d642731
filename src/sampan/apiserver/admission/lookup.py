"""How plug-ins find the objects that a write refers to: from the cache, and where it has nothing, from the store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sampan.apiserver.registry.store import Store


async def find(store: Store, namespace: str, name: str) -> Any | None:
    """The object, shared and read-only. It may be a moment old; that it is missing is certain."""
    found = store.peek(namespace, name)
    return found if found is not None else await find_now(store, namespace, name)


async def find_now(store: Store, namespace: str, name: str) -> Any | None:
    """The object as it is now."""
    item = await store.cacher.get(namespace, name)
    return item.object(store.codec.decode) if item is not None else None


async def everything(store: Store) -> list[Any]:
    """All objects that the cache has now, shared and read-only."""
    await store.cacher.wait_ready()
    return [item.object(store.codec.decode) for item in store.cacher.peek_all()]


async def in_namespace(store: Store, namespace: str) -> list[Any]:
    """The objects that the cache has now in a namespace, in order of their names, shared and read-only."""
    if not store.cacher.is_ready:
        await store.cacher.wait_ready()
    return [item.object(store.codec.decode) for item in store.cacher.peek_in(namespace)]


def newest(found: Iterable[Any]) -> Any | None:
    """The object that was created last; of those of one second the first by name."""
    by_name = sorted(found, key=lambda obj: obj.metadata.name)
    return max(by_name, key=lambda obj: obj.metadata.creationTimestamp or "", default=None)
