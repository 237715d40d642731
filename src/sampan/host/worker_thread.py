"""Threads for work that would block the event loop for too long."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
Done = Callable[[Any, BaseException | None], None]
"""Called on the event loop with the result, or with None and the error."""


async def run_in_thread(call: Callable[..., T], *args: Any, **options: Any) -> T:
    """Like `asyncio.to_thread`, but a cancelled caller waits until the thread has finished. Otherwise the thread might
    continue to mount or to write while the caller assumes that nothing happens any more.
    """
    work = asyncio.ensure_future(asyncio.to_thread(call, *args, **options))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait((work,))
        raise


def settle(future: asyncio.Future[T], result: Any, error: BaseException | None) -> None:
    """Resolve a future, unless its caller was cancelled."""
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


class _Job(NamedTuple):
    loop: asyncio.AbstractEventLoop
    work: Callable[..., Any]
    args: tuple[Any, ...]
    done: Done
    future: asyncio.Future[Any] | None = None
    """The future of the caller. If it is cancelled before the work has started, the work never runs."""


def _carry_out(job: _Job) -> None:
    if job.future is not None and job.future.cancelled():
        return
    result: Any = None
    error: BaseException | None = None
    try:
        result = job.work(*job.args)
    except BaseException as raised:
        error = raised
    try:
        with suppress(RuntimeError):  # the loop has been closed in the meantime
            job.loop.call_soon_threadsafe(job.done, result, error)
    finally:
        del error  # its traceback refers to this frame, and so to the arguments


class WorkerThread:
    """Runs CPU-bound functions one after the other, while the event loop continues.

    The interpreter lock is handed over every few milliseconds, so the loop is delayed by no more than that as long as
    no single call into C takes longer. There is one thread on purpose: the loop has to wait for its turn behind every
    thread that wants the lock, and several threads would not be faster. The thread starts when there is work and stops
    when there is none left.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._jobs: deque[_Job] = deque()
        self._is_running = False

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Return the result of `work(*args)`. If the caller is cancelled before the work has started, the work never
        runs."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._lock:
            self._jobs.append(_Job(loop, work, args, partial(settle, future), future))
            must_start, self._is_running = not self._is_running, True
        if must_start:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        try:
            return await future
        finally:
            del future  # the traceback of its exception refers to this frame, and so to the arguments

    def _work(self) -> None:
        while (job := self._take_job()) is not None:
            _carry_out(job)
            del job

    def _take_job(self) -> _Job | None:
        with self._lock:
            self._is_running = bool(self._jobs)
            return self._jobs.popleft() if self._jobs else None


class WorkerThreads:
    """Threads for functions that wait for a disk. They exist until `stop`, so that each can own a connection.
    Functions start in the order of submission."""

    def __init__(self, *, name: str, threads: int = 1) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=name, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[], Any], done: Done) -> None:
        self._jobs.put(_Job(self._loop, work, (), done))

    async def call(self, work: Callable[[], T]) -> T:
        future: asyncio.Future[T] = self._loop.create_future()
        self.submit(work, partial(settle, future))
        return await future

    async def stop(self) -> None:
        """Return once everything submitted is done."""
        for _ in self._threads:
            ended: asyncio.Future[None] = self._loop.create_future()
            self.submit(lambda: None, partial(settle, ended))
            self._jobs.put(None)
            await ended
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            _carry_out(job)
            del job  # hold no references while waiting
