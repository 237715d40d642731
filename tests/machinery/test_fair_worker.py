"""A worker thread that users share: who is next, what is refused, and what is cancelled."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from sampan.api.limits import WORKER_BYTES_PER_USER, WORKER_JOBS_PER_USER
from sampan.machinery import errors
from sampan.machinery.fair_worker import FairWorker, UserWorker


class Jobs:
    """Jobs of several users that wait behind one that lasts until `go`."""

    def __init__(self) -> None:
        self.worker, self.go, self.done = FairWorker("test"), threading.Event(), list[str]()
        self.tasks: list[asyncio.Task[None]] = []

    async def block(self, user: str) -> None:
        await self.add(user, lambda: self.go.wait(60))

    async def add(self, user: str, work: Callable[[], object] | None = None, *, size: int = 0) -> asyncio.Task[None]:
        def run() -> None:
            (work or (lambda: None))()
            self.done.append(user)

        task = asyncio.create_task(self.worker.run(user, size, run))
        self.tasks.append(task)
        await asyncio.sleep(0)
        return task

    async def finish(self) -> list[str]:
        self.go.set()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self.tasks)
        return self.done


async def test_run_returns_results_and_raises_errors() -> None:
    worker = UserWorker(FairWorker("test"), "ann", 10)
    assert await worker.run(pow, 2, 10) == 1024
    with pytest.raises(ZeroDivisionError):
        await worker.run(divmod, 1, 0)
    assert await worker.run(threading.get_ident) != threading.get_ident()


async def test_user_with_one_job_waits_only_for_the_job_in_progress() -> None:
    jobs = Jobs()
    await jobs.block("ann")
    for _ in range(5):
        await jobs.add("ann")
    await jobs.add("bob")
    assert await jobs.finish() == ["ann", "bob", *["ann"] * 5]


async def test_next_job_of_a_request_is_before_other_requests_of_the_user() -> None:
    """Else all requests would have decoded objects in memory before the first one is finished."""
    worker, go = FairWorker("test"), threading.Event()
    unfinished, most = set[int](), list[int]()

    async def handle(number: int) -> None:
        request = UserWorker(worker, "ann")
        await request.run(go.wait, 60)
        unfinished.add(number)
        most.append(len(unfinished))
        await request.run(lambda: None)
        unfinished.remove(number)

    requests = [asyncio.create_task(handle(number)) for number in range(8)]
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(*requests)
    assert max(most) <= 2


async def test_memory_of_each_job_is_reported() -> None:
    sizes: list[int] = []
    worker = FairWorker("test", freed=sizes.append)
    await worker.run("ann", 1_000, lambda: None)
    with pytest.raises(ZeroDivisionError):
        await worker.run("ann", 1_000, divmod, 1, 0)
    assert len(sizes) == 2
    assert min(sizes) >= 1_000


async def test_user_with_too_many_jobs_is_refused() -> None:
    jobs = Jobs()
    for _ in range(WORKER_JOBS_PER_USER):
        await jobs.block("ann")
    with pytest.raises(errors.TooManyRequests):
        await jobs.worker.run("ann", 0, lambda: None)
    await jobs.add("bob")
    unlimited = asyncio.create_task(jobs.worker.run("ann", 0, lambda: None, is_limited=False))
    assert len(await jobs.finish()) == WORKER_JOBS_PER_USER + 1
    await unlimited
    await jobs.worker.run("ann", 0, lambda: None)


async def test_user_with_too_many_bytes_is_refused() -> None:
    jobs = Jobs()
    await jobs.add("ann", lambda: jobs.go.wait(60), size=WORKER_BYTES_PER_USER)
    with pytest.raises(errors.TooManyRequests):
        await jobs.worker.run("ann", 1, lambda: None)
    await jobs.add("bob", size=WORKER_BYTES_PER_USER)
    assert await jobs.finish() == ["ann", "bob"]


async def test_cancelled_jobs_do_not_run_and_do_not_stop_the_rest() -> None:
    jobs = Jobs()
    await jobs.block("ann")
    waiting = await jobs.add("bob")
    await jobs.add("carl")
    waiting.cancel()
    await asyncio.wait([waiting])
    jobs.go.set()
    await jobs.worker.run("dora", 0, lambda: None)
    assert jobs.done == ["ann", "carl"]


async def test_job_that_is_cancelled_at_its_turn_passes_it_on() -> None:
    jobs = Jobs()

    async def run_and_cancel_next() -> None:
        await jobs.worker.run("ann", 0, lambda: jobs.go.wait(60))
        jobs.tasks[0].cancel()

    first = asyncio.create_task(run_and_cancel_next())
    await asyncio.sleep(0)
    await jobs.add("bob")
    await jobs.add("carl")
    jobs.go.set()
    await first
    await jobs.tasks[1]
    assert jobs.done == ["carl"]
    assert jobs.tasks[0].cancelled()
