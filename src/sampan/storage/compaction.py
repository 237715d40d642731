"""Compaction of etcd, which several API servers share and which does not compact itself.

A marker key, the same one that kube-apiserver uses, holds a past revision. Once per interval one of the servers sets
the marker to the current revision, by compare-and-swap, and compacts to the revision that it held before. The history
thus covers at least one interval, and one server compacts for all.
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
        """The revision at which the marker was last written, as far as this server knows."""

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._interval_s)
            try:
                await self.turn()
            except StorageError as error:
                log.warning("compaction postponed: %s", error)

    async def turn(self) -> bool:
        """Do the work of one interval; return False if another server has done it."""
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
