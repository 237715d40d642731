"""Keys that go away by themselves: when each is due, and the task that removes them.

A removal is an ordinary delete that expects the revision which set the deadline, so a key that was written meanwhile
stays.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from sampan.machinery.clock import Clock, wall_offset
from sampan.storage.backend import Conflict, Unavailable

_AT_ONCE = 256
"""How many due keys are removed together."""
_RETRY_S = 5.0

Remove = Callable[[str, int], Awaitable[object]]
"""Delete a key that is at this revision."""


class Expiry:
    def __init__(self, *, clock: Clock, remove: Remove) -> None:
        self._clock = clock
        self._remove = remove
        self._deadlines: dict[str, tuple[float, int]] = {}
        """The monotonic time at which each such key is due, and the revision that said so."""
        self._heap: list[tuple[float, int, str]] = []
        """All of `_deadlines` in order, and old ones that no longer count."""
        self._earlier = asyncio.Event()
        """The first deadline may have moved forward."""
        self._resting = asyncio.Event()
        """Nothing is due."""
        self._resting.set()

    def note(self, key: str, expires: float | None, revision: int) -> None:
        """A key was written with this wall-clock time of expiry (or, with `expires` None, made permanent or deleted).
        The time left is taken once and then counted monotonically, as etcd counts its leases."""
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

    async def run(self) -> None:
        while True:
            self._earlier.clear()
            if due := self._take_due():
                self._resting.clear()
                await self._remove_all(due)
            else:
                self._resting.set()
                await self._until_next()

    async def idle(self) -> bool:
        """Until everything that is due is removed; whether there was anything."""
        was_busy = not self._resting.is_set()
        await self._resting.wait()
        return was_busy

    def _take_due(self) -> list[tuple[float, int, str]]:
        due: list[tuple[float, int, str]] = []
        while self._heap and len(due) < _AT_ONCE:
            at, revision, key = self._heap[0]
            if self._deadlines.get(key) == (at, revision):
                if at > self._clock.monotonic():
                    break
                due.append((at, revision, key))
                del self._deadlines[key]
            heapq.heappop(self._heap)
        return due

    async def _remove_all(self, due: Iterable[tuple[float, int, str]]) -> None:
        outcomes = await asyncio.gather(*(self._remove_one(*one) for one in due))
        if not all(outcomes):
            self._resting.set()
            await self._clock.sleep(_RETRY_S)

    async def _remove_one(self, due: float, revision: int, key: str) -> bool:
        """False if the store could not write; the key is then due again."""
        try:
            await self._remove(key, revision)
        except Conflict:
            pass  # it was written meanwhile
        except Unavailable:
            if key not in self._deadlines:
                self._note_due(key, due, revision)
            return False
        return True

    async def _until_next(self) -> None:
        """Until a deadline is reached or an earlier one is set."""
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._earlier.wait())]
        if self._heap:
            waits.append(asyncio.ensure_future(self._clock.sleep_monotonic(self._heap[0][0])))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
