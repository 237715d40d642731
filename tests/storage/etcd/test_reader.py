"""Requests that callers share: no caller gets the result of a request that was sent before its call."""

import asyncio

import pytest

from sampan.storage.backend import Closed
from sampan.storage.etcd.backend import running
from sampan.storage.etcd.reader import SharedRequest


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
    async with running(request.run()):
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


async def test_cancelled_caller_does_not_cancel_the_shared_request() -> None:
    store = _Store()
    request = SharedRequest(store.revision)
    async with running(request.run()):
        cancelled, waiting = (asyncio.ensure_future(request.ask()) for _ in range(2))
        pending = await store.pending.get()
        cancelled.cancel()
        pending.set_result(3)
        assert await waiting == 3


async def test_error_reaches_all_callers_and_the_next_request_is_sent() -> None:
    store = _Store()
    request = SharedRequest(store.revision)
    async with running(request.run()):
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
    async with running(request.run()):
        first = asyncio.ensure_future(request.ask())
        await store.pending.get()
        second = asyncio.ensure_future(request.ask())
        await asyncio.sleep(0)
    request.close()
    for task in (first, second):
        with pytest.raises(Closed):
            await task
