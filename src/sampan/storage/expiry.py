"""Expiring keys: their deadlines, and the task that deletes them.

A key is deleted on condition that it is still at the revision that set the deadline, so that a key that was written
meanwhile is kept.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from sampan.host.clock import Clock, wall_offset
from sampan.storage.backend import StoreConflict, Unavailable

_MAX_CONCURRENT_DELETIONS = 256
"""The number of expired keys that are deleted concurrently."""
_RETRY_S = 5.0

Remove = Callable[[str, int], Awaitable[object]]
"""Deletes a key that is at this revision."""


class KeyExpiry:
    def __init__(
        self, *, clock: Clock, remove: Remove, deadlines: Mapping[str, tuple[float, int]] | None = None
    ) -> None:
        """Start with the result of `deadlines()` of another store whose clock has the same monotonic time."""
        self._clock = clock
        self._remove = remove
        self._deadlines = dict(deadlines or {})
        """For each expiring key, its deadline in monotonic time and the revision that set it."""
        self._heap = sorted((due, revision, key) for key, (due, revision) in self._deadlines.items())
        """All of `_deadlines` in order, and obsolete entries."""
        self._earlier = asyncio.Event()
        """Set when a deadline may have been added that is earlier than all others."""
        self._resting = asyncio.Event()
        """Set while no key is due."""
        self._resting.set()

    def note(self, key: str, expires: float | None, revision: int) -> None:
        """Record the expiry of a written key as wall clock time; None if it is permanent or deleted.

        The remaining time is computed once and then counted monotonically, as etcd does for its leases.
        """
        if expires is None:
            if self._deadlines:
                self._deadlines.pop(key, None)
            return
        self._note_due(key, expires - wall_offset(self._clock), revision)

    def _note_due(self, key: str, due: float, revision: int) -> None:
        self._deadlines[key] = (due, revision)
        if not self._heap or due < self._heap[0][0]:
            self._earlier.set()
        heapq.heappush(self._heap, (due, revision, key))

    def deadlines(self) -> Mapping[str, tuple[float, int]]:
        """Return, for each expiring key, its deadline in monotonic time and the revision that set it."""
        return dict(self._deadlines)

    async def run(self) -> None:
        while True:
            self._earlier.clear()
            if due := self._take_due():
                self._resting.clear()
                await self._remove_all(due)
            else:
                self._resting.set()
                await self._wait_for_next()

    async def idle(self) -> bool:
        """Wait until all expired keys are deleted; return whether there were any."""
        was_busy = not self._resting.is_set()
        await self._resting.wait()
        return was_busy

    def _take_due(self) -> list[tuple[float, int, str]]:
        due: list[tuple[float, int, str]] = []
        while self._heap and len(due) < _MAX_CONCURRENT_DELETIONS:
            expires_at, revision, key = self._heap[0]
            if self._deadlines.get(key) == (expires_at, revision):
                if expires_at > self._clock.monotonic():
                    break
                due.append((expires_at, revision, key))
                del self._deadlines[key]
            heapq.heappop(self._heap)
        return due

    async def _remove_all(self, due: Iterable[tuple[float, int, str]]) -> None:
        outcomes = await asyncio.gather(*(self._remove_one(*entry) for entry in due))
        if not all(outcomes):
            self._resting.set()
            await self._clock.sleep(_RETRY_S)

    async def _remove_one(self, due: float, revision: int, key: str) -> bool:
        """Delete an expired key; return False if the store could not write, after scheduling the key again."""
        try:
            await self._remove(key, revision)
        except StoreConflict:
            pass  # the key was written meanwhile
        except Unavailable:
            if key not in self._deadlines:
                self._note_due(key, due, revision)
            return False
        return True

    async def _wait_for_next(self) -> None:
        """Wait until a deadline is reached or an earlier one is added."""
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._earlier.wait())]
        if self._heap:
            waits.append(asyncio.ensure_future(self._clock.sleep_monotonic(self._heap[0][0])))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
