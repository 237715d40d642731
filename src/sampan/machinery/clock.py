"""Object time: the clock behind statuses, back-off, TTL, token expiry and schedules.

Every component takes a `Clock`. `RealClock` is the wall clock; `VirtualClock` stands still until a test or a simulation
advances it. Transport time (watch timeouts, keep-alive, TLS) is not object time and stays with the event loop.
"""

import asyncio
import heapq
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
        while (left := when - self.now()) > 0:  # noqa: ASYNC110 - the wall clock may be set back meanwhile
            await asyncio.sleep(left)


Idle = Callable[[], Awaitable[bool]]
"""Waits until its owner has nothing under way; tells whether there was anything to wait for."""

_TURNS = 10
"""Loop turns that a plain chain of awaits (no I/O, no thread) gets before the clock calls it finished."""


class VirtualClock:
    """Time that moves only by `advance`.

    Sleepers wake in the order of their times. Between two times the loop runs until everything that registered an
    `idle` hook (work queues, loopback calls, the store's writer) has nothing left to do, so that what one sleeper set
    off is finished before time moves on.
    """

    def __init__(self, start: float = 1_767_225_600.0) -> None:
        self._now = start
        self._arrivals = 0
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
        self._arrivals += 1
        heapq.heappush(self._sleepers, (when, self._arrivals, woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass, waking sleepers on the way."""
        end = self._now + seconds
        await self.settle()
        while (when := self.next_wake()) is not None and when <= end:
            self._now = when
            while self.next_wake() == when:
                heapq.heappop(self._sleepers)[2].set_result(None)
            await self.settle()
        self._now = end

    async def settle(self) -> None:
        """Run the loop until nothing is under way: no hook had to wait and no new sleeper came in a whole round."""
        while True:
            before = self._arrivals
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            waited = [await wait() for wait in list(self._idle)]
            if not any(waited) and self._arrivals == before:
                return

    def next_wake(self) -> float | None:
        """When the next sleeper wakes, if there is one."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None
