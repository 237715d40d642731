"""The watch of one client: its start, its bounded queue and its end, and the schedule of its bookmarks, which are sent
about once a minute and shortly before the watch times out."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from sampan.api.limits import (
    MAX_WATCHER_BYTES,
    MAX_WATCHER_EVENTS,
    WATCH_SEND_BYTES,
    WATCHER_BLOCKED_S,
    WATCHER_BYTES,
    WATCHER_EVENTS,
)
from sampan.storage.cacher.errors import TooSlow
from sampan.storage.cacher.item import CacheEvent
from sampan.storage.cacher.selection import ObjectSelection

INTERVAL_S = 60.0
BEFORE_END_S = 2.0
_TOGETHER_S = 1.0
"""Bookmarks due within this time are sent together."""


def next_due(now: float, deadline: float | None, *, interval_s: float = INTERVAL_S) -> float | None:
    """Return when the next bookmark is due, or None if this watch gets no more."""
    due = now + interval_s
    if deadline is not None:
        due = min(due, deadline - BEFORE_END_S)
    return due if due > now else None


class BookmarkSchedule:
    """Calls `send` with the watchers whose bookmark is due, on the event loop's clock."""

    def __init__(self, *, send: Callable[[Sequence[Watcher]], Awaitable[None]], interval_s: float = INTERVAL_S) -> None:
        self._send = send
        self._interval_s = interval_s
        self._due: list[tuple[float, int, Watcher]] = []
        self._order = itertools.count()
        self._sooner = asyncio.Event()
        """Set when a watcher is added that is due before all others."""

    def add(self, watcher: Watcher, *, after_s: float = 0.0) -> None:
        """Schedule the next bookmark, no earlier than `after_s` seconds from now."""
        now = asyncio.get_running_loop().time() + after_s
        due = next_due(now, watcher.deadline, interval_s=self._interval_s - after_s)
        if due is None:
            return
        if not self._due or due < self._due[0][0]:
            self._sooner.set()
        heapq.heappush(self._due, (due, next(self._order), watcher))

    async def run(self) -> None:
        while True:
            await self._sleep()
            watchers = self._pop(asyncio.get_running_loop().time())
            if not watchers:
                continue
            await self._send(watchers)
            for watcher in watchers:
                self.add(watcher, after_s=_TOGETHER_S)

    async def _sleep(self) -> None:
        """Sleep until the first bookmark is due, or a watcher is added that is due earlier."""
        self._sooner.clear()
        try:
            async with asyncio.timeout_at(self._due[0][0] if self._due else None):
                await self._sooner.wait()
        except TimeoutError:
            pass

    def _pop(self, now: float) -> list[Watcher]:
        watchers: list[Watcher] = []
        if not self._due or self._due[0][0] > now:
            return watchers
        while self._due and self._due[0][0] <= now + _TOGETHER_S:
            watcher = heapq.heappop(self._due)[2]
            if not watcher.is_ended:
                watchers.append(watcher)
        return watchers


@dataclass(frozen=True, slots=True)
class WatchQuery:
    selection: ObjectSelection = field(default_factory=ObjectSelection)
    resource_version: str = ""
    send_initial_events: bool | None = None
    allow_bookmarks: bool = False
    timeout_s: float | None = None
    """The watch ends without an error after this time, in seconds."""


@dataclass(frozen=True, slots=True)
class WatchLimits:
    """Limits of a watcher's queue; a watcher that exceeds them is terminated."""

    events: int = MAX_WATCHER_EVENTS
    bytes: int = MAX_WATCHER_BYTES
    blocked_events: int = WATCHER_EVENTS
    """The maximum number of queued events of a watcher whose client has not read for `blocked_s`; `blocked_bytes` is
    the maximum number of bytes."""
    blocked_bytes: int = WATCHER_BYTES
    blocked_s: float = WATCHER_BLOCKED_S


class WatcherHost(Protocol):
    """The operations of a cacher that its watchers use."""

    async def open(self, watcher: Watcher) -> None:
        """Wait until the watch can start, pass the initial events to the watcher, and route events to it."""

    def close(self, watcher: Watcher) -> None:
        """Stop routing events to the watcher; it may be closed already."""


