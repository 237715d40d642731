"""The worker thread: results, errors, order, and cancelled work."""

import asyncio
import threading
from functools import partial

import pytest

from sampan.host.worker_thread import WorkerThread, WorkerThreads


async def test_run_returns_results_and_raises_errors() -> None:
    worker = WorkerThread("test")
    assert await worker.run(pow, 2, 10) == 1024
    with pytest.raises(ZeroDivisionError):
        await worker.run(divmod, 1, 0)
    assert await worker.run(threading.get_ident) != threading.get_ident()


async def test_queued_work_runs_in_one_thread_in_the_order_of_submission() -> None:
    go, done = threading.Event(), list[int]()

    def record(number: int) -> threading.Thread:
        go.wait(60)
        done.append(number)
        return threading.current_thread()

    worker = WorkerThread("test")
    tasks = [asyncio.create_task(worker.run(record, number)) for number in range(50)]
    await asyncio.sleep(0)
    go.set()
    assert len(set(await asyncio.gather(*tasks))) == 1
    assert done == list(range(50))


def test_cancelled_work_is_not_started() -> None:
    started, go, done = threading.Event(), threading.Event(), list[str]()

    def block_worker() -> None:
        started.set()
        go.wait(60)

    async def check() -> None:
        worker = WorkerThread("test")
        running = asyncio.create_task(worker.run(block_worker))
        await asyncio.to_thread(started.wait, 60)
        waiting = asyncio.create_task(worker.run(done.append, "second"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        go.set()
        await running
        await worker.run(done.append, "third")

    asyncio.run(check())
    assert done == ["third"]


def test_thread_exits_when_there_is_no_work() -> None:
    async def check() -> threading.Thread:
        return await WorkerThread("test").run(threading.current_thread)

    thread = asyncio.run(check())
    thread.join(60)
    assert not thread.is_alive()


async def test_worker_threads_start_functions_in_the_order_of_submission() -> None:
    results: list[tuple[int | None, str]] = []
    workers = WorkerThreads(name="test")
    for number in (2, 0, 1):
        work = partial(divmod, 4, number)
        workers.submit(work, lambda result, error: results.append((result and result[0], type(error).__name__)))
    assert await workers.call(threading.get_ident) != threading.get_ident()
    await workers.stop()
    assert results == [(2, "NoneType"), (None, "ZeroDivisionError"), (4, "NoneType")]


async def test_worker_threads_finish_everything_before_they_stop() -> None:
    done: list[int] = []
    workers = WorkerThreads(name="test", threads=3)
    for number in range(50):
        workers.submit(partial(done.append, number), lambda result, error: None)
    await workers.stop()
    assert sorted(done) == list(range(50))
    assert not [thread for thread in threading.enumerate() if thread.name == "test"]
