"""A work queue of keys with the guarantees of client-go's `util/workqueue`, on which controllers rely.

- A key that is waiting is in the queue once, however often it is added.
- A key is never processed by two workers at a time. A key that is added while it is being processed becomes ready again
  when processing is done: no addition is lost.
- Delays are measured in monotonic time, so that setting the wall clock neither stops nor shortens them.
- `retry` adds a key after a backoff that doubles with each failure since the last `forget`; there is no jitter, so that
  a run on a virtual clock is reproducible.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sampan.host.activity import Activity
from sampan.host.backoff import Backoff
from sampan.host.clock import Clock, wall_offset, was_wall_clock_set
from sampan.host.time_slice import TimeSlice
from sampan.machinery.telemetry.metrics import Histogram

K = TypeVar("K", bound=Hashable)


QUEUE_BUCKETS = tuple(10.0**power for power in range(-8, 4))
"""The buckets of client-go for times in work queues, in seconds."""


@dataclass(slots=True)
class QueueStats:
    adds: int = 0
    """The number of additions of keys that were not already waiting."""
    retries: int = 0
    waits: Histogram = field(default_factory=lambda: Histogram(QUEUE_BUCKETS))
    """The times that keys were waiting before `get` returned them."""


class ShutDown(Exception):
    """The queue is shut down and empty."""


class WorkQueue(Generic[K]):
    """A queue whose keys are processed by `serve()`; without it, `run()` must be running for delayed keys to become
    ready."""

    def __init__(self, *, clock: Clock, backoff: Backoff | None = None, activity: Activity | None = None) -> None:
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._activity = activity or Activity()
        self._ready: deque[K] = deque()
        self._waiting: dict[K, float] = {}
        """Keys to be processed, with the time at which they were added. Those that are not in `_active` are in
        `_ready`."""
        self._active: dict[K, float] = {}
        """Keys being processed, with the time at which `get` returned them. Those that are also in `_waiting` were
        added again in the meantime."""
        self._failures: dict[K, int] = {}
        self._delayed: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        """The monotonic time at which a delayed key is due; a heap entry with another time is obsolete."""
        self._wall_deadlines: set[K] = set()
        """Delayed keys whose delay was computed from a wall-clock time: they become ready as soon as the wall clock is
        set."""
        self._wall_offset = wall_offset(clock)
        self._order = itertools.count()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._sooner = asyncio.Event()
        self._rest = asyncio.Event()
        self._rest.set()
        self._is_shut = False
        self.stats = QueueStats()

    def __len__(self) -> int:
        """Return the number of keys that are ready and not yet taken."""
        return len(self._ready)

    @property
    def active(self) -> int:
        return len(self._active)

    def active_times(self) -> list[float]:
        """Return for how many seconds each of the keys has been processed."""
        now = self._clock.monotonic()
        return [now - start for start in self._active.values()]

    @property
    def delayed(self) -> int:
        return len(self._due)

    def add(self, key: K) -> None:
        """Add the key, unless it is already waiting."""
        if self._is_shut or key in self._waiting:
            return
        self._activity.step()
        self._waiting[key] = self._clock.monotonic()
        self.stats.adds += 1
        if key not in self._active:
            self._make_ready(key)

    def add_after(self, key: K, seconds: float, *, follows_wall_clock: bool = False) -> None:
        """Add the key after a delay; the shortest of several delays counts.

        With `follows_wall_clock` the delay was computed from a wall-clock time (a TTL, a schedule): if the wall clock
        is set in the meantime, the key is added soon after, so that the delay is computed again.
        """
        if seconds <= 0:
            return self.add(key)
        if self._is_shut:
            return
        if follows_wall_clock and key not in self._wall_deadlines:
            self._wall_deadlines.add(key)
            if len(self._wall_deadlines) == 1:
                self._sooner.set()  # restart the sleep, so that it also wakes when the wall clock is set
        deadline = self._clock.monotonic() + seconds
        if self._due.get(key, deadline) < deadline:
            return
        self._due[key] = deadline
        heapq.heappush(self._delayed, (deadline, next(self._order), key))
        if self._delayed[0][0] == deadline:
            self._sooner.set()

    def retry(self, key: K) -> float:
        """Add the key after its backoff, and return the backoff in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.stats.retries += 1
        pause_s = self._backoff.delay_after(failures)
        self.add_after(key, pause_s)
        return pause_s

    def forget(self, key: K) -> None:
        """Reset the key's backoff after it was processed successfully."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Wait for the next key and return it; the caller must call `done` with it. Raise ShutDown."""
        while not self._ready:
            if self._is_shut:
                raise ShutDown
            await self._wait_for_key()
        key = self._ready.popleft()
        now = self._active[key] = self._clock.monotonic()
        self.stats.waits.observe(now - self._waiting.pop(key))
        self._rest.clear()
        self._activity.step()
        return key

    def done(self, key: K) -> None:
        """Mark the key as no longer being processed."""
        self._active.pop(key, None)
        self._activity.step()
        if key in self._waiting:
            self._make_ready(key)
        if not self._active and not self._ready:
            self._rest.set()

    def shut_down(self) -> None:
        """Accept no more keys. Keys that are ready are still returned by `get`, which then raises ShutDown."""
        self._is_shut = True
        self._due.clear()
        self._wall_deadlines.clear()
        self._delayed.clear()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    @property
    def is_shut_down(self) -> bool:
        return self._is_shut

    async def wait_until_drained(self) -> None:
        """Wait until no key is ready or being processed."""
        while self._ready or self._active:
            self._rest.clear()
            await self._rest.wait()

    async def serve(self, work: Callable[[K], Awaitable[None]], workers: int) -> None:
        """Process keys with the given number of workers until cancelled. An exception from `work` propagates.

        Other tasks run in between, even if no key has to wait for anything."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.run())
            for _ in range(workers):
                group.create_task(self._serve(work))

    async def _serve(self, work: Callable[[K], Awaitable[None]]) -> None:
        time_slice = TimeSlice()
        while True:
            try:
                key = await self.get()
            except ShutDown:
                return
            try:
                await work(key)
            finally:
                self.done(key)
            if self._ready and time_slice.is_used_up:
                with self._activity:
                    await time_slice.pause_if_used_up()

    async def run(self) -> None:
        """Make delayed keys ready when they are due, until cancelled."""
        while True:
            await self._sleep()
            self._requeue_after_clock_change()
            now = self._clock.monotonic()
            while self._delayed and self._delayed[0][0] <= now:
                deadline, _, key = heapq.heappop(self._delayed)
                if self._due.get(key) == deadline:
                    self._make_due(key)

    def _requeue_after_clock_change(self) -> None:
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
        """Wait until the first delayed key is due, or until a key with an earlier time is added."""
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
                # This getter was woken for a key but is cancelled before it takes it: wake the next getter, or the key
                # would stay in the queue with all workers asleep.
                self._wake_one()
            raise

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
