"""Threads that run functions one after another and report the results on the event loop."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Done = Callable[[Any, BaseException | None], None]
"""Called on the event loop with the result, or with None and the error."""


class Worker:
    """Threads that start at once; functions start in the order of submission."""

    def __init__(self, *, name: str, threads: int = 1) -> None:
        self._loop = asyncio.get_running_loop()
        self._work: SimpleQueue[tuple[Callable[[], Any], Done] | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._run, name=name, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[], Any], done: Done) -> None:
        self._work.put((work, done))

    async def call(self, work: Callable[[], T]) -> T:
        answered: asyncio.Future[T] = self._loop.create_future()
        self.submit(work, lambda result, error: answer(answered, result, error))
        return await answered

    async def stop(self) -> None:
        """Return once everything submitted is done."""
        for _ in self._threads:
            ended = self._loop.create_future()
            self.submit(lambda: None, lambda *_, ended=ended: ended.done() or ended.set_result(None))
            self._work.put(None)
            await ended
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            work, done = item
            result: Any = None
            failure: BaseException | None = None
            try:
                result = work()
            except BaseException as error:
                failure = error
            try:
                self._loop.call_soon_threadsafe(done, result, failure)
            except RuntimeError:  # the loop was closed without closing the store
                return
            del item, work, done, result, failure  # hold no references while waiting


def answer(answered: asyncio.Future[T], result: Any, error: BaseException | None) -> None:
    """Resolve a future, unless its caller was cancelled."""
    if answered.done():
        return
    if error is not None:
        answered.set_exception(error)
    else:
        answered.set_result(result)
