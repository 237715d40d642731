"""Forgetting history on a store that several servers share and that does not do so by itself: etcd.

A mark in the store, the same key as the real API server's, holds the revision of some moment. Once an interval one of
the servers moves the mark to the present, by compare and swap, and compacts at the revision it held before: so history
is kept for at least an interval, and one server compacts for all.
"""

import logging

from sampan.machinery.clock import Clock
from sampan.storage.backend import Backend, Conflict, StorageError

MARK = "compact_rev_key"
INTERVAL_S = 300.0

log = logging.getLogger(__name__)


class SharedCompaction:
    def __init__(self, *, backend: Backend, clock: Clock, interval_s: float = INTERVAL_S) -> None:
        self._backend, self._clock, self._interval_s = backend, clock, interval_s
        self._seen = 0
        """The revision at which the mark was last moved, as far as this server knows."""

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._interval_s)
            try:
                await self.turn()
            except StorageError as error:
                log.warning("compaction postponed: %s", error)

    async def turn(self) -> bool:
        """One interval's work; False if another server has done it."""
        mark, now = await self._backend.get(MARK)
        if mark is not None and mark.revision != self._seen:
            self._seen = mark.revision
            return False
        try:
            self._seen = await self._backend.put(MARK, b"%d" % now, expected=mark.revision if mark else 0)
        except Conflict as conflict:
            self._seen = conflict.current.revision if conflict.current else 0
            return False
        if mark is not None and mark.value.isdigit():
            await self._backend.compact(int(mark.value))
        return True


__all__ = ["INTERVAL_S", "MARK", "SharedCompaction"]
