"""What watchers may hold in memory, one by one and together."""

import gc

from sampan.storage.cacher import CacherConfig, WatchBudget, Watcher, WatchLimits
from sampan.storage.cacher.watch_budget import WatchCharge
from tests.storage.cacher.cacher_store import pods, ready, virtual

LARGE = "x" * 10_000


@virtual
async def test_one_send_takes_a_bounded_part_of_a_long_queue() -> None:
    async with pods() as world, world.watch() as watcher:
        for number in range(100):
            await world.put(f"p{number:02}", pad=LARGE)
        sends = []
        while events := watcher.pop_ready():
            sends.append(events)
        sizes = [sum(len(event.item.body) for event in events) for events in sends]
        assert max(sizes) < Watcher.BATCH_BYTES + 11_000
        assert len(sends) > 3
        assert [event.item.name for events in sends for event in events] == [f"p{n:02}" for n in range(100)]
        assert watcher.queued_bytes == 0


@virtual
async def test_one_send_takes_a_bounded_part_of_the_initial_list() -> None:
    async with pods() as world:
        for number in range(100):
            await world.put(f"p{number:02}", pad=LARGE)
        async with world.watch() as watcher:
            await world.put("q", pad=LARGE)
            sends = []
            while events := watcher.pop_ready():
                sends.append(events)
            assert max(len(events) for events in sends) < 30
            assert len([event for events in sends for event in events]) == 101


@virtual
async def test_an_event_counts_once_however_many_watchers_queue_it() -> None:
    budget = WatchBudget()
    async with (
        pods(watch_budget=budget) as world,
        world.watch() as first,
        world.watch() as second,
        world.watch() as third,
    ):
        await world.put("a", pad=LARGE)
        assert 10_000 < budget.used < 11_000
        ready(first)
        ready(second)
        assert budget.used > 10_000, "the third still has it"
        ready(third)
        assert budget.used == 0


@virtual
async def test_watchers_that_do_not_read_are_terminated_when_all_hold_too_much() -> None:
    budget = WatchBudget(limit=200_000)
    async with pods(watch_budget=budget) as world, world.watch() as reader:
        deaf = [world.watch() for _ in range(20)]
        for watcher in deaf:
            await watcher.__aenter__()
            watcher.block()
        count = 0
        for number in range(100):
            await world.put(f"p{number:02}", pad=LARGE)
            assert budget.used <= 200_000
            count += len(ready(reader))
        assert count == 100, "the one that reads misses nothing"
        assert all(watcher.is_ended for watcher in deaf)
        assert world.cacher.stats().cut_off == 20
        assert budget.used == 0


@virtual
async def test_buffers_of_connections_count_as_well() -> None:
    budget = WatchBudget(limit=100_000)
    async with pods(watch_budget=budget) as world, world.watch() as first, world.watch() as second:
        for watcher in (first, second):
            watcher.block()
            watcher.at_end(lambda: budget.give_back(60_000))
            budget.hold(60_000)
        assert (first.is_ended, second.is_ended) == (True, False)
        assert budget.used == 60_000


@virtual
async def test_a_watcher_that_is_behind_is_not_terminated_before_those_that_do_not_read() -> None:
    budget = WatchBudget(limit=100_000)
    async with pods(watch_budget=budget) as world, world.watch() as behind, world.watch() as deaf:
        deaf.block()
        budget.hold(60_000)
        deaf.at_end(lambda: budget.give_back(60_000))
        for number in range(5):
            await world.put(f"p{number}", pad=LARGE)
        assert deaf.is_ended
        assert not behind.is_ended


@virtual
async def test_a_client_that_does_not_read_may_leave_less_than_one_that_does() -> None:
    limits = WatchLimits(events=50, blocked_events=10, blocked_s=0)
    async with pods(CacherConfig(watch=limits)) as world, world.watch() as deaf, world.watch() as late:
        deaf.block()
        for number in range(30):
            await world.put(f"p{number:02}")
        assert deaf.is_ended
        assert len(ready(late)) == 30


@virtual
async def test_a_client_that_reads_again_soon_enough_stays() -> None:
    limits = WatchLimits(blocked_events=10, blocked_s=60)
    async with pods(CacherConfig(watch=limits)) as world, world.watch() as watcher:
        watcher.block()
        for number in range(30):
            await world.put(f"p{number:02}")
        watcher.unblock()
        assert len(ready(watcher)) == 30


def test_a_charge_ends_with_the_last_reference_to_it() -> None:
    freed: list[int] = []
    budget = WatchBudget(freed=freed.append)
    gc.disable()
    try:
        held = [WatchCharge(budget, 7)] * 3
        assert (budget.used, freed) == (7, [])
        held.clear()
        assert (budget.used, freed) == (0, [7])
    finally:
        gc.enable()
