"""The recent changes of a resource: what watches resume from and what old versions are rebuilt from."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

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
    events: int = 50_000
    bytes: int = 64 << 20
    """Of what only the history still holds: the old objects."""
    age_s: float = 600.0


class History:
    """Changes in revision order, those after `floor` complete: the oldest go when one of the limits is passed."""

    def __init__(self, *, limits: HistoryLimits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self._changes: list[Change] = []
        self._start = 0
        """Index of the oldest change that is still kept; what is before it is thrown out now and then."""
        self.bytes = 0
        self.floor = 0
        """Every change with a greater revision is here."""

    def __len__(self) -> int:
        return len(self._changes) - self._start

    def reset(self, floor: int) -> None:
        self._changes, self._start, self.bytes, self.floor = [], 0, 0, floor

    def append(self, revision: int, key: str, old: Item | None, new: Item | None) -> Change:
        change = Change(revision, key, old, new, self._now())
        self._changes.append(change)
        self.bytes += _size(change)
        if self.bytes > self._limits.bytes or len(self) > self._limits.events:
            self.trim()
        return change

    def trim(self) -> None:
        oldest = self._now() - self._limits.age_s
        while self._start < len(self._changes):
            change = self._changes[self._start]
            is_over = self.bytes > self._limits.bytes or len(self) > self._limits.events
            if not is_over and change.at >= oldest:
                break
            self.floor = change.revision
            self.bytes -= _size(change)
            self._changes[self._start] = _GONE
            self._start += 1
        if self._start > 1024 and self._start > len(self._changes) // 2:
            del self._changes[: self._start]
            self._start = 0

    def after(self, revision: int) -> Sequence[Change]:
        """The changes with a greater revision, oldest first; only for revisions from `floor` on."""
        if revision < self.floor:
            raise ValueError(f"history begins after {self.floor}, not {revision}")
        return self._changes[bisect_right(self._changes, revision, lo=self._start, key=_revision) :]


_GONE = Change(0, "", None, None, 0.0)


def _revision(change: Change) -> int:
    return change.revision


def _size(change: Change) -> int:
    return 128 + (0 if change.old is None else len(change.old.body))
