"""All changes of the store, received once and dispatched to every watch of this process.

One etcd watch over the whole key space serves all watches. That is less work than a watch per kind, for etcd and for
this process, and makes progress exact: every revision of the store is an event here, so that having seen one implies
having seen all before it, whatever the server's version. (The progress notifications of etcd can overtake events up to
3.4.24 and 3.5.7. If keys have a prefix and the server is newer, only that prefix is watched, and progress notifications
are requested.)

The recent events are kept, so that a watch that starts from a recent list, or was slow, causes no load on etcd; one
that starts further back gets its own etcd watch until it has caught up.
"""

import asyncio
from collections.abc import Sequence

from sampan.storage.backend import Compacted, Event, StorageError
from sampan.storage.etcd.log import EventLog
from sampan.storage.etcd.routes import Routes
from sampan.storage.etcd.stream import WatchStream
from sampan.storage.etcd.watch import EtcdWatch

PROGRESS_S = 5.0
"""The interval at which idle watches receive a progress notification, in seconds."""


class Feed:
    wants_own_keys_only = True

    def __init__(self, *, stream: WatchStream, max_events: int = 20_000, max_bytes: int = 32 << 20) -> None:
        self._stream, self._max_events, self._max_bytes = stream, max_events, max_bytes
        self._log = self._new_log(0)
        self._watches: Routes[EtcdWatch] = Routes()
        self._catching_up: dict[EtcdWatch, CatchUp] = {}
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._ended: StorageError | None = None

    def begin(self, position: int) -> None:
        """Start to watch after `position`, which is the store's current revision or one that is not compacted."""
        self._log = self._new_log(position)
        self._stream.subscribe(self, is_current=True)

    def _new_log(self, position: int) -> EventLog:
        return EventLog(position=position, max_events=self._max_events, max_bytes=self._max_bytes)

    @property
    def position(self) -> int:
        return self._log.position

    @property
    def base(self) -> int:
        return self._log.base

    # Called by the stream.

    def on_revisions(self, events: Sequence[Event], position: int) -> None:
        self._log.append(events, position)
        if len(events) == 1:
            for watch in tuple(self._watches.matching(events[0].key)):
                watch.on_events(events, position)
        elif events:
            for watch, own in self._sorted(events).items():
                watch.on_events(own, position)
        if self._waiting:
            self._wake()

    def _sorted(self, events: Sequence[Event]) -> dict[EtcdWatch, list[Event]]:
        by_watch: dict[EtcdWatch, list[Event]] = {}
        for event in events:
            for watch in self._watches.matching(event.key):
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
            missed = [event for event in self._log.since(watch.position) if event.key.startswith(watch.prefix)]
            self._watches.add(watch)
            watch.on_live(missed, self.position)

    def detach(self, watch: EtcdWatch) -> None:
        self._watches.discard(watch)
        if catch_up := self._catching_up.pop(watch, None):
            catch_up.stop()

    def caught_up(self, watch: EtcdWatch) -> None:
        if watch in self._catching_up:
            self.detach(watch)
            self.attach(watch)

    def forget_before(self, revision: int) -> None:
        self._log.forget_before(revision)

    async def reached(self, revision: int) -> None:
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

    def since(self, key: str, after: int) -> Sequence[Event] | None:
        """Return all events of a key after `after`, or None if the log does not reach back that far."""
        if after < self.base:
            return None
        return [event for event in self._log.since(after) if event.key == key]

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

    def __init__(self, *, feed: Feed, stream: WatchStream, watch: EtcdWatch) -> None:
        self._feed, self._stream, self._watch = feed, stream, watch
        self.position = watch.position
        self._number = stream.subscribe(self)

    def on_revisions(self, events: Sequence[Event], position: int) -> None:
        self.position = position
        own = [event for event in events if event.key.startswith(self._watch.prefix)]
        self._watch.on_events(own, position)
        if position >= self._feed.base:
            self._feed.caught_up(self._watch)

    def on_lost(self, error: StorageError) -> None:
        self._watch.end(error)

    def stop(self) -> None:
        self._stream.unsubscribe(self._number)
