"""The memory budget of all watchers of a server, and which of them are terminated when it is exceeded."""

from collections.abc import Callable
from typing import Protocol

from sampan.api.limits import WATCH_BUDGET_BYTES, WATCH_PRESSURE_BYTES

_RELIEF_TARGET_SHARE = 0.75
"""When the budget is exceeded, blocked watchers are terminated until the usage is below this share of it, so that this
happens rarely."""


class BudgetedWatcher(Protocol):
    """A watcher from the point of view of the budget."""

    @property
    def queued_bytes(self) -> int: ...

    @property
    def blocked_at(self) -> float | None:
        """The time since which the client has not read the data that was sent to it; None if it reads."""

    @property
    def oldest_revision(self) -> int:
        """The revision of the oldest queued event."""

    def terminate(self) -> None:
        """End the watch because its client is too slow, and release its memory."""


class WatchCharge:
    """Memory that counts against a budget for as long as this object exists.

    An event references its charge, so that it counts once however many watchers have it queued, and stops counting when
    the last of them has released it for whatever reason.
    """

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: "WatchBudget", size: int) -> None:
        self._budget, self._size = budget, size
        budget.queued += size

    def __del__(self) -> None:
        self._budget.queued -= self._size
        self._budget.freed(self._size)


class WatchBudget:
    def __init__(
        self,
        *,
        limit: int = WATCH_BUDGET_BYTES,
        pressure: int = WATCH_PRESSURE_BYTES,
        freed: Callable[[int], None] = lambda size: None,
    ) -> None:
        """Create a budget; `freed` is called with the number of bytes that were released."""
        self._limit, self._pressure = limit, pressure
        self.freed = freed
        self._holders: dict[BudgetedWatcher, None] = {}
        self.queued = 0
        """The bytes of queued events: the sum of all charges."""
        self._buffered = 0

    @property
    def used(self) -> int:
        return self.queued + self._buffered

    @property
    def is_exceeded(self) -> bool:
        return self.queued + self._buffered > self._limit

    @property
    def is_under_pressure(self) -> bool:
        """Whether so much is queued for watchers that sending has priority over producing more events."""
        return self.queued > self._pressure

    def add(self, holder: BudgetedWatcher) -> None:
        self._holders[holder] = None

    def remove(self, holder: BudgetedWatcher) -> None:
        """Remove the holder; do nothing if it is not registered."""
        self._holders.pop(holder, None)

    def hold(self, size: int) -> None:
        """Count bytes that are in the write buffer of a connection whose client does not read."""
        self._buffered += size
        if self.is_exceeded:
            self.relieve()

    def give_back(self, size: int) -> None:
        """Release bytes whose buffer was flushed or whose connection was closed."""
        self._buffered -= size
        self.freed(size)

    def relieve(self) -> None:
        """Terminate watchers until the usage is within the budget.

        Watchers whose clients do not read go first, longest blocked first; then, only if that is not enough, those that
        are furthest behind.
        """
        for holder in sorted(self._list_blocked_holders(), key=lambda holder: holder.blocked_at or 0.0):
            if self.used <= self._limit * _RELIEF_TARGET_SHARE:
                return
            holder.terminate()
        for holder in sorted(self._list_queueing_holders(), key=lambda holder: holder.oldest_revision):
            if self.queued <= self._limit:
                return
            holder.terminate()

    def _list_blocked_holders(self) -> list[BudgetedWatcher]:
        return [holder for holder in self._holders if holder.blocked_at is not None]

    def _list_queueing_holders(self) -> list[BudgetedWatcher]:
        return [holder for holder in self._holders if holder.queued_bytes]
