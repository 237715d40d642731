"""/readyz waits for the watch caches of what the store holds."""

import asyncio
from typing import Any

import pytest

from sampan.apiserver.nonresource.health import StorageReadiness
from sampan.machinery.clock import RealClock
from sampan.storage.backend import StorePage
from sampan.storage.memory import MemoryBackend
from tests.api_server import serving

POD = b"""{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"default"}}"""


class Held(MemoryBackend):
    """Pods cannot be read until the test says so."""

    def __init__(self) -> None:
        super().__init__(clock=RealClock())
        self.may_read = asyncio.Event()

    async def range(self, prefix: str, *, limit: int = 0, **rest: Any) -> StorePage:
        if prefix == "/registry/pods/" and limit != 1:
            await self.may_read.wait()
        return await super().range(prefix, limit=limit, **rest)


async def test_not_ready_before_the_caches_of_stored_objects_are_filled() -> None:
    async with serving() as server:
        backend = Held()
        async with backend:
            await backend.put("/registry/pods/default/a", POD)
            await backend.put("/registry/events/default/a", POD)
            registry = server.registry
            registry.backend = backend
            readiness = StorageReadiness(registry=registry)
            before = len(registry.stores())
            task = asyncio.create_task(readiness.run())
            probe = readiness.check().probe
            while len(registry.stores()) == before:
                with pytest.raises(RuntimeError, match="is not filled yet"):
                    await probe()
                await asyncio.sleep(0)
            assert [store.cacher.shape.plural for store in registry.stores()][before:] == ["pods"]
            with pytest.raises(RuntimeError, match="the watch cache of pods is not filled yet"):
                await _settled(probe)
            backend.may_read.set()
            await task
            await probe()


async def _settled(probe: Any) -> None:
    for _ in range(10):
        await asyncio.sleep(0)
    await probe()
