import asyncio

import pytest

from sampan.host.clock import VirtualClock
from sampan.storage.backend import Compacted
from sampan.storage.etcd.compaction import MARK, SharedCompaction
from sampan.storage.memory import MemoryBackend


async def test_history_is_compacted_after_one_more_interval() -> None:
    clock = VirtualClock()
    async with MemoryBackend(clock=clock) as store:
        first = await store.put("/registry/a", b"1")
        await store.put("/registry/a", b"2")
        running = asyncio.create_task(SharedCompaction(backend=store, clock=clock, interval_s=60).run())
        await clock.advance(60)
        assert (await store.get("/registry/a", revision=first))[0] is not None
        await clock.advance(60)
        with pytest.raises(Compacted):
            await store.get("/registry/a", revision=first)
        running.cancel()


def test_only_one_of_several_servers_compacts_in_each_interval() -> None:
    async def scenario() -> list[list[bool]]:
        clock = VirtualClock()
        async with MemoryBackend(clock=clock) as store:
            servers = [SharedCompaction(backend=store, clock=clock, interval_s=60) for _ in range(3)]
            return [[await server.run_interval() for server in servers] for _ in range(4)]

    for turn in asyncio.run(scenario()):
        assert turn.count(True) == 1


async def test_the_other_servers_learn_the_compacted_revision() -> None:
    clock = VirtualClock()
    async with MemoryBackend(clock=clock) as store, asyncio.TaskGroup() as group:
        compacting, other = (SharedCompaction(backend=store, clock=clock, interval_s=60) for _ in range(2))
        later = SharedCompaction(backend=store, clock=clock, interval_s=0)
        followers = [group.create_task(other.follow())]
        await compacting.run_interval()
        last = await store.put("/registry/a", b"1")
        await compacting.run_interval()
        await compacting.run_interval()
        assert other.revision >= last
        followers.append(group.create_task(later.follow()))
        await clock.settle()
        assert later.revision == other.revision == store.compacted_revision
        for follower in followers:
            follower.cancel()


def test_invalid_compaction_mark_is_replaced() -> None:
    async def scenario() -> bytes:
        clock = VirtualClock()
        async with MemoryBackend(clock=clock) as store:
            await store.put(MARK, b"rubbish")
            compaction = SharedCompaction(backend=store, clock=clock, interval_s=60)
            assert not await compaction.run_interval()
            assert await compaction.run_interval()
            entry, _ = await store.get(MARK)
            assert entry is not None
            return entry.value

    assert asyncio.run(scenario()).isdigit()
