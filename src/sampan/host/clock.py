"""The clock that is injected into every component: wall-clock time for timestamps, monotonic time for delays.

`now()` is wall-clock time: statuses, TTL stamps, token expiry, schedules. An administrator or NTP may set it back or
forward at any moment, so no delay may be measured with it. Delays (backoff, lease renewals, heartbeats, resync, expiry
of caches) are measured in `monotonic()`. To wait for a deadline that is a wall-clock timestamp, use `sleep_until`, or a
`WorkQueue` with `follows_wall_clock`: both check again soon after the wall clock was set.

`RealClock` is the machine's clock; `VirtualClock` stands still until a test or a simulation advances it. Transport
timeouts (watch timeouts, keep-alive, TLS) use the event loop's time.
"""

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

WALL_CHECK_S = 10.0
"""How often a wait for a wall-clock time checks whether the wall clock was set."""
_WALL_SET_S = 1.0
"""A change of the wall clock's offset that counts as setting it. NTP corrects less by slewing."""


class Clock(Protocol):
    def now(self) -> float:
        """Return the wall-clock time in seconds since the epoch. It can go back."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment. It never goes back, and setting the wall clock does not change
        it."""

    async def sleep(self, seconds: float) -> None:
        """Return once `seconds` of monotonic time have passed; zero or less yields once to the loop."""

    async def sleep_until(self, when: float) -> None:
        """Return once the wall-clock time `now()` is at least `when`, even if the wall clock is set in the meantime."""

    async def sleep_monotonic(self, due: float, *, wall_offset: float | None = None) -> None:
        """Return once `monotonic()` is at least `due`. With `wall_offset`, an earlier result of `wall_offset(clock)`,
        return also within `WALL_CHECK_S` after the wall clock was set since then."""


def wall_offset(clock: Clock) -> float:
    """Return how far the wall clock is ahead of monotonic time; constant until the wall clock is set."""
    return clock.now() - clock.monotonic()


def was_wall_clock_set(clock: Clock, since: float) -> bool:
    """Whether the wall clock was set after `wall_offset` returned `since`."""
    return abs(wall_offset(clock) - since) > _WALL_SET_S


class RealClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0))

    async def sleep_until(self, when: float) -> None:
        while (left_s := when - self.now()) > 0:  # noqa: ASYNC110 - no event signals that the wall clock was set
            await asyncio.sleep(min(left_s, WALL_CHECK_S))

    async def sleep_monotonic(self, due: float, *, wall_offset: float | None = None) -> None:
        longest_s = float("inf") if wall_offset is None else WALL_CHECK_S
        while (left_s := due - self.monotonic()) > 0:
            if wall_offset is not None and was_wall_clock_set(self, wall_offset):
                return
            await asyncio.sleep(min(left_s, longest_s))


Idle = Callable[[], Awaitable[bool]]
"""A hook that waits until its owner has no work in progress and returns whether there was any."""

_TURNS = 10
"""Turns of the event loop after which a chain of awaits without I/O or threads counts as finished."""


class VirtualClock:
    """A clock that moves only by `advance`, which moves wall-clock and monotonic time together; `set_wall_clock` moves
    the wall clock alone.

    Sleepers wake in the order of their times. Between two times the loop runs until every owner of an `idle` hook (work
    queues, loopback calls, the storage writer) is idle, so that everything one sleeper triggered is finished before
    time advances.
    """

    def __init__(self, start: float = 1_767_225_600.0, monotonic_start: float = 100.0) -> None:
        self._monotonic = monotonic_start
        self._wall_offset = start - monotonic_start
        self._arrivals = 0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        """A heap of the monotonic time, the order of arrival, and the future that wakes the sleeper."""
        self._wall_sleepers: set[asyncio.Future[None]] = set()
        """The sleepers that also wake when the wall clock is set."""
        self._idle: list[Idle] = []

    def now(self) -> float:
        return self._monotonic + self._wall_offset

    def monotonic(self) -> float:
        return self._monotonic

    def set_wall_clock(self, when: float) -> None:
        """Set the wall clock, back or forward, as an administrator would. Monotonic time does not change."""
        self._wall_offset = when - self._monotonic
        for sleeper in self._wall_sleepers:
            if not sleeper.done():
                sleeper.set_result(None)

    def fork(self) -> "VirtualClock":
        """Return another clock that shows the same times, without sleepers."""
        return VirtualClock(self.now(), self._monotonic)

    def on_idle(self, wait: Idle) -> Callable[[], None]:
        """Make `advance` await `wait()` between sleepers. Return a function that removes the hook."""
        self._idle.append(wait)
        return lambda: self._idle.remove(wait)

    async def sleep(self, seconds: float) -> None:
        await self.sleep_monotonic(self._monotonic + seconds)

    async def sleep_until(self, when: float) -> None:
        if when <= self.now():
            await asyncio.sleep(0)
        while when > self.now():
            await self._sleep(when - self._wall_offset, wakes_on_set=True)

    async def sleep_monotonic(self, due: float, *, wall_offset: float | None = None) -> None:
        if due <= self._monotonic or (wall_offset is not None and was_wall_clock_set(self, wall_offset)):
            await asyncio.sleep(0)
            return
        await self._sleep(due, wakes_on_set=wall_offset is not None)

    async def _sleep(self, due: float, *, wakes_on_set: bool) -> None:
        woken = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._sleepers, (due, self._arrivals, woken))
        if not wakes_on_set:
            await woken
            return
        self._wall_sleepers.add(woken)
        try:
            await woken
        finally:
            self._wall_sleepers.discard(woken)

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass, waking the sleepers that become due."""
        end = self._monotonic + seconds
        await self.settle()
        while (due := self._next_due()) is not None and due <= end:
            self._monotonic = max(due, self._monotonic)
            while self._next_due() == due:
                heapq.heappop(self._sleepers)[2].set_result(None)
            await self.settle()
        self._monotonic = end

    async def settle(self) -> None:
        """Run the loop until nothing is in progress: in a whole round no hook had to wait and no new sleeper
        arrived."""
        while True:
            before = self._arrivals
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            waited = [await wait() for wait in list(self._idle)]
            if not any(waited) and self._arrivals == before:
                return

    def next_wake(self) -> float | None:
        """Return the wall-clock time at which the next sleeper wakes, or None if there is none."""
        due = self._next_due()
        return None if due is None else due + self._wall_offset

    def _next_due(self) -> float | None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None
