"""Group commit: writes that arrive while one transaction is being written to disk share the next one.

One batch is in progress at a time. When it is on disk, its events are published on the event loop and then its writers
receive their results, in one turn of the loop; only then the next batch starts. The published revision is thus never
ahead of the disk, and the disk is at most one batch ahead of the published revision.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from sampan.host.worker_thread import WorkerThreads, settle
from sampan.storage.backend import (
    PendingWrite,
    StoreEvent,
    Unavailable,
)
from sampan.storage.sqlite.log import Outcome, RevisionLog

T = TypeVar("T")
Publish = Callable[[Sequence[PendingWrite], Sequence[Outcome]], None]

_BATCH_WRITES = 512
_BATCH_BYTES = 8 << 20


class GroupCommit:
    def __init__(
        self,
        *,
        worker: WorkerThreads,
        log: RevisionLog,
        publish: Publish,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the group commit; `on_failure` is called after a batch if the store rejects writes."""
        self._loop = asyncio.get_running_loop()
        self._worker = worker
        self._log = log
        self._publish = publish
        self._on_failure = on_failure
        self._writes: deque[tuple[PendingWrite, asyncio.Future[int]]] = deque()
        self._jobs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._is_job_next = False
        """Whether a job runs before the next batch. Jobs and batches alternate, so that neither has to wait long for
        the other."""
        self._is_busy = False
        self._idle: list[asyncio.Future[None]] = []

    @property
    def is_idle(self) -> bool:
        """Whether everything on disk is published and nothing is waiting."""
        return not self._is_busy

    def write(self, write: PendingWrite) -> asyncio.Future[int]:
        """Queue a write; the future resolves to its revision when it is durable and published."""
        answered: asyncio.Future[int] = self._loop.create_future()
        self._writes.append((write, answered))
        self._wake()
        return answered

    def job(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Run a short function in the writer's thread between two batches."""
        answered: asyncio.Future[T] = self._loop.create_future()
        self._jobs.append((job, answered))
        self._wake()
        return answered

    async def idle(self) -> bool:
        """Wait until there is nothing left to do; return whether there was anything."""
        was_busy = self._is_busy
        while self._is_busy:
            idle = self._loop.create_future()
            self._idle.append(idle)
            await idle
        return was_busy

    def _wake(self) -> None:
        if not self._is_busy:
            self._is_busy = True
            # deferred, so that other writes of this turn of the loop join the batch
            self._loop.call_soon(self._start_next)

    def _start_next(self) -> None:
        if self._jobs and (self._is_job_next or not self._writes):
            self._is_job_next = False
            job, answered = self._jobs.popleft()
            self._worker.submit(job, partial(self._finish_job, answered))
        elif self._writes:
            self._is_job_next = True
            batch = self._take_batch()
            writes = [write for write, _ in batch]
            self._worker.submit(partial(self._log.commit, writes), partial(self._finish_batch, batch, writes))
        else:
            self._is_busy = False
            for idle in self._idle:
                if not idle.done():
                    idle.set_result(None)
            self._idle.clear()

    def _take_batch(self) -> list[tuple[PendingWrite, asyncio.Future[int]]]:
        batch: list[tuple[PendingWrite, asyncio.Future[int]]] = []
        size = 0
        while self._writes and len(batch) < _BATCH_WRITES and size < _BATCH_BYTES:
            batch.append(self._writes.popleft())
            size += len(batch[-1][0].value or b"")
        return batch

    def _finish_batch(
        self,
        batch: Sequence[tuple[PendingWrite, asyncio.Future[int]]],
        writes: Sequence[PendingWrite],
        outcomes: Sequence[Outcome] | None,
        error: BaseException | None,
    ) -> None:
        try:
            if outcomes is None:
                for _, answered in batch:
                    settle(answered, None, _copy_error(error))
                return
            self._publish(writes, outcomes)
            for (_, answered), outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, StoreEvent):
                    settle(answered, outcome.revision, None)
                else:
                    settle(answered, None, outcome)
        finally:
            if self._log.write_failure:
                self._on_failure()
            self._start_next()

    def _finish_job(self, answered: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        settle(answered, result, error)
        self._start_next()


def _copy_error(error: BaseException | None) -> BaseException | None:
    """Return a separate error for each writer: raising one object in many tasks would mix up their tracebacks."""
    if not isinstance(error, Unavailable):
        return error
    own = Unavailable(str(error), may_have_happened=error.may_have_happened)
    own.__cause__ = error.__cause__
    return own
