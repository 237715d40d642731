"""The schedule of periodic watch bookmarks: about once a minute, and shortly before a watch times out."""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Sequence

from sampan.storage.cacher.watcher import Watcher

INTERVAL_S = 60.0
BEFORE_END_S = 2.0
_TOGETHER_S = 1.0
"""Bookmarks due within this time are sent together."""


def next_due(now: float, deadline: float | None, *, interval_s: float = INTERVAL_S) -> float | None:
    """Return when the next bookmark is due, or None if this watch gets no more."""
    due = now + interval_s
    if deadline is not None:
        due = min(due, deadline - BEFORE_END_S)
    return due if due > now else None


class BookmarkSchedule:
    """Calls `send` with the watchers whose bookmark is due, on the event loop's clock."""

    def __init__(self, *, send: Callable[[Sequence[Watcher]], Awaitable[None]], interval_s: float = INTERVAL_S) -> None:
        self._send = send
        self._interval_s = interval_s
        self._due: list[tuple[float, int, Watcher]] = []
        self._order = itertools.count()
        self._sooner = asyncio.Event()
        """Set when a watcher is added that is due before all others."""

    def add(self, watcher: Watcher, *, after_s: float = 0.0) -> None:
        """Schedule the next bookmark, no earlier than `after_s` seconds from now."""
        now = asyncio.get_running_loop().time() + after_s
        due = next_due(now, watcher.deadline, interval_s=self._interval_s - after_s)
        if due is None:
            return
        if not self._due or due < self._due[0][0]:
            self._sooner.set()
        heapq.heappush(self._due, (due, next(self._order), watcher))

    async def run(self) -> None:
        while True:
            await self._sleep()
            watchers = self._pop(asyncio.get_running_loop().time())
            if not watchers:
                continue
            await self._send(watchers)
            for watcher in watchers:
                self.add(watcher, after_s=_TOGETHER_S)

    async def _sleep(self) -> None:
        """Sleep until the first bookmark is due, or a watcher is added that is due earlier."""
        self._sooner.clear()
        try:
            async with asyncio.timeout_at(self._due[0][0] if self._due else None):
                await self._sooner.wait()
        except TimeoutError:
            pass

    def _pop(self, now: float) -> list[Watcher]:
        watchers: list[Watcher] = []
        if not self._due or self._due[0][0] > now:
            return watchers
        while self._due and self._due[0][0] <= now + _TOGETHER_S:
            watcher = heapq.heappop(self._due)[2]
            if not watcher.is_ended:
                watchers.append(watcher)
        return watchers
