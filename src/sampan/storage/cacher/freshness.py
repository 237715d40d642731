"""The state of the cache (contents, history and routes to watchers, which advance together with the events of the
store), its revision, and waiting until it is fresh enough.

Changes of the state are synchronous, so that between two awaits the state is that of exactly one revision.
"""

import asyncio
import contextlib
import itertools
import logging
from bisect import bisect_left, insort
from collections.abc import Awaitable, Callable

from sampan.storage.backend import EventBatch, StorageError, StoreEvent
from sampan.storage.cacher.contents import CacheContents
from sampan.storage.cacher.errors import CorruptValue, TooLargeVersion, VersionExpired
from sampan.storage.cacher.history import EventHistory, HistoryBudget, HistoryLimits
from sampan.storage.cacher.item import CacheItem, ItemMaker
from sampan.storage.cacher.object_fields import CachedResource
from sampan.storage.cacher.watch_budget import WatchBudget
from sampan.storage.cacher.watcher_routes import WatcherRoutes

log = logging.getLogger(__name__)


class CacheState:
    def __init__(
        self,
        *,
        shape: CachedResource,
        maker: ItemMaker,
        limits: HistoryLimits,
        now: Callable[[], float],
        history_budget: HistoryBudget | None = None,
        watch_budget: WatchBudget | None = None,
    ) -> None:
        self.shape = shape
        self.contents = CacheContents(shape)
        self.history = EventHistory(limits=limits, now=now, budget=history_budget)
        self.routes = WatcherRoutes(shape, watch_budget or WatchBudget())
        self.fresh = Freshness()
        self.corrupt: dict[str, CorruptValue] = {}
        """Keys whose value cannot be decoded. They are omitted from lists, and reading one is an error."""
        self._maker = maker

    @property
    def revision(self) -> int:
        return self.fresh.revision

    def replace(self, contents: CacheContents, corrupt: dict[str, CorruptValue], revision: int) -> None:
        """Replace the contents after a new list; watchers end with `VersionExpired`, because the events in between are
        unknown.
        """
        self.contents, self.corrupt = contents, corrupt
        self.history.reset(revision)
        for watcher in list(self.routes.watchers()):
            watcher.end(VersionExpired.for_watch(max(watcher.after, self.revision), revision))
        self.fresh.advance(revision)

    def apply(self, batch: EventBatch) -> None:
        """Apply the next events of the store's watch."""
        for event in batch.events:
            self._apply(event)
        self.fresh.advance(batch.revision)

    def _apply(self, event: StoreEvent) -> None:
        old = self.contents.items.get(event.key)
        new = self.item(event.key, event.value, event.revision, old)
        if new is not None:
            self.contents.put(new, old)
        elif old is not None:
            self.contents.remove(old)
        else:
            return
        if old is not None:
            old.replace()
        self.routes.dispatch(self.history.append(event.revision, event.key, old, new))

    def item(self, key: str, value: bytes | None, revision: int, old: CacheItem | None) -> CacheItem | None:
        """Return the item of a stored value, or None for a deletion or a value that cannot be decoded."""
        if self.corrupt:
            self.corrupt.pop(key, None)
        if value is None:
            return None
        try:
            return self._maker.make(key, value, revision, old)
        except CorruptValue as error:
            log.error("%s", error)
            self.corrupt[key] = error
            return None


Ask = Callable[[], Awaitable[None]]


class Freshness:
    """The revision that the cache has reached, and the readers that wait for a later one."""

    RETRY_S = 0.1
    """How long to wait for a requested progress notification before requesting another, in seconds."""

    def __init__(self) -> None:
        self.revision = 0
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        """Waiting readers in the order of the revisions that they wait for."""
        self._requested = 0
        """The highest revision that a progress notification has been requested for."""
        self._requested_at = 0.0

    def advance(self, revision: int) -> None:
        self.revision = revision
        if self._waiting and self._waiting[0][0] <= revision:
            reached = bisect_left(self._waiting, (revision + 1,))
            for _, _, woken in self._waiting[:reached]:
                _wake(woken)

    async def wait_for(self, revision: int, *, timeout_s: float, ask: Ask) -> None:
        """Return once the cache has reached `revision`, or raise `TooLargeVersion`.

        `ask` requests a progress notification from the store's watch; it is not called if one was requested recently
        for the same or a higher revision.
        """
        if self.revision >= revision:
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        while self.revision < revision:
            if (remaining_s := end - loop.time()) <= 0:
                raise TooLargeVersion(revision, self.revision)
            if self._requested < revision or loop.time() - self._requested_at >= self.RETRY_S:
                await self._ask(revision, ask)
            if self.revision < revision:
                await self._wait_until_reached(revision, min(remaining_s, self.RETRY_S))

    async def _ask(self, revision: int, ask: Ask) -> None:
        self._requested, self._requested_at = max(self._requested, revision), asyncio.get_running_loop().time()
        # If the watch has failed, it is reopened, and the wait continues until then.
        with contextlib.suppress(StorageError):
            await ask()

    async def _wait_until_reached(self, revision: int, timeout_s: float) -> None:
        """Return when the revision is reached or the time is over."""
        loop = asyncio.get_running_loop()
        waiting = (revision, next(self._order), loop.create_future())
        insort(self._waiting, waiting)
        timer = loop.call_later(timeout_s, _wake, waiting[2])
        try:
            await waiting[2]
        finally:
            timer.cancel()
            del self._waiting[bisect_left(self._waiting, waiting[:2])]


def _wake(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
