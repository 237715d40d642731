"""Whether the watch caches of what the store holds are filled: a part of /readyz.

The real server waits for its watch caches too (the feature WatchCacheInitializationPostStartHook). Here a cache is
opened when somebody asks for its resource; those of resources that have objects are opened at the start, so that the
first lists after /readyz says ok do not wait. Events are left out: there are many of them, and nobody asks for them
first; the real server has no watch cache for them.
"""

from __future__ import annotations

import asyncio
import logging

from sampan.api.resource import Resource
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.special.health import Check
from sampan.storage.backend import StorageError

log = logging.getLogger(__name__)

_LONGEST_S = 60.0
"""The server is ready after that time in any case, as the real one is: requests wait for what they need."""
_EVENTS = "/registry/events"


class StorageReadiness:
    def __init__(self, *, registry: Registry) -> None:
        self._registry = registry
        self._is_ready = False
        self._waiting_for = "the resources in the store"

    def check(self) -> Check:
        return Check("poststarthook/storage-readiness", self._probe, is_transient=True)

    async def run(self) -> None:
        """Open the caches and wait until they are filled."""
        try:
            async with asyncio.timeout(_LONGEST_S):
                await self._fill()
        except (TimeoutError, StorageError) as error:
            log.warning("the watch cache of %s is not filled: %s", self._waiting_for, error or "it takes too long")
        self._is_ready = True

    async def _fill(self) -> None:
        stores = [self._registry.store(resource) for resource in self._stored() if await self._has_objects(resource)]
        for store in stores:
            self._waiting_for = store.cacher.shape.plural
            await store.cacher.wait_filled()

    def _stored(self) -> list[Resource]:
        """One resource for each place in the store."""
        found: dict[str, Resource] = {}
        for resource in self._registry.scheme:
            if resource.storage is not None and not resource.is_custom and resource.storage_prefix != _EVENTS:
                found.setdefault(resource.storage_prefix, resource)
        return list(found.values())

    async def _has_objects(self, resource: Resource) -> bool:
        page = await self._registry.backend.range(resource.storage_prefix + "/", limit=1)
        return bool(page.entries)

    async def _probe(self) -> None:
        if not self._is_ready:
            raise RuntimeError(f"the watch cache of {self._waiting_for} is not filled yet")


__all__ = ["StorageReadiness"]
