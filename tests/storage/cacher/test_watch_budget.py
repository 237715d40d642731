"""Limits on the memory of each watcher and of all watchers together."""

import gc

from sampan.storage.cacher import CacherConfig, WatchBudget, Watcher, WatchLimits
from sampan.storage.cacher.watch_budget import WatchCharge
from tests.storage.cacher.cacher_store import open_pod_store, pop_ready_events, run_in_virtual_time

LARGE = "x" * 10_000


@run_in_virtual_time
async def test_batches_of_a_long_queue_are_bounded() -> None:
    async with open_pod_store() as store, store.watch() as watcher:
        for number in range(100):
            await store.put(f"p{number:02}", pad=LARGE)
        sends = []
        while events := watcher.pop_ready():
            sends.append(events)
        sizes = [sum(len(event.item.body) for event in events) for events in sends]
        assert max(sizes) < Watcher.BATCH_BYTES + 11_000
        assert len(sends) > 3
        assert [event.item.name for events in sends for event in events] == [f"p{n:02}" for n in range(100)]
        assert watcher.queued_bytes == 0


@run_in_virtual_time
async def test_batches_of_initial_events_are_bounded() -> None:
    async with open_pod_store() as store:
        for number in range(100):
            await store.put(f"p{number:02}", pad=LARGE)
        async with store.watch() as watcher:
            await store.put("q", pad=LARGE)
            sends = []
            while events := watcher.pop_ready():
                sends.append(events)
            assert max(len(events) for events in sends) < 30
            assert len([event for events in sends for event in events]) == 101


@run_in_virtual_time
async def test_event_queued_by_several_watchers_is_charged_once() -> None:
    budget = WatchBudget()
    async with (
        open_pod_store(watch_budget=budget) as store,
        store.watch() as first,
        store.watch() as second,
        store.watch() as third,
    ):
        await store.put("a", pad=LARGE)
        assert 10_000 < budget.used < 11_000
        pop_ready_events(first)
        pop_ready_events(second)
        assert budget.used > 10_000, "the third watcher still has the event"
        pop_ready_events(third)
        assert budget.used == 0


@run_in_virtual_time
async def test_blocked_watchers_are_terminated_when_the_budget_is_exceeded() -> None:
    budget = WatchBudget(limit=200_000)
    async with open_pod_store(watch_budget=budget) as store, store.watch() as reader:
        blocked = [store.watch() for _ in range(20)]
        for watcher in blocked:
            await watcher.__aenter__()
            watcher.block()
        count = 0
        for number in range(100):
            await store.put(f"p{number:02}", pad=LARGE)
            assert budget.used <= 200_000
            count += len(pop_ready_events(reader))
        assert count == 100, "the watcher that reads misses no event"
        assert all(watcher.is_ended for watcher in blocked)
        assert store.cacher.stats().cut_off == 20
        assert budget.used == 0


@run_in_virtual_time
async def test_connection_buffers_are_charged_to_the_budget() -> None:
    budget = WatchBudget(limit=100_000)
    async with open_pod_store(watch_budget=budget) as store, store.watch() as first, store.watch() as second:
        for watcher in (first, second):
            watcher.block()
            watcher.set_end_callback(lambda: budget.give_back(60_000))
            budget.hold(60_000)
        assert (first.is_ended, second.is_ended) == (True, False)
        assert budget.used == 60_000


@run_in_virtual_time
async def test_blocked_watcher_is_terminated_before_a_slow_watcher() -> None:
    budget = WatchBudget(limit=100_000)
    async with open_pod_store(watch_budget=budget) as store, store.watch() as slow, store.watch() as blocked:
        blocked.block()
        budget.hold(60_000)
        blocked.set_end_callback(lambda: budget.give_back(60_000))
        for number in range(5):
            await store.put(f"p{number}", pad=LARGE)
        assert blocked.is_ended
        assert not slow.is_ended


@run_in_virtual_time
async def test_blocked_watcher_has_a_lower_queue_limit() -> None:
    limits = WatchLimits(events=50, blocked_events=10, blocked_s=0)
    async with open_pod_store(CacherConfig(watch=limits)) as store, store.watch() as blocked, store.watch() as slow:
        blocked.block()
        for number in range(30):
            await store.put(f"p{number:02}")
        assert blocked.is_ended
        assert len(pop_ready_events(slow)) == 30


@run_in_virtual_time
async def test_watcher_that_is_unblocked_in_time_is_kept() -> None:
    limits = WatchLimits(blocked_events=10, blocked_s=60)
    async with open_pod_store(CacherConfig(watch=limits)) as store, store.watch() as watcher:
        watcher.block()
        for number in range(30):
            await store.put(f"p{number:02}")
        watcher.unblock()
        assert len(pop_ready_events(watcher)) == 30


def test_charge_ends_with_its_last_reference() -> None:
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
