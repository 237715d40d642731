"""The recent changes of a resource: what watches resume from and what old versions are rebuilt from."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from sampan.api.limits import HISTORY_AGE_S, HISTORY_BYTES, HISTORY_EVENTS
from sampan.storage.cacher.item import Item


class Change(msgspec.Struct, gc=False, eq=False):
    """One object's step from `old` to `new` (None: did not or does not exist)."""

    revision: int
    key: str
    old: Item | None
    new: Item | None
    at: float
    """When it came here, by the history's clock."""


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """The bounds of one resource's history; `HistoryBudget` bounds that of all resources together."""

    events: int = HISTORY_EVENTS
    bytes: int = HISTORY_BYTES
    """Of what only the history still holds: the old objects."""
    age_s: float = HISTORY_AGE_S


class HistoryBudget:
    """The bytes that the histories of all resources may hold together: the oldest change of all goes first."""

    def __init__(self, *, limit: int = HISTORY_BYTES, freed: Callable[[int], None] = lambda size: None) -> None:
        """`freed` is called with the bytes that were given back."""
        self._limit, self._freed = limit, freed
        self._order: deque[History] = deque()
        """The history of each change, oldest change first."""
        self.bytes = 0

    def add(self, history: "History", size: int) -> None:
        """A change was appended to the history."""
        self._order.append(history)
        self.bytes += size
        while self.bytes > self._limit and self._order:
            self._order.popleft().forget_oldest()

    def tidy(self) -> None:
        """Drop the places of changes that their histories have dropped by themselves."""
        while self._order and self._order[0].has_dropped:
            self._order.popleft().forget_oldest()

    def give_back(self, size: int) -> None:
        self.bytes -= size
        self._freed(size)


class History:
    """Changes in revision order, those after `floor` complete: the oldest go when one of the limits is passed."""

    def __init__(self, *, limits: HistoryLimits, now: Callable[[], float], budget: HistoryBudget | None = None) -> None:
        self._limits = limits
        self._now = now
        self._budget = budget or HistoryBudget()
        self._changes: list[Change] = []
        self._start = 0
        """Index of the oldest change that is still kept; what is before it is thrown out now and then."""
        self._gone_early = 0
        """Changes that this history has dropped by itself, and for which the budget has still to ask."""
        self.bytes = 0
        self.floor = 0
        """Every change with a greater revision is here."""

    def __len__(self) -> int:
        return len(self._changes) - self._start

    def reset(self, floor: int) -> None:
        self._gone_early += len(self)
        self._budget.give_back(self.bytes)
        self._changes, self._start, self.bytes, self.floor = [], 0, 0, floor

    def append(self, revision: int, key: str, old: Item | None, new: Item | None) -> Change:
        change = Change(revision, key, old, new, self._now())
        size = _size(change)
        self._changes.append(change)
        self.bytes += size
        self._budget.add(self, size)
        if self.bytes > self._limits.bytes or len(self) > self._limits.events:
            self.trim()
        return change

    def trim(self) -> None:
        """Drop what is too old or too much for this history's own limits."""
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
        """Whether changes are gone that the budget still counts on."""
        return self._gone_early > 0

    def forget_oldest(self) -> None:
        """The budget wants the oldest change of all to go, and that one is here, unless it has gone already."""
        if self._gone_early:
            self._gone_early -= 1
        else:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        change = self._changes[self._start]
        size = _size(change)
        self.floor = change.revision
        self.bytes -= size
        self._changes[self._start] = _GONE
        self._start += 1
        if self._start > 1024 and self._start > len(self._changes) // 2:
            del self._changes[: self._start]
            self._start = 0
        self._budget.give_back(size)

    def after(self, revision: int) -> Sequence[Change]:
        """The changes with a greater revision, oldest first; only for revisions from `floor` on."""
        if revision < self.floor:
            raise ValueError(f"history begins after {self.floor}, not {revision}")
        return self._changes[bisect_right(self._changes, revision, lo=self._start, key=_revision) :]


_GONE = Change(0, "", None, None, 0.0)
_OVERHEAD_BYTES = 384
"""Of a change and its old object beside the object's bytes, measured."""


def _revision(change: Change) -> int:
    return change.revision


def _size(change: Change) -> int:
    return _OVERHEAD_BYTES + (0 if change.old is None else len(change.old.body))
