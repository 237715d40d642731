"""Compaction of etcd, which several API servers share and which does not compact itself.

A marker key, the same one that kube-apiserver uses, holds the revision that was compacted last. Once per interval one
of the servers writes the marker, by compare-and-swap, and compacts to the revision that it saw an interval before. The
history thus covers at least one interval, and one server compacts for all. The others learn of it from the marker.
"""

import logging

from sampan.host.clock import Clock
from sampan.storage.backend import Backend, BackendClosed, EventBatch, StorageError, StoreConflict

MARK = "compact_rev_key"
_RETRY_S = 1.0

log = logging.getLogger(__name__)


class SharedCompaction:
    def __init__(self, *, backend: Backend, clock: Clock, interval_s: float) -> None:
        self._backend, self._clock, self._interval_s = backend, clock, interval_s
        self._marked_at = 0
        """The revision at which the marker was last written, as far as this server knows."""
        self._previous = 0
        """The revision of the store when this server last read the marker."""
        self.revision = 0
        """The revision that was compacted last, by any of the servers."""

    async def run(self) -> None:
        """Compact once per interval; return at once if the interval is 0."""
        while self._interval_s:
            await self._clock.sleep(self._interval_s)
            try:
                await self.run_interval()
            except StorageError as error:
                log.warning("cannot compact etcd, retrying after the next interval: %s", error)

    async def follow(self) -> None:
        """Keep `revision` up to date until the backend is closed."""
        while True:
            try:
                mark, now = await self._backend.get(MARK)
                if mark is not None:
                    self._note_value(mark.value)
                async with self._backend.watch(MARK, after=now, on_batch=self._on_batch) as watch:
                    async for _ in watch:
                        pass
            except BackendClosed:
                return
            except StorageError as error:
                log.warning("cannot watch the compacted revision of etcd: %s", error)
                await self._clock.sleep(_RETRY_S)

    async def run_interval(self) -> bool:
        """Write the marker and compact; return False if another server has done so in this interval."""
        mark, now = await self._backend.get(MARK)
        revision, self._previous = self._previous, now
        if mark is not None and mark.revision != self._marked_at:
            self._marked_at = mark.revision
            return False
        try:
            self._marked_at = await self._backend.put(MARK, b"%d" % revision, expected=mark.revision if mark else 0)
        except StoreConflict as conflict:
            self._marked_at = conflict.current.revision if conflict.current else 0
            return False
        if revision:
            await self._backend.compact(revision)
        return True

    def note(self, revision: int) -> None:
        """Record that the store was compacted to `revision`."""
        self.revision = max(self.revision, revision)

    def _on_batch(self, batch: EventBatch) -> None:
        for event in batch.events:
            if event.key == MARK and event.value is not None:
                self._note_value(event.value)

    def _note_value(self, value: bytes) -> None:
        if value.isdigit():
            self.note(int(value))
