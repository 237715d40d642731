"""A worker thread that users share fairly, so that the long queue of one does not delay the others."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sampan.api.limits import WORKER_BYTES_PER_USER, WORKER_JOBS_PER_USER
from sampan.host.worker_thread import WorkerThread
from sampan.machinery import errors

T = TypeVar("T")


_DECODED_FACTOR = 10
"""How many times its bytes an object takes while it is decoded and checked."""


@dataclass(slots=True)
class _UserShare:
    """What one user has in the queue."""

    served_s: float
    """The time that the user's jobs have taken in the thread, or would have taken if the user had never been idle."""
    jobs: int = 0
    bytes: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


class FairWorker:
    """Runs one job at a time in a thread. The next job is that of the user whose jobs have taken the least time, so
    that a user with a single job waits for the job in progress and not for the queues of others. Among the jobs of a
    user those that continue a request go first, so that few requests have decoded objects in memory.

    All jobs must come from the same event loop.
    """

    def __init__(self, name: str, *, freed: Callable[[int], None] = lambda size: None) -> None:
        """`freed` is called after each job with an estimate of the memory that it leaves to be reused."""
        self._thread, self._freed = WorkerThread(name), freed
        self._shares: dict[str, _UserShare] = {}
        """The users with jobs."""
        self._now_s = 0.0
        """The virtual time: `served_s` of the user served last, at which a new user begins."""
        self._is_busy = False

    async def run(
        self,
        user: str,
        size: int,
        work: Callable[..., T],
        *args: Any,
        is_limited: bool = True,
        is_continued: bool = False,
    ) -> T:
        """Return the result of `work(*args)`, a job on `size` bytes. Raise TooManyRequests if `is_limited` and the user
        has too many jobs or bytes in the queue. A job for which `is_continued` is before the others of its user."""
        share = self._shares.setdefault(user, _UserShare(self._now_s))
        if is_limited and (share.jobs >= WORKER_JOBS_PER_USER or share.bytes + size > WORKER_BYTES_PER_USER):
            raise errors.too_many_requests(
                "too many large objects of this user are being processed, please try again later", retry_after_s=1
            )
        share.jobs += 1
        share.bytes += size
        try:
            await self._wait_for_turn(share, is_continued)
            return await self._run_now(share, work, *args)
        finally:
            share.jobs -= 1
            share.bytes -= size
            if not share.jobs:
                del self._shares[user]
            self._freed(size * _DECODED_FACTOR)

    async def _run_now(self, share: _UserShare, work: Callable[..., T], *args: Any) -> T:
        began = time.perf_counter()
        try:
            return await self._thread.run(work, *args)
        finally:
            share.served_s += time.perf_counter() - began
            self._pass_on()

    async def _wait_for_turn(self, share: _UserShare, is_continued: bool) -> None:
        if not self._is_busy:
            self._is_busy = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (share.waiting.appendleft if is_continued else share.waiting.append)(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                share.waiting.remove(turn)
            else:
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Let the next job run, if there is one."""
        waiting = [share for share in self._shares.values() if share.waiting]
        self._is_busy = bool(waiting)
        if waiting:
            share = min(waiting, key=lambda candidate: candidate.served_s)
            self._now_s = max(self._now_s, share.served_s)
            share.waiting.popleft().set_result(None)


@dataclass(slots=True)
class UserWorker:
    """The share of one user in a worker, for the jobs of one request."""

    worker: FairWorker
    user: str
    size: int = 0
    """The bytes that each of the jobs is about."""
    is_limited: bool = True
    _has_run: bool = False

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        is_continued, self._has_run = self._has_run, True
        return await self.worker.run(
            self.user, self.size, work, *args, is_limited=self.is_limited, is_continued=is_continued
        )
