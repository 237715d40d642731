"""Object time: the clock behind statuses, back-off, TTL, token expiry and schedules.

Every component takes a `Clock`. `RealClock` is the wall clock; `VirtualClock` stands still until a test or a simulation
advances it. Transport time (watch timeouts, keep-alive, TLS) is not object time and stays with the event loop.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""

    async def sleep(self, seconds: float) -> None:
        """Return once `seconds` of this clock have passed; zero or less yields once to the loop."""

    async def sleep_until(self, when: float) -> None:
        """Return once `now()` is at least `when`."""


def utc(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.now(), UTC)


class RealClock:
    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0))

    async def sleep_until(self, when: float) -> None:
        while (left := when - self.now()) > 0:
            await asyncio.sleep(left)


Idle = Callable[[], Awaitable[None]]


class VirtualClock:
    """Time that moves only by `advance`.

    Sleepers wake in the order of their times, and between two of them the loop runs until everything that registered an
    `idle` hook (work queues, loopback calls, the store's writer) has nothing left to do, so that what one sleeper set off
    is finished before the next one wakes.
    """

    def __init__(self, start: float = 1_767_225_600.0) -> None:
        self._now = start
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._idle: list[Idle] = []

    def now(self) -> float:
        return self._now

    def on_idle(self, wait: Idle) -> Callable[[], None]:
        """Have `advance` await `wait()` between sleepers; call what is returned to stop that."""
        self._idle.append(wait)
        return lambda: self._idle.remove(wait)

    async def sleep(self, seconds: float) -> None:
        await self.sleep_until(self._now + seconds)

    async def sleep_until(self, when: float) -> None:
        if when <= self._now:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (when, next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass, waking sleepers on the way."""
        end = self._now + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            when, _, woken = heapq.heappop(self._sleepers)
            if woken.done():
                continue
            self._now = when
            woken.set_result(None)
            await self.settle()
        self._now = end

    async def settle(self, turns: int = 20) -> None:
        """Run the loop until the idle hooks agree that nothing is under way."""
        for _ in range(turns):
            await asyncio.sleep(0)
        for wait in list(self._idle):
            await wait()
        if self._idle:
            await asyncio.sleep(0)

    def next_wake(self) -> float | None:
        """When the next sleeper wakes, if there is one."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None
