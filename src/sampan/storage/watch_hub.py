"""Watches on a store in this process: the dispatch of events, and how a watch catches up.

The hub receives each batch of writes after it is durable and before the writers receive their results. A watch that
starts in the past subscribes first and then reads the log up to the revision at which it subscribed: later events are
already queued for it, so that none is missed or delivered twice. The queue of a slow reader is bounded: above the limit
it is dropped, and the watch reads the log again from its position.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from sampan.storage.backend import BackendClosed, EventBatch, OnBatch, StorageError, StoreEvent

QUEUED_EVENTS = 10_000
QUEUED_BYTES = 32 << 20
_REMEMBERED_ROUTES = 4096

ReadLog = Callable[[str, int, int], Awaitable[EventBatch]]
"""Takes `(prefix, after, through)` and returns events under the prefix with `after < revision <= through`, or the first
part of them; the revision of the batch states how far it reaches. Raises `Compacted`.
"""


class WatchHub:
    """The open watches of one store, and the revision that was published to them."""

    def __init__(self, *, revision: int, read_log: ReadLog) -> None:
        self.revision = revision
        self.read_log = read_log
        self._is_closed = False
        self._directories: dict[str, list[LocalWatch]] = {}
        """Watches whose prefix ends in a slash, by prefix."""
        self._others: list[LocalWatch] = []
        self._routes: dict[str, tuple[LocalWatch, ...]] = {}
        """For recently seen key directories (up to the last slash), the watches in `_directories` that match."""

    def watch(self, prefix: str, *, after: int, on_batch: OnBatch | None) -> "LocalWatch":
        return LocalWatch(hub=self, prefix=prefix, after=after, on_batch=on_batch)

    def publish(self, events: Sequence[StoreEvent], revision: int) -> None:
        """Dispatch events, which must follow those published before, to the watches that they concern."""
        self.revision = revision
        concerned: dict[LocalWatch, list[StoreEvent]] = {}
        for event in events:
            for watch in self._find_watches(event.key):
                concerned.setdefault(watch, []).append(event)
        for watch, its_events in concerned.items():
            watch.offer(EventBatch(its_events, revision))

    def close(self) -> None:
        self._is_closed = True
        for watch in [*self._others, *(watch for watches in self._directories.values() for watch in watches)]:
            watch.end(BackendClosed("the store was closed"))

    def add(self, watch: "LocalWatch") -> None:
        if self._is_closed:
            raise BackendClosed("the store is closed")
        self._get_watch_list(watch).append(watch)
        self._routes.clear()

    def remove(self, watch: "LocalWatch") -> None:
        home = self._get_watch_list(watch)
        if watch in home:
            home.remove(watch)
        if not self._directories.get(watch.prefix, True):
            del self._directories[watch.prefix]
        self._routes.clear()

    def _get_watch_list(self, watch: "LocalWatch") -> "list[LocalWatch]":
        return self._directories.setdefault(watch.prefix, []) if watch.prefix.endswith("/") else self._others

    def _find_watches(self, key: str) -> "Sequence[LocalWatch]":
        directory = key[: key.rfind("/") + 1]
        routed = self._routes.get(directory)
        if routed is None:
            routed = self._route(directory)
        if not self._others:
            return routed
        return [*routed, *(watch for watch in self._others if key.startswith(watch.prefix))]

    def _route(self, directory: str) -> "tuple[LocalWatch, ...]":
        if len(self._routes) >= _REMEMBERED_ROUTES:
            self._routes.clear()
        ends = (i + 1 for i, letter in enumerate(directory) if letter == "/")
        routed = tuple(watch for end in ends for watch in self._directories.get(directory[:end], ()))
        self._routes[directory] = routed
        return routed


class LocalWatch:
    """A `StoreWatch` on a hub, which is its own iterator, for one reader at a time."""

    def __init__(self, *, hub: WatchHub, prefix: str, after: int, on_batch: OnBatch | None) -> None:
        self.prefix = prefix
        self._hub = hub
        self._on_batch = on_batch
        self._position = after
        """Everything up to this revision was delivered to the reader, or was not requested."""
        self._log_through = 0
        """Events after `_position` up to this revision have to be read from the log; queued events are later."""
        self._queue: deque[EventBatch] = deque()
        self._queued_events = self._queued_bytes = 0
        self._is_direct = False
        """Whether the watch has caught up, so that batches go directly to `_on_batch`."""
        self._end: BaseException | None = None
        self._waiting: asyncio.Future[None] | None = None

    async def __aenter__(self) -> "LocalWatch":
        self._hub.add(self)
        self._log_through = self._hub.revision
        if self._on_batch is not None:
            await self._catch_up()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._queue.clear()
        self.end(BackendClosed("the watch was closed by its consumer"))

    def __aiter__(self) -> "LocalWatch":
        return self

    async def __anext__(self) -> EventBatch:
        while True:
            if self._position < self._log_through:
                if self._end is not None:
                    raise self._end
                if (batch := await self._read_log()).events:
                    return batch
            elif self._queue:
                return self._take()
            elif self._end is not None:
                raise self._end
            else:
                await self._wait()

    async def request_progress(self) -> None:
        mark = EventBatch((), self._hub.revision)
        self._deliver(mark) if self._is_direct else self._enqueue(mark)

    def offer(self, batch: EventBatch) -> None:
        """Receive a batch that was just written."""
        if batch.events[0].revision <= self._position:
            later = [event for event in batch.events if event.revision > self._position]
            if not later:
                return
            batch = EventBatch(later, batch.revision)
        self._deliver(batch) if self._is_direct else self._enqueue(batch)

    def end(self, reason: BaseException) -> None:
        """End the watch once its queue has been read."""
        if self._end is None:
            self._end = reason
            self._is_direct = False
            self._hub.remove(self)
            self._wake()

    def _deliver(self, batch: EventBatch) -> None:
        assert self._on_batch is not None
        if self._end is not None:
            return
        self._position = max(self._position, batch.revision)
        try:
            self._on_batch(batch)
        except Exception as error:
            self.end(error)

    async def _catch_up(self) -> None:
        """Deliver the log, and the batches that are written meanwhile, to `_on_batch`; later batches are delivered
        directly."""
        try:
            while self._position < self._log_through and self._end is None:
                if (batch := await self._read_log()).events:
                    self._deliver(batch)
        except StorageError:
            pass  # the watch has ended, and its iteration raises the error
        except BaseException:
            self.end(BackendClosed("the watch was closed while it was reading the log"))
            raise
        while self._queue:
            self._deliver(self._take())
        self._is_direct = self._end is None

    async def _read_log(self) -> EventBatch:
        """Return the next part of the log to read, possibly without events."""
        try:
            batch = await self._hub.read_log(self.prefix, self._position, self._log_through)
        except StorageError as error:
            self.end(error)
            raise
        self._position = batch.revision
        return batch

    def _enqueue(self, batch: EventBatch) -> None:
        self._queued_events += len(batch.events)
        self._queued_bytes += _weight(batch)
        self._queue.append(batch)
        if self._queued_events > QUEUED_EVENTS or self._queued_bytes > QUEUED_BYTES:
            self._queue.clear()
            self._queued_events = self._queued_bytes = 0
            self._log_through = batch.revision
        self._wake()

    def _take(self) -> EventBatch:
        batch = self._queue.popleft()
        self._queued_events -= len(batch.events)
        self._queued_bytes -= _weight(batch)
        self._position = max(self._position, batch.revision)
        return batch

    async def _wait(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def _weight(batch: EventBatch) -> int:
    return sum(len(event.value) for event in batch.events if event.value is not None)
