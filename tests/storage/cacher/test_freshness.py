import asyncio

import pytest

from sampan.storage.backend import Unavailable
from sampan.storage.cacher import SharedRevision, TooLargeVersion
from sampan.storage.cacher.freshness import Freshness
from tests.storage.cacher.cacher_store import virtual


class Store:
    """Returns its revision after a second, and counts the requests."""

    def __init__(self) -> None:
        self.revision = 1
        self.requests = 0
        self.error: Exception | None = None

    async def current_revision(self) -> int:
        self.requests += 1
        revision = self.revision
        await asyncio.sleep(1)
        if self.error is not None:
            raise self.error
        return revision


@virtual
async def test_concurrent_callers_share_a_request() -> None:
    store = Store()
    shared = SharedRevision(store.current_revision)
    async with asyncio.TaskGroup() as tasks:
        first = [tasks.create_task(shared()) for _ in range(50)]
        await asyncio.sleep(0.5)
        store.revision = 2
        later = [tasks.create_task(shared()) for _ in range(50)]
    assert store.requests == 2
    assert first[0].result() == 1
    # Callers during the first request share the second request, which is sent after it.
    assert {task.result() for task in first[1:] + later} == {2}


@virtual
async def test_revision_is_never_older_than_the_call() -> None:
    store = Store()
    shared = SharedRevision(store.current_revision)

    async def ask(after_s: float) -> None:
        await asyncio.sleep(after_s)
        before = store.revision
        assert await shared() >= before

    async def write() -> None:
        for _ in range(100):
            store.revision += 1
            await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write())
        for n in range(60):
            tasks.create_task(ask(n * 0.13))
    assert store.requests <= 12


@virtual
async def test_failure_is_shared_by_waiting_callers_and_not_cached() -> None:
    store = Store()
    shared = SharedRevision(store.current_revision)
    store.error = Unavailable("down")
    results = await asyncio.gather(*(shared() for _ in range(5)), return_exceptions=True)
    assert [type(result) for result in results] == [Unavailable] * 5
    assert store.requests == 2
    store.error = None
    assert await shared() == 1


@virtual
@pytest.mark.parametrize("cancelled", range(6))
@pytest.mark.parametrize("after_s", [0.0, 0.5, 1.0, 1.5])
async def test_cancelled_caller_does_not_affect_other_callers(cancelled: int, after_s: float) -> None:
    store = Store()
    shared = SharedRevision(store.current_revision)
    tasks = [asyncio.ensure_future(shared()) for _ in range(6)]
    await asyncio.sleep(after_s)
    tasks[cancelled].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    rest = results[:cancelled] + results[cancelled + 1 :]
    assert rest == [1] * 5


@virtual
async def test_cancelled_caller_leaves_the_next_request_to_another_caller() -> None:
    store = Store()
    shared = SharedRevision(store.current_revision)
    tasks = [asyncio.ensure_future(shared()) for _ in range(4)]
    await asyncio.sleep(0)
    shared._waiting[0].add_done_callback(lambda _: tasks[1].cancel())
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[1], asyncio.CancelledError)
    assert [results[0], *results[2:]] == [1, 1, 1]


async def request_nothing() -> None:
    pass


@virtual
async def test_wait_for_returns_when_the_revision_is_reached() -> None:
    fresh = Freshness()
    fresh.advance(5)
    await fresh.wait_for(5, timeout_s=0, ask=request_nothing)
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(fresh.wait_for(n, timeout_s=9, ask=request_nothing)) for n in (7, 6, 8)]
        await asyncio.sleep(1)
        fresh.advance(7)
        await asyncio.sleep(0.01)
        assert [task.done() for task in waiting] == [True, True, False]
        fresh.advance(9)
    assert fresh._waiting == []


@virtual
async def test_wait_for_times_out_and_leaves_no_waiter() -> None:
    fresh = Freshness()
    with pytest.raises(TooLargeVersion, match="Too large resource version: 9, current: 0"):
        await fresh.wait_for(9, timeout_s=3, ask=request_nothing)
    waiting = asyncio.ensure_future(fresh.wait_for(9, timeout_s=3, ask=request_nothing))
    await asyncio.sleep(1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert fresh._waiting == []


@virtual
async def test_waiters_share_periodic_progress_requests() -> None:
    fresh = Freshness()
    requested_at: list[float] = []

    async def ask() -> None:
        requested_at.append(round(asyncio.get_running_loop().time(), 3))
        if len(requested_at) == 2:
            raise Unavailable("the watch is being opened again")
        if len(requested_at) > 20:
            fresh.advance(9)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(10):
            tasks.create_task(fresh.wait_for(9, timeout_s=3, ask=ask))
    # One waiter sends a request immediately, and one waiter again every tenth of a second.
    assert len(requested_at) == 21
    assert requested_at[:4] == pytest.approx([0.0, 0.1, 0.2, 0.3], abs=0.001)
