"""The state of the cache: contents, history and routes to watchers, which advance together with the store's events.

Everything here is synchronous, so that between two awaits the state is that of exactly one revision.
"""

import logging
from collections.abc import Callable

from sampan.storage.backend import Batch, Event
from sampan.storage.cacher.contents import Contents
from sampan.storage.cacher.errors import CorruptValue, Expired
from sampan.storage.cacher.freshness import Freshness
from sampan.storage.cacher.history import History, HistoryBudget, HistoryLimits
from sampan.storage.cacher.item import Item, ItemMaker
from sampan.storage.cacher.routes import Routes
from sampan.storage.cacher.shape import Shape
from sampan.storage.cacher.watch_budget import WatchBudget

log = logging.getLogger(__name__)


class State:
    def __init__(
        self,
        *,
        shape: Shape,
        maker: ItemMaker,
        limits: HistoryLimits,
        now: Callable[[], float],
        history_budget: HistoryBudget | None = None,
        watch_budget: WatchBudget | None = None,
    ) -> None:
        self.shape = shape
        self.contents = Contents(shape)
        self.history = History(limits=limits, now=now, budget=history_budget)
        self.routes = Routes(shape, watch_budget or WatchBudget())
        self.fresh = Freshness()
        self.corrupt: dict[str, CorruptValue] = {}
        """Keys whose value cannot be decoded. They are omitted from lists, and reading one is an error."""
        self._maker = maker

    @property
    def revision(self) -> int:
        return self.fresh.revision

    def replace(self, contents: Contents, corrupt: dict[str, CorruptValue], revision: int) -> None:
        """Replace the contents after a new list; watchers end with `Expired`, because the events in between are
        unknown.
        """
        self.contents, self.corrupt = contents, corrupt
        self.history.reset(revision)
        for watcher in list(self.routes.watchers()):
            watcher.end(Expired.of_watch(max(watcher.after, self.revision), revision))
        self.fresh.advance(revision)

    def apply(self, batch: Batch) -> None:
        """Apply the next events of the store's watch."""
        for event in batch.events:
            self._apply(event)
        self.fresh.advance(batch.revision)

    def _apply(self, event: Event) -> None:
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

    def item(self, key: str, value: bytes | None, revision: int, old: Item | None) -> Item | None:
        """Return the item, or None for a deletion or a value that cannot be decoded."""
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
