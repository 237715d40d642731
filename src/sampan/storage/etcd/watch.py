"""A watch on an etcd backend: its position, and the queue for its iterator."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from sampan.storage.backend import EventBatch, OnBatch, StoreEvent

MAX_QUEUED = 10_000
"""The number of events queued for a slow reader, above which the watch pauses and later resumes at its position."""


class WatchSource(Protocol):
    """The source of the events of a watch: the feed."""

    @property
    def position(self) -> int: ...
    def attach(self, watch: "EtcdWatch") -> None: ...
    def detach(self, watch: "EtcdWatch") -> None: ...
    async def wait_until_reached(self, revision: int) -> None: ...


class EtcdWatch:
    def __init__(
        self,
        *,
        source: WatchSource,
        prefix: str,
        after: int,
        on_batch: OnBatch | None,
        current_revision: Callable[[], Awaitable[int]],
    ) -> None:
        self.prefix = prefix
        self.position = after
        """The revision up to which everything has been delivered or queued, or was not requested."""
        self._source, self._on_batch, self._current_revision = source, on_batch, current_revision
        self._is_live = False
        """Whether everything that has happened was delivered or queued."""
        self._is_paused = False
        """Whether the watch is detached from its source until the queue is empty."""
        self._queue: deque[EventBatch] = deque()
        self._queued = 0
        self._delivered = 0
        """The revision of the last batch that was delivered or queued."""
        self._progress_revision = 0
        """A revision for which a progress batch was requested."""
        self._error: Exception | None = None
        self._woken = asyncio.Event()

    async def __aenter__(self) -> "EtcdWatch":
        self._source.attach(self)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._is_live = False
        self._source.detach(self)

    def __aiter__(self) -> "EtcdWatch":
        return self

    async def __anext__(self) -> EventBatch:
        while not self._queue:
            if self._error is not None:
                raise self._error
            if self._is_paused:
                self._is_paused = False
                self._source.attach(self)
            else:
                self._woken.clear()
                await self._woken.wait()
        batch = self._queue.popleft()
        self._queued -= len(batch.events)
        return batch

    async def request_progress(self) -> None:
        revision = await self._current_revision()
        await self._source.wait_until_reached(revision)
        self._progress_revision = max(self._progress_revision, revision)
        if self._is_live:
            self.on_progress(self._source.position)

    # Called by the source.

    def on_live(self, missed: Sequence[StoreEvent], position: int) -> None:
        """Switch to live events: with `missed`, everything up to `position` is delivered, and later events will be."""
        self._is_live = True
        self.on_events(missed, position)
        if self._is_live and self._progress_revision:
            self.on_progress(position)

    def on_events(self, events: Sequence[StoreEvent], position: int) -> None:
        """Receive all events under the prefix after `self.position` up to `position`; older ones are dropped."""
        if events and events[0].revision <= self.position:
            events = [event for event in events if event.revision > self.position]
        self.position = max(self.position, position)
        if events:
            self._deliver(EventBatch(events, position))

    def on_progress(self, position: int) -> None:
        """Deliver a progress batch if one was requested or the position has advanced."""
        if position > self._delivered or self._progress_revision:
            self.position = max(self.position, position)
            if position >= self._progress_revision:
                self._progress_revision = 0
            self._deliver(EventBatch((), position))

    def end(self, error: Exception) -> None:
        self._is_live = self._is_paused = False
        self._error = error
        self._source.detach(self)
        self._woken.set()

    def _deliver(self, batch: EventBatch) -> None:
        self._delivered = batch.revision
        if self._on_batch is None:
            self._enqueue(batch)
            return
        try:
            self._on_batch(batch)
        except Exception as error:
            self.end(error)

    def _enqueue(self, batch: EventBatch) -> None:
        if self._queue and not self._queue[-1].events:
            self._queue.pop()
        self._queue.append(batch)
        self._queued += len(batch.events)
        self._woken.set()
        if self._queued > MAX_QUEUED:
            self._is_live, self._is_paused = False, True
            self._source.detach(self)
