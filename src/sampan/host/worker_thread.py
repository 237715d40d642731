"""Threads for work that would block the event loop for too long."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


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


class _Job(NamedTuple):
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    work: Callable[..., Any]
    args: tuple[Any, ...]


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
            self._jobs.append(_Job(loop, future, work, args))
            must_start, self._is_running = not self._is_running, True
        if must_start:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        try:
            return await future
        finally:
            del future  # the traceback of its exception refers to this frame, and so to the arguments

    def _work(self) -> None:
        while (job := self._take_job()) is not None:
            if not job.future.cancelled():
                _carry_out(job)
            del job

    def _take_job(self) -> _Job | None:
        with self._lock:
            self._is_running = bool(self._jobs)
            return self._jobs.popleft() if self._jobs else None


def _carry_out(job: _Job) -> None:
    result: Any = None
    error: BaseException | None = None
    try:
        result = job.work(*job.args)
    except BaseException as raised:
        error = raised
    try:
        with suppress(RuntimeError):  # the loop has been closed in the meantime
            job.loop.call_soon_threadsafe(_finish, job.future, result, error)
    finally:
        del error  # its traceback refers to this frame, and so to the arguments


def _finish(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