class Watcher:
    """A watch: `async with cacher.watch(query) as watcher: async for events in watcher: ...`

    Each iteration returns the events that are ready, up to `BATCH_BYTES`, so that they can be sent together. A caller
    that serves many clients uses `arm` and `pop_ready` instead, which need no task per client. The iteration ends
    without an error at the timeout of the query, and with an error (`TooSlow`, `VersionExpired`, `WatchClosed`) when
    events can no longer be delivered without a gap. Events before the end are delivered first, except to a watcher that
    is too slow.
    """

    BATCH = 500
    """How many initial events are prepared at a time."""
    BATCH_BYTES = WATCH_SEND_BYTES
    """How many bytes of events are prepared at a time; a single larger event is still delivered."""

    def __init__(self, *, query: WatchQuery, host: WatcherHost, limits: WatchLimits) -> None:
        self.query = query
        self.after = 0
        """Only events with a greater revision are delivered to this watcher."""
        self.deadline: float | None = None
        self._host = host
        self._limits = limits
        self._initial: Iterator[CacheEvent] | None = None
        self._initial_end: CacheEvent | None = None
        self._queue: list[CacheEvent] = []
        self.queued_bytes = 0
        self.blocked_at: float | None = None
        """Since when, by the loop's clock, the client has not read; None if it reads. Set by `block`."""
        self._wake: Callable[[], None] | None = None
        self._at_end: Callable[[], None] | None = None
        self._is_ended = False
        self.error: Exception | None = None
        """The error that ended the watch; None if it ended at its timeout or by the client."""
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Watcher:
        if self.query.timeout_s is not None:
            loop = asyncio.get_running_loop()
            self.deadline = loop.time() + self.query.timeout_s
            self._timer = loop.call_at(self.deadline, self.end)
        try:
            await self._host.open(self)
        except BaseException:
            self._stop_timer()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_timer()
        self._wake = self._at_end = None
        self.end()
        self._clear()

    def begin(self, *, after: int, initial: Iterator[CacheEvent] | None, initial_end: CacheEvent | None) -> None:
        """Deliver `initial` (generated lazily), then `initial_end`, then the offered events."""
        self.after = after
        self._initial, self._initial_end = initial, initial_end

    def offer(self, event: CacheEvent, size: int) -> bool:
        """Queue an event; return False if the queue exceeds the limits of the watcher."""
        queue = self._queue
        queue.append(event)
        self.queued_bytes += size
        wake = self._wake
        if wake is not None:
            self._wake = None
            wake()
        if self.blocked_at is not None:
            return self._is_tolerable(self.blocked_at)
        return self.queued_bytes <= self._limits.bytes and len(queue) <= self._limits.events

    def _is_tolerable(self, blocked_at: float) -> bool:
        """Whether the queue of a blocked watcher is short enough, or the watcher has not been blocked for long."""
        limits, size, count = self._limits, self.queued_bytes, len(self._queue)
        if size <= limits.blocked_bytes and count <= limits.blocked_events:
            return True
        if size > limits.bytes or count > limits.events:
            return False
        return asyncio.get_running_loop().time() - blocked_at < limits.blocked_s

    def block(self) -> None:
        """Record that the client does not read, so that the stricter limits apply to the queue."""
        if self.blocked_at is None:
            self.blocked_at = asyncio.get_running_loop().time()

    def unblock(self) -> None:
        self.blocked_at = None

    def terminate(self) -> None:
        self.end(TooSlow("the watch client did not read its events in time"))

    def end(self, error: Exception | None = None) -> None:
        """End the watch; only the first call has an effect."""
        if self._is_ended:
            return
        self._is_ended, self.error = True, error
        self._host.close(self)
        if isinstance(error, TooSlow):
            self._clear()
        wake, self._wake = self._wake, None
        for call in (wake, self._at_end):
            if call is not None:
                call()

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def oldest_revision(self) -> int:
        return self._queue[0].revision if self._queue else 0

    def arm(self, wake: Callable[[], None]) -> None:
        """Call `wake` once when there is something to pop or the watch has ended; immediately if that is so now."""
        if self._queue or self._initial is not None or self._initial_end is not None or self._is_ended:
            wake()
        else:
            self._wake = wake

    def set_end_callback(self, call: Callable[[], None]) -> None:
        """Call `call` when the watch ends, even if events are left to pop."""
        self._at_end = call

    def pop_ready(self) -> list[CacheEvent]:
        """Return the events that are ready, at most one batch and possibly none, without waiting."""
        if self._initial is not None or self._initial_end is not None:
            return self._pop_initial()
        queue = self._queue
        if self.queued_bytes <= self.BATCH_BYTES:
            if queue:
                self._queue, self.queued_bytes = [], 0
            return queue
        count = size = 0
        while size < self.BATCH_BYTES:
            size += len(queue[count].item.body)
            count += 1
        self.queued_bytes -= size
        self._queue = queue[count:]
        return queue[:count]

    def _pop_initial(self) -> list[CacheEvent]:
        ready: list[CacheEvent] = []
        size = 0
        for event in self._initial or ():
            ready.append(event)
            size += len(event.item.body)
            if size >= self.BATCH_BYTES or len(ready) == self.BATCH:
                return ready
        self._initial = None
        if self._initial_end is not None:
            ready.append(self._initial_end)
            self._initial_end = None
        return ready + self.pop_ready() if self.queued_bytes <= self.BATCH_BYTES else ready or self.pop_ready()

    def __aiter__(self) -> AsyncIterator[list[CacheEvent]]:
        return self

    async def __anext__(self) -> list[CacheEvent]:
        is_starting = self._initial is not None
        while not (ready := self.pop_ready()):
            if self._is_ended:
                raise self.error or StopAsyncIteration
            await self._wait_for_more()
        if is_starting:
            await asyncio.sleep(0)
        return ready

    async def _wait_for_more(self) -> None:
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.arm(lambda: None if news.done() else news.set_result(None))
        try:
            await news
        finally:
            self._wake = None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _clear(self) -> None:
        self._queue, self.queued_bytes, self._initial, self._initial_end = [], 0, None, None
