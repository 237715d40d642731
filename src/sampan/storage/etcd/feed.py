"""All changes of the store, received once and dispatched to every watch of this process.

One etcd watch over the whole key space serves all watches. That is less work than a watch per kind, for etcd and for
this process, and makes progress exact: every revision of the store is an event here, so that having seen one implies
having seen all before it, whatever the server's version. (The progress notifications of etcd can overtake events up to
3.4.24 and 3.5.7. If keys have a prefix and the server is newer, only that prefix is watched, and progress notifications
are requested.)

The recent events are kept in memory (`EventLog`), so that a watch that starts from a recent list, or was slow, causes
no load on etcd. A watch that starts further back gets its own etcd watch until it has caught up (`CatchUp`).
`WatchRoutes` finds the watches that an event concerns by its key, at a cost that does not depend on the number of
watches."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from sampan.storage.backend import Compacted, StorageError, StoreEvent
from sampan.storage.etcd.stream import WatchStream
from sampan.storage.etcd.watch import EtcdWatch


class RoutedWatch(Protocol):
    @property
    def prefix(self) -> str: ...


R = TypeVar("R", bound=RoutedWatch)


class WatchRoutes(Generic[R]):
    def __init__(self) -> None:
        self._by_prefix: dict[str, dict[R, None]] = {}
        self._lengths: list[int] = []

    def __iter__(self) -> Iterator[R]:
        for routed in list(self._by_prefix.values()):
            yield from list(routed)

    def add(self, routed: R) -> None:
        self._by_prefix.setdefault(routed.prefix, {})[routed] = None
        self._measure()

    def discard(self, routed: R) -> None:
        same = self._by_prefix.get(routed.prefix, {})
        same.pop(routed, None)
        if not same:
            self._by_prefix.pop(routed.prefix, None)
        self._measure()

    def _measure(self) -> None:
        self._lengths = sorted({len(prefix) for prefix in self._by_prefix})

    def find_watches(self, key: str) -> Iterator[R]:
        for length in self._lengths:
            yield from self._by_prefix.get(key[:length], ())


class EventLog:
    """Holds every event after revision `base` up to revision `position`, limited in number and size.

    Older events are dropped by whole revisions. Events share their bytes with others that reference them.
    """

    def __init__(self, *, position: int, max_events: int, max_bytes: int) -> None:
        self.base = self.position = position
        self._max_events, self._max_bytes = max_events, max_bytes
        self._events: deque[StoreEvent] = deque()
        self._bytes = 0

    def append(self, events: Sequence[StoreEvent], position: int) -> None:
        self._events.extend(events)
        self._bytes += sum(map(_weight, events))
        self.position = position
        while len(self._events) > self._max_events or self._bytes > self._max_bytes:
            self._forget_through(self._events[0].revision)

    def forget_before(self, revision: int) -> None:
        """Drop events before `revision`, which the store has compacted."""
        self._forget_through(min(revision - 1, self.position))

    def _forget_through(self, revision: int) -> None:
        while self._events and self._events[0].revision <= revision:
            self._bytes -= _weight(self._events.popleft())
        self.base = max(self.base, revision)

    def list_events_after(self, after: int) -> Iterator[StoreEvent]:
        """Return the events after a revision that the log reaches back to (`after >= base`)."""
        return reversed(list(self._newest(after)))

    def _newest(self, after: int) -> Iterator[StoreEvent]:
        for event in reversed(self._events):
            if event.revision <= after:
                return
            yield event


def _weight(event: StoreEvent) -> int:
    return len(event.key) + len(event.value or b"") + 100


PROGRESS_S = 5.0
"""The interval at which idle watches receive a progress notification, in seconds."""


class EventFeed:
    wants_own_keys_only = True

    def __init__(self, *, stream: WatchStream, max_events: int = 20_000, max_bytes: int = 32 << 20) -> None:
        self._stream, self._max_events, self._max_bytes = stream, max_events, max_bytes
        self._log = self._make_log(0)
        self._watches: WatchRoutes[EtcdWatch] = WatchRoutes()
        self._catching_up: dict[EtcdWatch, CatchUp] = {}
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._ended: StorageError | None = None

    def begin(self, position: int) -> None:
        """Start to watch after `position`, which is the store's current revision or one that is not compacted."""
        self._log = self._make_log(position)
        self._stream.subscribe(self, is_current=True)

    def _make_log(self, position: int) -> EventLog:
        return EventLog(position=position, max_events=self._max_events, max_bytes=self._max_bytes)

    @property
    def position(self) -> int:
        return self._log.position

    @property
    def base(self) -> int:
        return self._log.base

    # Called by the stream.

    def on_revisions(self, events: Sequence[StoreEvent], position: int) -> None:
        self._log.append(events, position)
        if len(events) == 1:
            for watch in tuple(self._watches.find_watches(events[0].key)):
                watch.on_events(events, position)
        elif events:
            for watch, own in self._group_by_watch(events).items():
                watch.on_events(own, position)
        if self._waiting:
            self._wake()

    def _group_by_watch(self, events: Sequence[StoreEvent]) -> dict[EtcdWatch, list[StoreEvent]]:
        by_watch: dict[EtcdWatch, list[StoreEvent]] = {}
        for event in events:
            for watch in self._watches.find_watches(event.key):
                by_watch.setdefault(watch, []).append(event)
        return by_watch

    def on_lost(self, error: StorageError) -> None:
        for watch in self._watches:
            watch.end(error)
        if isinstance(error, Compacted):
            self.begin(error.compacted)
            self._wake()
        else:
            self.close(error)

    # Called by watches.

    def attach(self, watch: EtcdWatch) -> None:
        """Deliver the events that the watch has missed, and future ones from now on."""
        if self._ended is not None:
            watch.end(self._ended)
        elif watch.position < self._log.base:
            self._catching_up[watch] = CatchUp(feed=self, stream=self._stream, watch=watch)
        else:
            missed = [
                event for event in self._log.list_events_after(watch.position) if event.key.startswith(watch.prefix)
            ]
            self._watches.add(watch)
            watch.on_live(missed, self.position)

    def detach(self, watch: EtcdWatch) -> None:
        self._watches.discard(watch)
        if catch_up := self._catching_up.pop(watch, None):
            catch_up.stop()

    def on_caught_up(self, watch: EtcdWatch) -> None:
        if watch in self._catching_up:
            self.detach(watch)
            self.attach(watch)

    def forget_before(self, revision: int) -> None:
        self._log.forget_before(revision)

    async def wait_until_reached(self, revision: int) -> None:
        """Return once everything up to `revision` has been received."""
        self.check()
        if self.position < revision:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((revision, future))
            self._stream.request_progress()
            await future

    def check(self) -> None:
        """Raise the error that ended the feed, if it has ended."""
        if self._ended is not None:
            raise self._ended

    def list_events_after(self, key: str, after: int) -> Sequence[StoreEvent] | None:
        """Return all events of a key after `after`, or None if the log does not reach back that far."""
        if after < self.base:
            return None
        return [event for event in self._log.list_events_after(after) if event.key == key]

    def _wake(self) -> None:
        still = []
        for revision, future in self._waiting:
            if revision > self.position and not future.done():
                still.append((revision, future))
            elif not future.done():
                future.set_result(None)
        self._waiting = still

    async def run(self) -> None:
        """Send progress to watches periodically, and repeat requests whose response may have been lost."""
        turns = 5
        while True:
            for turn in range(turns):
                await asyncio.sleep(PROGRESS_S / turns)
                if self._waiting:
                    self._stream.request_progress()
                if turn == 0:
                    for watch in self._watches:
                        watch.on_progress(self.position)

    def close(self, error: StorageError) -> None:
        self._ended = error
        for watch in [*self._watches, *self._catching_up]:
            watch.end(error)
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()
        self._waiting.clear()


class CatchUp:
    """The etcd watch of a local watch that starts before the recent events.

    It covers all keys, because only then an event is certain to show that the recent events have been reached.
    """

    wants_own_keys_only = False

    def __init__(self, *, feed: EventFeed, stream: WatchStream, watch: EtcdWatch) -> None:
        self._feed, self._stream, self._watch = feed, stream, watch
        self.position = watch.position
        self._number = stream.subscribe(self)

    def on_revisions(self, events: Sequence[StoreEvent], position: int) -> None:
        self.position = position
        own = [event for event in events if event.key.startswith(self._watch.prefix)]
        self._watch.on_events(own, position)
        if position >= self._feed.base:
            self._feed.on_caught_up(self._watch)

    def on_lost(self, error: StorageError) -> None:
        self._watch.end(error)

    def stop(self) -> None:
        self._stream.unsubscribe(self._number)
