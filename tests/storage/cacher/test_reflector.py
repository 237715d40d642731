import asyncio
from typing import Any

import pytest

from sampan.host.clock import RealClock
from sampan.storage.backend import Compacted, EventBatch, OnBatch, StorePage, Unavailable
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
from tests.storage.cacher.cacher_store import (
    PODS,
    names,
    pod,
    pop_ready_events,
    run_in_virtual_time,
    running_cacher,
    summarize_events,
)


class HeldWatch(LocalWatch):
    may_start: asyncio.Event

    async def __aenter__(self) -> "HeldWatch":
        await self.may_start.wait()
        await super().__aenter__()
        return self


class Unreliable(MemoryBackend):
    """A store whose watches can be ended and whose ranges can fail."""

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
        watch.may_start = self.may_watch
        self.open.append(watch)
        return watch

    async def range(self, prefix: str, **kwargs: Any) -> StorePage:
        error = self.range_errors.pop(0) if self.range_errors else None
        if error is not None:
            raise error
        return await super().range(prefix, **kwargs)

    def end_watch(self, error: Exception) -> None:
        self.open.pop().end(error)

    async def put_pod(self, name: str, **content: Any) -> int:
        return await self.put(PODS.key("default", name), pod(name, **content))


@run_in_virtual_time
async def test_watch_resumes_after_a_lost_connection() -> None:
    async with Unreliable() as backend, running_cacher(backend) as cacher:
        await backend.put_pod("a")
        async with cacher.watch(WatchQuery()) as watcher:
            for round in range(5):
                backend.end_watch(Unavailable("lost"))
                await backend.put_pod("a", round=round)
                await backend.put_pod(f"b{round}")
                await backend.delete(PODS.key("default", f"b{round}"))
                await asyncio.sleep(10)
            assert summarize_events(pop_ready_events(watcher)) == [
                (ADDED, "a"),
                *(step for n in range(5) for step in ((MODIFIED, "a"), (ADDED, f"b{n}"), (DELETED, f"b{n}"))),
            ]
        assert cacher.stats().fills == 1


@run_in_virtual_time
async def test_compaction_while_disconnected_ends_watchers_and_refills_the_cache() -> None:
    async with Unreliable() as backend, running_cacher(backend) as cacher:
        for name in "abc":
            await backend.put_pod(name)
        async with cacher.watch(WatchQuery()) as watcher:
            kept = await cacher.get("default", "c")
            backend.end_watch(Unavailable("lost"))
            backend.may_watch.clear()
            await backend.put_pod("a", new="yes")
            await backend.delete(PODS.key("default", "b"))
            await backend.put_pod("d")
            now = await backend.current_revision()
            await backend.compact(now)
            await asyncio.sleep(1)
            assert names(await cacher.list(ListQuery(resource_version="0"))) == ["a", "b", "c"]
            backend.may_watch.set()
            await asyncio.sleep(10)
            assert summarize_events(pop_ready_events(watcher)) == [(ADDED, "a"), (ADDED, "b"), (ADDED, "c")]
            with pytest.raises(VersionExpired, match=rf"^too old resource version: \d+ \({now}\)$"):
                await anext(watcher)
        assert names(await cacher.list(ListQuery())) == ["a", "c", "d"]
        assert await cacher.get("default", "c") is kept
        assert (cacher.stats().fills, cacher.stats().history_floor, cacher.stats().watchers) == (2, now, 0)
        async with cacher.watch(WatchQuery(resource_version=str(now))) as watcher:
            await backend.put_pod("e")
            assert summarize_events(pop_ready_events(watcher)) == [(ADDED, "e")]


@run_in_virtual_time
async def test_list_waits_for_the_reconnect_after_a_lost_connection() -> None:
    async with Unreliable() as backend, running_cacher(backend) as cacher:
        await backend.put_pod("a")
        await cacher.wait_ready()
        backend.end_watch(Unavailable("lost"))
        await backend.put_pod("b")
        assert names(await cacher.list(ListQuery())) == ["a", "b"]


@run_in_virtual_time
async def test_initial_fill_is_retried_with_back_off() -> None:
    async with Unreliable() as backend:
        for i in range(2500):
            await backend.put_pod(f"p{i:04}")
        down = Unavailable("down")
        backend.range_errors = [down, down, down, None, Compacted(5, 9), down]
        config = CacherConfig(retry_s=(1.0, 4.0), ready_s=60.0)
        async with running_cacher(backend, PODS, config) as cacher:
            await cacher.wait_ready()
            # 0 + 1 + 2 + 4 + 4 seconds of pauses
            assert asyncio.get_running_loop().time() == pytest.approx(11)
            assert len((await cacher.list(ListQuery())).items) == 2500


@run_in_virtual_time
async def test_cacher_stops_when_the_store_is_closed() -> None:
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


@run_in_virtual_time
async def test_internal_error_stops_the_cacher_and_its_watchers(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MemoryBackend(clock=RealClock()) as backend:
        cacher = Cacher(backend=backend, shape=PODS, decode=lambda raw: raw)

        def fail(batch: EventBatch) -> None:
            raise LookupError("a bug")

        monkeypatch.setattr(cacher._state, "apply", fail)
        running = asyncio.ensure_future(cacher.run())
        watcher = await cacher.watch(WatchQuery()).__aenter__()
        await backend.put(PODS.key("default", "a"), pod("a"))
        with pytest.raises(ExceptionGroup) as error:
            await running
        assert error.group_contains(LookupError, match="a bug")
        with pytest.raises(WatchClosed):
            await anext(watcher)
