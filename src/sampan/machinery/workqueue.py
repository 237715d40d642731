"""A queue of keys to be worked on, with the promises that controllers rest on.

- A key that waits is in the queue once, however often it is added.
- A key is never worked on by two at a time; added while it is worked on, it waits until that is done, and is then
  worked on again: no addition is lost.
- Delays count in monotonic time, so that setting the wall clock neither stops nor shortens them.
- `retry` adds a key after a time that doubles with each failure since the last `forget`; there is no jitter, so that a
  run on a virtual clock repeats exactly.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sampan.machinery.activity import Activity
from sampan.machinery.clock import Clock, wall_offset, was_wall_clock_set

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Backoff:
    first_s: float = 0.005
    most_s: float = 1000.0

    def after(self, failures: int) -> float:
        """The pause after so many failures before this one."""
        return min(self.first_s * 2.0 ** min(failures, 64), self.most_s)


@dataclass(slots=True)
class QueueStats:
    adds: int = 0
    """Keys that became ready."""
    retries: int = 0
    waited_s: float = 0.0
    """How long keys that were taken had been ready, in all."""


class ShutDown(Exception):
    """The queue is shut down and empty."""


class WorkQueue(Generic[K]):
    """`serve()` has the keys worked on; without it, `run()` must be running for delayed keys to become ready."""

    def __init__(self, *, clock: Clock, backoff: Backoff | None = None, activity: Activity | None = None) -> None:
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._activity = activity or Activity()
        self._ready: deque[K] = deque()
        self._waiting: dict[K, float] = {}
        """Keys to be worked on, and since when. Those that are not in `_active` are in `_ready`."""
        self._active: set[K] = set()
        """Keys being worked on; those of them that are also in `_waiting` were added meanwhile."""
        self._failures: dict[K, int] = {}
        self._delayed: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        """When a delayed key is due in monotonic time; an entry of the heap with another time is void."""
        self._wall_deadlines: set[K] = set()
        """Delayed keys whose delay was computed from a wall-clock time: ready at once when the wall clock is set."""
        self._wall_offset = wall_offset(clock)
        self._order = itertools.count()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._sooner = asyncio.Event()
        self._rest = asyncio.Event()
        self._rest.set()
        self._is_shut = False
        self.stats = QueueStats()

    def __len__(self) -> int:
        """Keys that are ready and not yet taken."""
        return len(self._ready)

    @property
    def active(self) -> int:
        return len(self._active)

    @property
    def delayed(self) -> int:
        return len(self._due)

    def add(self, key: K) -> None:
        """Have the key worked on, unless it waits already."""
        if self._is_shut or key in self._waiting:
            return
        self._activity.step()
        self._waiting[key] = self._clock.monotonic()
        self.stats.adds += 1
        if key not in self._active:
            self._make_ready(key)

    def add_after(self, key: K, seconds: float, *, follows_wall_clock: bool = False) -> None:
        """Add the key once that time has passed; of several times the soonest counts. With `follows_wall_clock` the
        delay comes from a wall-clock time (a TTL, a schedule): should the wall clock be set meanwhile, the key is added
        soon after, so that the delay is computed again."""
        if seconds <= 0:
            return self.add(key)
        if self._is_shut:
            return
        if follows_wall_clock and key not in self._wall_deadlines:
            self._wall_deadlines.add(key)
            if len(self._wall_deadlines) == 1:
                self._sooner.set()  # the sleep must end when the wall clock is set
        when = self._clock.monotonic() + seconds
        if self._due.get(key, when) < when:
            return
        self._due[key] = when
        heapq.heappush(self._delayed, (when, next(self._order), key))
        if self._delayed[0][0] == when:
            self._sooner.set()

    def retry(self, key: K) -> float:
        """Add the key after its back-off, which is returned."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.stats.retries += 1
        pause_s = self._backoff.after(failures)
        self.add_after(key, pause_s)
        return pause_s

    def forget(self, key: K) -> None:
        """The key was worked on with success: its next failure is the first again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key; `done` must be called with it. Raises ShutDown."""
        while not self._ready:
            if self._is_shut:
                raise ShutDown
            await self._wait_for_key()
        key = self._ready.popleft()
        self.stats.waited_s += self._clock.monotonic() - self._waiting.pop(key)
        self._active.add(key)
        self._rest.clear()
        self._activity.step()
        return key

    def done(self, key: K) -> None:
        """The key is no longer worked on."""
        self._active.discard(key)
        self._activity.step()
        if key in self._waiting:
            self._make_ready(key)
        if not self._active and not self._ready:
            self._rest.set()

    def shut_down(self) -> None:
        """Take no more keys. What is ready is still given out; then `get` raises ShutDown."""
        self._is_shut = True
        self._due.clear()
        self._wall_deadlines.clear()
        self._delayed.clear()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    async def drained(self) -> None:
        """Until nothing is ready or worked on."""
        while self._ready or self._active:
            self._rest.clear()
            await self._rest.wait()

    async def serve(self, work: Callable[[K], Awaitable[None]], workers: int) -> None:
        """Have keys worked on, so many at a time, until cancelled. What `work` raises ends it."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.run())
            for _ in range(workers):
                group.create_task(self._serve(work))

    async def _serve(self, work: Callable[[K], Awaitable[None]]) -> None:
        while True:
            try:
                key = await self.get()
            except ShutDown:
                return
            try:
                await work(key)
            finally:
                self.done(key)

    async def run(self) -> None:
        """Make delayed keys ready when they are due, until cancelled."""
        while True:
            await self._sleep()
            self._heed_wall_clock()
            now = self._clock.monotonic()
            while self._delayed and self._delayed[0][0] <= now:
                when, _, key = heapq.heappop(self._delayed)
                if self._due.get(key) == when:
                    self._make_due(key)

    def _heed_wall_clock(self) -> None:
        """If the wall clock was set, add the keys whose delay was computed from it."""
        if not was_wall_clock_set(self._clock, self._wall_offset):
            return
        self._wall_offset = wall_offset(self._clock)
        for key in list(self._wall_deadlines):
            self._make_due(key)

    def _make_due(self, key: K) -> None:
        self._due.pop(key, None)
        self._wall_deadlines.discard(key)
        self.add(key)

    async def _sleep(self) -> None:
        """Until the first delayed key is due, or another comes before it."""
        self._sooner.clear()
        while self._delayed and self._due.get(self._delayed[0][2]) != self._delayed[0][0]:
            heapq.heappop(self._delayed)
        if not self._delayed:
            await self._sooner.wait()
            return
        async with asyncio.TaskGroup() as group:
            offset = self._wall_offset if self._wall_deadlines else None
            sleeping = group.create_task(self._clock.sleep_monotonic(self._delayed[0][0], wall_offset=offset))
            sleeping.add_done_callback(lambda _: self._sooner.set())
            await self._sooner.wait()
            sleeping.cancel()

    def _make_ready(self, key: K) -> None:
        self._ready.append(key)
        self._wake_one()

    async def _wait_for_key(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter.done() and not getter.cancelled() and self._ready:
                self._wake_one()  # in place of this one, who was told of a key and goes without it
            raise

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return


__all__ = ["Backoff", "QueueStats", "ShutDown", "WorkQueue"]
