import asyncio

import pytest

from sampan.storage.backend import Unavailable
from sampan.storage.cacher import TooLargeVersion
from sampan.storage.cacher.freshness import Freshness
from tests.storage.cacher.cacher_store import run_in_virtual_time


async def request_nothing() -> None:
    pass


@run_in_virtual_time
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


@run_in_virtual_time
async def test_wait_for_times_out_and_leaves_no_waiter() -> None:
    fresh = Freshness()
    with pytest.raises(TooLargeVersion, match="Too large resource version: 9, current: 0"):
        await fresh.wait_for(9, timeout_s=3, ask=request_nothing)
    waiting = asyncio.ensure_future(fresh.wait_for(9, timeout_s=3, ask=request_nothing))
    await asyncio.sleep(1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert fresh._waiting == []


@run_in_virtual_time
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
