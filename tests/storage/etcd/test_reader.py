"""Requests that callers share: no caller gets the result of a request that was sent before its call."""

import asyncio

import pytest

from sampan.storage.backend import BackendClosed
from sampan.storage.etcd.backend import running_jobs
from sampan.storage.etcd.reader import SharedRequest
from tests.storage.cacher.cacher_store import run_in_virtual_time


class _Store:
    """A fake store, whose responses the test sets."""

    def __init__(self) -> None:
        self.pending: asyncio.Queue[asyncio.Future[int]] = asyncio.Queue()

    async def revision(self) -> int:
        future = asyncio.get_running_loop().create_future()
        self.pending.put_nowait(future)
        revision: int = await future
        return revision


async def test_caller_during_a_request_gets_the_result_of_the_next_request() -> None:
    store = _Store()
    request = SharedRequest(store.revision)
    async with running_jobs(request.run()):
        early = [asyncio.ensure_future(request.ask()) for _ in range(3)]
        first = await store.pending.get()
        late = [asyncio.ensure_future(request.ask()) for _ in range(3)]
        await asyncio.sleep(0)
        first.set_result(10)
        assert await asyncio.gather(*early) == [10, 10, 10]
        second = await store.pending.get()
        assert not any(task.done() for task in late)
        second.set_result(11)
        assert await asyncio.gather(*late) == [11, 11, 11]
        assert store.pending.empty()


class _SlowStore:
    """A fake store that responds after a second with the revision that it had when the request arrived."""

    def __init__(self) -> None:
        self.current = 1
        self.requests = 0

    async def revision(self) -> int:
        self.requests += 1
        revision = self.current
        await asyncio.sleep(1)
        return revision


@run_in_virtual_time
async def test_result_is_never_older_than_the_call() -> None:
    """The callers arrive at various times between writes and responses."""
    store = _SlowStore()
    request = SharedRequest(store.revision)

    async def ask(after_s: float) -> None:
        await asyncio.sleep(after_s)
        before = store.current
        assert await request.ask() >= before

    async def write() -> None:
        for _ in range(100):
            store.current += 1
            await asyncio.sleep(0.1)

    async with running_jobs(request.run()), asyncio.TaskGroup() as tasks:
        tasks.create_task(write())
        for number in range(60):
            tasks.create_task(ask(number * 0.13))
    assert store.requests <= 12


@run_in_virtual_time
@pytest.mark.parametrize("cancelled", range(4))
@pytest.mark.parametrize("after_s", [0.5, 1.5], ids=["during the first request", "during the second request"])
async def test_cancelled_caller_does_not_affect_other_callers(cancelled: int, after_s: float) -> None:
    """Two callers wait for the first request, and two for the second one."""
    store = _SlowStore()
    request = SharedRequest(store.revision)
    async with running_jobs(request.run()):
        callers = [asyncio.ensure_future(request.ask()) for _ in range(2)]
        await asyncio.sleep(0.25)
        store.current = 2
        callers += [asyncio.ensure_future(request.ask()) for _ in range(2)]
        await asyncio.sleep(after_s - 0.25)
        callers[cancelled].cancel()
        results = await asyncio.gather(*callers, return_exceptions=True)
    others = [result for number, result in enumerate(results) if number != cancelled]
    assert others == [revision for number, revision in enumerate([1, 1, 2, 2]) if number != cancelled]
    assert store.requests == 2


async def test_error_reaches_all_callers_and_the_next_request_is_sent() -> None:
    store = _Store()
    request = SharedRequest(store.revision)
    async with running_jobs(request.run()):
        callers = [asyncio.ensure_future(request.ask()) for _ in range(2)]
        (await store.pending.get()).set_exception(ZeroDivisionError())
        for result in await asyncio.gather(*callers, return_exceptions=True):
            assert isinstance(result, ZeroDivisionError)
        again = asyncio.ensure_future(request.ask())
        (await store.pending.get()).set_result(4)
        assert await again == 4


async def test_close_fails_waiting_callers() -> None:
    store = _Store()
    request = SharedRequest(store.revision)
    async with running_jobs(request.run()):
        first = asyncio.ensure_future(request.ask())
        await store.pending.get()
        second = asyncio.ensure_future(request.ask())
        await asyncio.sleep(0)
    request.close()
    for task in (first, second):
        with pytest.raises(BackendClosed):
            await task
