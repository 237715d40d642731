"""A question that is shared is never older than the one who asks."""

import asyncio

import pytest

from sampan.storage.backend import Closed
from sampan.storage.etcd.backend import running
from sampan.storage.etcd.reader import SharedRequest


class _Store:
    """Answers when told to."""

    def __init__(self) -> None:
        self.pending: asyncio.Queue[asyncio.Future[int]] = asyncio.Queue()

    async def revision(self) -> int:
        future = asyncio.get_running_loop().create_future()
        self.pending.put_nowait(future)
        revision: int = await future
        return revision


async def test_who_comes_during_a_question_gets_the_next() -> None:
    store = _Store()
    question = SharedRequest(store.revision)
    async with running(question.run()):
        early = [asyncio.ensure_future(question.ask()) for _ in range(3)]
        first = await store.pending.get()
        late = [asyncio.ensure_future(question.ask()) for _ in range(3)]
        await asyncio.sleep(0)
        first.set_result(10)
        assert await asyncio.gather(*early) == [10, 10, 10]
        second = await store.pending.get()
        assert not any(task.done() for task in late)
        second.set_result(11)
        assert await asyncio.gather(*late) == [11, 11, 11]
        assert store.pending.empty()


async def test_one_who_leaves_takes_nobody_along() -> None:
    store = _Store()
    question = SharedRequest(store.revision)
    async with running(question.run()):
        leaving, staying = (asyncio.ensure_future(question.ask()) for _ in range(2))
        pending = await store.pending.get()
        leaving.cancel()
        pending.set_result(3)
        assert await staying == 3


async def test_an_error_reaches_all_who_asked_and_the_next_question_is_put() -> None:
    store = _Store()
    question = SharedRequest(store.revision)
    async with running(question.run()):
        asking = [asyncio.ensure_future(question.ask()) for _ in range(2)]
        (await store.pending.get()).set_exception(ZeroDivisionError())
        for result in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(result, ZeroDivisionError)
        again = asyncio.ensure_future(question.ask())
        (await store.pending.get()).set_result(4)
        assert await again == 4


async def test_closing_answers_those_who_wait() -> None:
    store = _Store()
    question = SharedRequest(store.revision)
    async with running(question.run()):
        first = asyncio.ensure_future(question.ask())
        await store.pending.get()
        second = asyncio.ensure_future(question.ask())
        await asyncio.sleep(0)
    question.close()
    for task in (first, second):
        with pytest.raises(Closed):
            await task
