"""The recent changes of a resource, from which watches resume and past versions are reconstructed."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from sampan.api.limits import HISTORY_AGE_S, HISTORY_BYTES, HISTORY_EVENTS
from sampan.storage.cacher.item import CacheItem


class CacheChange(msgspec.Struct, gc=False, eq=False):
    """A change of one object from `old` to `new`; None means that the object did not or does not exist."""

    revision: int
    key: str
    old: CacheItem | None
    new: CacheItem | None
    at: float
    """When the change was received, by the clock of the history."""


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """The limits of one resource's history; `HistoryBudget` limits all histories together."""

    events: int = HISTORY_EVENTS
    bytes: int = HISTORY_BYTES
    """The limit for objects that only the history still references, in bytes."""
    age_s: float = HISTORY_AGE_S


class HistoryBudget:
    """A memory limit for the histories of all resources together: the globally oldest change is dropped first."""

    def __init__(self, *, limit: int = HISTORY_BYTES, freed: Callable[[int], None] = lambda size: None) -> None:
        """Create a budget; `freed` is called with the number of bytes that were released."""
        self._limit, self._freed = limit, freed
        self._order: deque[EventHistory] = deque()
        """The history of each change, oldest change first."""
        self.bytes = 0

    def add(self, history: "EventHistory", size: int) -> None:
        """Count a change that was appended to the history, and drop the oldest changes if the limit is exceeded."""
        self._order.append(history)
        self.bytes += size
        while self.bytes > self._limit and self._order:
            self._order.popleft().forget_oldest()

    def tidy(self) -> None:
        """Remove leading entries whose changes were already dropped by their histories."""
        while self._order and self._order[0].has_dropped:
            self._order.popleft().forget_oldest()

    def give_back(self, size: int) -> None:
        self.bytes -= size
        self._freed(size)


class EventHistory:
    """Changes in revision order, complete after `floor`; the oldest are dropped when a limit is exceeded."""

    def __init__(self, *, limits: HistoryLimits, now: Callable[[], float], budget: HistoryBudget | None = None) -> None:
        self._limits = limits
        self._now = now
        self._budget = budget or HistoryBudget()
        self._changes: list[CacheChange] = []
        self._start = 0
        """The index of the oldest retained change; the slots before it are removed in bulk."""
        self._gone_early = 0
        """The number of changes dropped by this history itself that still have an entry in the budget."""
        self.bytes = 0
        self.floor = 0
        """The history contains every change with a greater revision."""

    def __len__(self) -> int:
        return len(self._changes) - self._start

    def reset(self, floor: int) -> None:
        self._gone_early += len(self)
        self._budget.give_back(self.bytes)
        self._changes, self._start, self.bytes, self.floor = [], 0, 0, floor

    def append(self, revision: int, key: str, old: CacheItem | None, new: CacheItem | None) -> CacheChange:
        change = CacheChange(revision, key, old, new, self._now())
        size = _size(change)
        self._changes.append(change)
        self.bytes += size
        self._budget.add(self, size)
        if self.bytes > self._limits.bytes or len(self) > self._limits.events:
            self.trim()
        return change

    def trim(self) -> None:
        """Drop changes that exceed the age, size or number limits of this history."""
        oldest = self._now() - self._limits.age_s
        while self._start < len(self._changes):
            is_over = self.bytes > self._limits.bytes or len(self) > self._limits.events
            if not is_over and self._changes[self._start].at >= oldest:
                break
            self._gone_early += 1
            self._drop_oldest()
        self._budget.tidy()

    @property
    def has_dropped(self) -> bool:
        """Whether changes were dropped that still have an entry in the budget."""
        return self._gone_early > 0

    def forget_oldest(self) -> None:
        """Drop the oldest change on behalf of the budget, unless it was dropped already."""
        if self._gone_early:
            self._gone_early -= 1
        else:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        change = self._changes[self._start]
        size = _size(change)
        self.floor = change.revision
        self.bytes -= size
        self._changes[self._start] = _PAST_END
        self._start += 1
        if self._start > 1024 and self._start > len(self._changes) // 2:
            del self._changes[: self._start]
            self._start = 0
        self._budget.give_back(size)

    def list_changes_after(self, revision: int) -> Sequence[CacheChange]:
        """Return the changes with a greater revision, oldest first; raise ValueError below `floor`."""
        if revision < self.floor:
            raise ValueError(f"the history of the watch cache starts after revision {self.floor}, not {revision}")
        return self._changes[bisect_right(self._changes, revision, lo=self._start, key=_revision) :]


_PAST_END = CacheChange(0, "", None, None, 0.0)
_OVERHEAD_BYTES = 384
"""The measured memory overhead of a change and its old object besides the object's bytes."""


def _revision(change: CacheChange) -> int:
    return change.revision


def _size(change: CacheChange) -> int:
    return _OVERHEAD_BYTES + (0 if change.old is None else len(change.old.body))
