"""Keeps the index of roles and bindings up to date with the watch caches."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sampan.apiserver.authz.rbac.authorizer import GROUP, KINDS, Kind, RbacIndex
from sampan.storage.cacher import BOOKMARK, DELETED, Watcher, WatchQuery
from sampan.storage.cacher.follower import follow_events

if TYPE_CHECKING:
    from sampan.apiserver.registry.registry import Registry
    from sampan.apiserver.registry.store import Store


class RbacIndexUpdater:
    def __init__(self, *, index: RbacIndex, registry: Registry) -> None:
        self._index, self._registry = index, registry
        self._filled = {kind: asyncio.Event() for kind in KINDS}

    async def wait_filled(self) -> None:
        """Wait until the index contains all existing objects."""
        for filled in self._filled.values():
            await filled.wait()

    async def run(self) -> None:
        """Follow the watch caches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in KINDS:
                group.create_task(self._follow(kind))

    async def _follow(self, kind: Kind) -> None:
        store = self._registry.open_store_of(GROUP, "v1", kind)
        query = WatchQuery(allow_bookmarks=True)
        await follow_events(
            store.cacher, f"objects of kind {kind} for RBAC", lambda watcher: self._take(kind, store, watcher), query
        )

    async def _take(self, kind: Kind, store: Store, watcher: Watcher) -> None:
        """Replace the known objects with the initial ones, then apply each change."""
        initial: list[Any] | None = []
        async for events in watcher:
            for event in events:
                if event.type == BOOKMARK:
                    if initial is not None:
                        self._index.replace(kind, initial)
                        initial = None
                        self._filled[kind].set()
                elif initial is not None:
                    initial.append(store.cacher.object(event.item))
                elif event.type == DELETED:
                    self._index.drop(kind, event.item.namespace, event.item.name)
                else:
                    self._index.put(store.cacher.object(event.item))
