import asyncio
from typing import Any

import pytest

from sampan.machinery.clock import RealClock
from sampan.storage.backend import Batch, Compacted, OnBatch, StorePage, Unavailable
from sampan.storage.cacher import (
    ADDED,
    DELETED,
    MODIFIED,
    Cacher,
    CacherConfig,
    ListQuery,
    VersionExpired,
    WatchClosed,
    WatchQuery,
)
from sampan.storage.memory import MemoryBackend
from sampan.storage.watch_hub import LocalWatch
from tests.storage.cacher.cacher_store import PODS, names, pod, ready, running, shown_events, virtual


class HeldWatch(LocalWatch):
    may_begin: asyncio.Event

    async def __aenter__(self) -> "HeldWatch":
        await self.may_begin.wait()
        await super().__aenter__()
        return self


class Unreliable(MemoryBackend):
    """Its watches can be broken off, its ranges made to fail."""

    def __init__(self) -> None:
        super().__init__(clock=RealClock())
        self.open: list[LocalWatch] = []
        self.may_watch = asyncio.Event()
        self.may_watch.set()
        self.range_errors: list[Exception | None] = []

    async def __aenter__(self) -> "Unreliable":
        await super().__aenter__()
        return self

    def watch(self, prefix: str, *, after: int, on_batch: OnBatch | None = None) -> LocalWatch:
        watch = HeldWatch(hub=self._hub, prefix=prefix, after=after, on_batch=on_batch)
        watch.may_begin = self.may_watch
        self.open.append(watch)
        return watch

    async def range(self, prefix: str, **kwargs: Any) -> StorePage:
        fault = self.range_errors.pop(0) if self.range_errors else None
        if fault is not None:
            raise fault
        return await super().range(prefix, **kwargs)

    def break_off(self, fault: Exception) -> None:
        self.open.pop().end(fault)

    async def make(self, name: str, **content: Any) -> int:
        return await self.put(PODS.key("default", name), pod(name, **content))


@virtual
async def test_after_a_lost_connection_it_goes_on_where_it_was() -> None:
    async with Unreliable() as backend, running(backend) as cacher:
        await backend.make("a")
        async with cacher.watch(WatchQuery()) as watcher:
            for round in range(5):
                backend.break_off(Unavailable("lost"))
                await backend.make("a", round=round)
                await backend.make(f"b{round}")
                await backend.delete(PODS.key("default", f"b{round}"))
                await asyncio.sleep(10)
            assert shown_events(ready(watcher)) == [
                (ADDED, "a"),
                *(step for n in range(5) for step in ((MODIFIED, "a"), (ADDED, f"b{n}"), (DELETED, f"b{n}"))),
            ]
        assert cacher.stats().fills == 1


@virtual
async def test_what_the_store_has_forgotten_ends_watchers_and_is_read_anew() -> None:
    async with Unreliable() as backend, running(backend) as cacher:
        for name in "abc":
            await backend.make(name)
        async with cacher.watch(WatchQuery()) as watcher:
            kept = await cacher.get("default", "c")
            backend.break_off(Unavailable("lost"))
            backend.may_watch.clear()
            await backend.make("a", new="yes")
            await backend.delete(PODS.key("default", "b"))
            await backend.make("d")
            now = await backend.current_revision()
            await backend.compact(now)
            await asyncio.sleep(1)
            assert names(await cacher.list(ListQuery(resource_version="0"))) == ["a", "b", "c"]
            backend.may_watch.set()
            await asyncio.sleep(10)
            assert shown_events(ready(watcher)) == [(ADDED, "a"), (ADDED, "b"), (ADDED, "c")]
            with pytest.raises(VersionExpired, match=rf"^too old resource version: \d+ \({now}\)$"):
                await anext(watcher)
        assert names(await cacher.list(ListQuery())) == ["a", "c", "d"]
        assert await cacher.get("default", "c") is kept
        assert (cacher.stats().fills, cacher.stats().history_floor, cacher.stats().watchers) == (2, now, 0)
        async with cacher.watch(WatchQuery(resource_version=str(now))) as watcher:
            await backend.make("e")
            assert shown_events(ready(watcher)) == [(ADDED, "e")]


@virtual
async def test_readers_wait_over_a_lost_connection() -> None:
    async with Unreliable() as backend, running(backend) as cacher:
        await backend.make("a")
        await cacher.wait_ready()
        backend.break_off(Unavailable("lost"))
        await backend.make("b")
        assert names(await cacher.list(ListQuery())) == ["a", "b"]


@virtual
async def test_it_starts_over_until_everything_is_read() -> None:
    async with Unreliable() as backend:
        for i in range(2500):
            await backend.make(f"p{i:04}")
        down = Unavailable("down")
        backend.range_errors = [down, down, down, None, Compacted(5, 9), down]
        config = CacherConfig(retry_s=(1.0, 4.0), ready_s=60.0)
        async with running(backend, PODS, config) as cacher:
            await cacher.wait_ready()
            # 0 + 1 + 2 + 4 + 4 seconds of pauses
            assert asyncio.get_running_loop().time() == pytest.approx(11)
            assert len((await cacher.list(ListQuery())).items) == 2500


@virtual
async def test_it_ends_when_the_store_is_closed() -> None:
    backend = MemoryBackend(clock=RealClock())
    async with backend:
        cacher = Cacher(backend=backend, shape=PODS, decode=lambda raw: raw)
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(cacher.run())
            watcher = await cacher.watch(WatchQuery()).__aenter__()
            await backend.__aexit__(None, None, None)
            await task
        with pytest.raises(WatchClosed):
            await anext(watcher)


@virtual
async def test_an_error_of_the_reflector_itself_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MemoryBackend(clock=RealClock()) as backend:
        cacher = Cacher(backend=backend, shape=PODS, decode=lambda raw: raw)

        def broken(batch: Batch) -> None:
            raise LookupError("a bug")

        monkeypatch.setattr(cacher._state, "apply", broken)
        running = asyncio.ensure_future(cacher.run())
        watcher = await cacher.watch(WatchQuery()).__aenter__()
        await backend.put(PODS.key("default", "a"), pod("a"))
        with pytest.raises(ExceptionGroup) as fault:
            await running
        assert fault.group_contains(LookupError, match="a bug")
        with pytest.raises(WatchClosed):
            await anext(watcher)
