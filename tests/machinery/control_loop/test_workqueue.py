"""The work queue: its guarantees one by one, and for random sequences of operations."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.host import time_slice
from sampan.host.activity import Activity
from sampan.host.backoff import Backoff
from sampan.host.clock import RealClock, VirtualClock
from sampan.machinery.control_loop.workqueue import ShutDown, WorkQueue

Body = Callable[[VirtualClock, WorkQueue[str]], Awaitable[None]]


def run(body: Body, backoff: Backoff | None = None) -> None:
    async def main() -> None:
        clock, activity = VirtualClock(), Activity()
        queue: WorkQueue[str] = WorkQueue(clock=clock, backoff=backoff, activity=activity)
        clock.on_idle(activity.idle)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            delays = group.create_task(queue.run())
            await body(clock, queue)
            delays.cancel()

    asyncio.run(main())


def test_keys_are_returned_once_in_the_order_of_addition() -> None:
    async def body(clock: VirtualClock, queue: WorkQueue[str]) -> None:
        for key in "abab":
            queue.add(key)
        assert len(queue) == 2
        assert [await queue.get(), await queue.get()] == ["a", "b"]

    run(body)


def test_key_added_while_it_is_processed_is_queued_again_when_done() -> None:
    async def body(clock: VirtualClock, queue: WorkQueue[str]) -> None:
        queue.add("a")
        key = await queue.get()
        queue.add("a")
        queue.add("a")
        assert len(queue) == 0
        queue.done(key)
        assert len(queue) == 1
        assert await queue.get() == "a"
        queue.done("a")
        assert len(queue) == 0

    run(body)


def test_get_waits_for_a_key() -> None:
    async def body(clock: VirtualClock, queue: WorkQueue[str]) -> None:
        async with asyncio.TaskGroup() as group:
            getting = group.create_task(queue.get())
            await asyncio.sleep(0)
            assert not getting.done()
            queue.add("a")
        assert getting.result() == "a"

    run(body)


def test_cancelled_get_loses_no_key() -> None:
    async def body(clock: VirtualClock, queue: WorkQueue[str]) -> None:
        async with asyncio.TaskGroup() as group:
            first, second = group.create_task(queue.get()), group.create_task(queue.get())
            await asyncio.sleep(0)
            queue.add("a")
            first.cancel()
        assert second.result() == "a"

    run(body)


def test_shortest_delay_of_a_key_applies() -> None:
    async def body(clock: VirtualClock, queue: WorkQueue[str]) -> None:
        queue.add_after("a", 10)
        queue.add_after("b", 20)
        queue.add_after("b", 5)
        queue.add_after("b", 30)
        queue.add_after("now", 0)
        assert await queue.get() == "now"
        await clock.advance(4.9)
        assert len(queue) == 0
        await clock.advance(0.1)
        assert await queue.get() == "b"
        await clock.advance(5)
        assert await queue.get() == "a"
        queue.done("b")
        await clock.advance(100)
        assert (len(queue), queue.delayed) == (0, 0)

    run(body)


def test_backoff_doubles_up_to_the_maximum_and_restarts_after_forget() -> None:
    async def body(clock: VirtualClock, queue: WorkQueue[str]) -> None:
        pauses = [queue.retry("a") for _ in range(20)]
        assert pauses[:5] == [0.005, 0.01, 0.02, 0.04, 0.08]
        assert pauses[17:] == [655.36, 1000.0, 1000.0]
        assert queue.failures("a") == 20
        assert queue.retry("b") == 0.005
        queue.forget("a")
        assert queue.retry("a") == 0.005

    run(body)


def test_backoff_can_be_configured() -> None:
    async def body(clock: VirtualClock, queue: WorkQueue[str]) -> None:
        assert [queue.retry("a") for _ in range(4)] == [1, 2, 3, 3]

    run(body, Backoff(first_s=1, max_s=3))


def test_shut_down_queue_returns_ready_keys_and_accepts_no_new_keys() -> None:
    async def body(clock: VirtualClock, queue: WorkQueue[str]) -> None:
        queue.add("a")
        queue.add_after("later", 1)
        queue.shut_down()
        queue.add("b")
        assert await queue.get() == "a"
        async with asyncio.TaskGroup() as group:
            drained = group.create_task(queue.wait_until_drained())
            await asyncio.sleep(0)
            assert not drained.done()
            queue.done("a")
        await clock.advance(10)
        with pytest.raises(ShutDown):
            await queue.get()

    run(body)


def test_shut_down_wakes_waiting_workers() -> None:
    async def body(clock: VirtualClock, queue: WorkQueue[str]) -> None:
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(_is_shut_down(queue)) for _ in range(3)]
            await asyncio.sleep(0)
            queue.shut_down()
        assert all(task.result() for task in waiting)

    run(body)


async def _is_shut_down(queue: WorkQueue[str]) -> bool:
    try:
        await queue.get()
    except ShutDown:
        return True
    return False


def test_statistics() -> None:
    async def body(clock: VirtualClock, queue: WorkQueue[str]) -> None:
        queue.add("a")
        queue.add("a")
        await clock.advance(3)
        await queue.get()
        queue.retry("a")
        assert (queue.stats.adds, queue.stats.retries, queue.stats.waits.total) == (1, 1, 3.0)
        assert (queue.active, queue.delayed) == (1, 1)

    run(body)


_steps = st.lists(
    st.tuples(st.sampled_from(["add", "add_after", "retry", "advance", "work"]), st.sampled_from("abc")), max_size=60
)


@given(_steps, st.integers(1, 4))
def test_every_addition_is_processed_later_by_one_worker_at_a_time(steps: list[tuple[str, str]], workers: int) -> None:
    """Each key has a version counter: the last worker of a key sees the version of the last addition."""
    expected = dict.fromkeys("abc", 0)
    processed = dict.fromkeys("abc", 0)

    async def body(clock: VirtualClock, queue: WorkQueue[str]) -> None:
        active: set[str] = set()

        async def work() -> None:
            while True:
                key = await queue.get()
                assert key not in active
                active.add(key)
                processed[key] = expected[key]
                await clock.sleep(0.003)
                active.remove(key)
                queue.done(key)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work()) for _ in range(workers)]
            for operation, key in steps:
                if operation == "advance":
                    await clock.advance(0.002)
                elif operation == "work":
                    await asyncio.sleep(0)
                else:
                    expected[key] += 1
                    _enqueue(queue, operation, key)
            await clock.advance(5000)
            for task in tasks:
                task.cancel()

    run(body)
    assert processed == expected


def _enqueue(queue: WorkQueue[str], operation: str, key: str) -> Any:
    if operation == "add_after":
        return queue.add_after(key, 0.004)
    return queue.add(key) if operation == "add" else queue.retry(key)


@pytest.mark.parametrize("jump_s", [-3600, 3600], ids=["back", "forward"])
def test_wall_clock_jump_does_not_affect_delays(jump_s: int) -> None:
    async def body(clock: VirtualClock, queue: WorkQueue[str]) -> None:
        queue.add_after("later", 10)
        assert queue.retry("failed") == 5
        await clock.advance(4)
        clock.set_wall_clock(clock.now() + jump_s)
        await clock.advance(0.5)
        assert len(queue) == 0
        await clock.advance(0.5)
        assert await queue.get() == "failed"
        await clock.advance(5)
        assert await queue.get() == "later"

    run(body, Backoff(5, 100))


@pytest.mark.parametrize("jump_s", [-3600, 3600], ids=["back", "forward"])
def test_delay_that_follows_the_wall_clock_is_recomputed_after_a_jump(jump_s: int) -> None:
    async def body(clock: VirtualClock, queue: WorkQueue[str]) -> None:
        queue.add_after("timer", 100)
        queue.add_after("deadline", 100, follows_wall_clock=True)
        await clock.advance(4)
        assert len(queue) == 0
        clock.set_wall_clock(clock.now() + jump_s)
        await clock.settle()
        assert [await queue.get()] == ["deadline"]
        assert (len(queue), queue.delayed) == (0, 1)
        queue.done("deadline")
        queue.add_after("deadline", 50, follows_wall_clock=True)
        await clock.advance(50)
        assert await queue.get() == "deadline"

    run(body)


async def test_other_tasks_run_while_many_keys_are_processed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slice, "SLICE_S", -1.0)
    queue: WorkQueue[int] = WorkQueue(clock=RealClock())
    for key in range(100):
        queue.add(key)
    turns = 0

    async def work(key: int) -> None:
        if key == 99:
            queue.shut_down()

    async def count_turns() -> None:
        nonlocal turns
        while not queue.is_shut_down:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(count_turns())
        serving = group.create_task(queue.serve(work, 5))
        await queue.wait_until_drained()
        serving.cancel()
    assert turns > 50
