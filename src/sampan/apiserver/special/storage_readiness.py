"""The readiness check for the watch caches.

kube-apiserver also waits for its watch caches (feature WatchCacheInitializationPostStartHook). Here a cache is created
when its resource is first requested; those of resources that have objects are created at the start, so that the first
lists after /readyz succeeds do not wait. Events are excluded: there are many of them, they are rarely the first to be
requested, and kube-apiserver has no watch cache for them either.
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
"""After this time the server is ready in any case, as kube-apiserver is: requests wait for the caches they need."""
_EVENTS = "/registry/events"


class StorageReadiness:
    def __init__(self, *, registry: Registry) -> None:
        self._registry = registry
        self._is_ready = False
        self._waiting_for = "the resources in the store"

    def check(self) -> Check:
        return Check("poststarthook/storage-readiness", self._probe, is_transient=True)

    async def run(self) -> None:
        """Create the caches and wait until they are filled."""
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
        """Return one resource for each storage prefix."""
        resources: dict[str, Resource] = {}
        for resource in self._registry.scheme:
            if resource.storage is not None and not resource.is_custom and resource.storage_prefix != _EVENTS:
                resources.setdefault(resource.storage_prefix, resource)
        return list(resources.values())

    async def _has_objects(self, resource: Resource) -> bool:
        page = await self._registry.backend.range(resource.storage_prefix + "/", limit=1)
        return bool(page.entries)

    async def _probe(self) -> None:
        if not self._is_ready:
            raise RuntimeError(f"the watch cache of {self._waiting_for} is not filled yet")
