"""Long work on the event loop that lets other tasks run in between."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

SLICE_S = 0.003
"""How long all work that uses `TimeSlice` runs in one iteration of the event loop."""


_MAX_RESUMED = 64


class TimeSlice:
    """The time for which pieces of work may hold the event loop.

    All work on a loop shares one slice for each iteration. Of the work that has used it up, as many pieces continue in
    each of the next iterations as the slice has room for, and at least one: ten long reconciles at the same time delay
    other tasks by no more than a single one does.
    """

    __slots__ = ("_iteration",)

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        iteration = _iterations.get(loop)
        if iteration is None:
            iteration = _iterations[loop] = _LoopIteration()
        self._iteration = iteration

    @property
    def is_used_up(self) -> bool:
        return self._iteration.is_used_up()

    async def pause_if_used_up(self) -> None:
        if self._iteration.is_used_up():
            await self._iteration.wait_for_turn()

    async def iterate(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yield the items, with pauses. The caller must not change `items` meanwhile."""
        for item in items:
            await self.pause_if_used_up()
            yield item


class _LoopIteration:
    """The current iteration of an event loop, and the work that waits for later ones."""

    __slots__ = ("_began", "_count", "_resumed_at", "_waiting")

    def __init__(self) -> None:
        self._began: float | None = None
        """When `is_used_up` was first called in this iteration."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._count = 1
        """How many pieces of work continue in the next iteration."""
        self._resumed_at = 0.0

    def is_used_up(self) -> bool:
        now = time.perf_counter()
        if self._began is None:
            self._began = now
            asyncio.get_running_loop().call_soon(self._begin)
        return now - self._began >= SLICE_S

    def _begin(self) -> None:
        self._began = None

    async def wait_for_turn(self) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._resume, loop)
        await turn

    def _resume(self, loop: asyncio.AbstractEventLoop) -> None:
        """Continue pieces of work: twice as many as the last time if the iteration since then was short."""
        now = time.perf_counter()
        self._count = min(2 * self._count, _MAX_RESUMED) if now - self._resumed_at < SLICE_S / 2 else 1
        self._resumed_at = now
        for _ in range(min(self._count, len(self._waiting))):
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
        if self._waiting:
            loop.call_soon(self._resume, loop)


_iterations: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopIteration] = WeakKeyDictionary()
