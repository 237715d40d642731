"""Maintenance of the file: compacts history, releases disk space, and truncates the write-ahead log when idle."""

import asyncio
import logging
from collections.abc import Coroutine

from sampan.host.clock import Clock
from sampan.storage.backend import Unavailable
from sampan.storage.sqlite.commits import GroupCommit
from sampan.storage.sqlite.log import RevisionLog, RevisionMark

logger = logging.getLogger(__name__)

_RECOVERY_S = 5.0
_COMPACTED_WHEN_FULL = 50
_START_DELAY_S = 10.0
"""The delay of a compaction that is due when the store is opened: watch caches replay the history first."""


class StoreMaintenance:
    def __init__(
        self, *, clock: Clock, log: RevisionLog, commits: GroupCommit, mark: RevisionMark, compaction_interval_s: float
    ) -> None:
        self._clock = clock
        self._log = log
        self._commits = commits
        self._mark = mark
        """The mark that the previous process stored."""
        self._compaction_interval_s = compaction_interval_s
        self._wrote = asyncio.Event()
        """Set by a write; without writes there is nothing to do, and the task does not wake up."""
        self._revision = log.revision
        self._resting = asyncio.Event()
        """Set while nothing is being compacted or released."""
        self._resting.set()
        self._failed = asyncio.Event()
        """Set while the store rejects writes."""
        if log.write_failure:
            self._failed.set()

    def note_failure(self) -> None:
        """Start the recovery because the store rejects writes."""
        self._failed.set()

    async def run_recovery(self) -> None:
        """While writes are rejected, free disk space and retry periodically."""
        while True:
            await self._failed.wait()
            await self._try(self._recover())
            if self._log.write_failure:
                await self._clock.sleep(_RECOVERY_S)
            else:
                self._failed.clear()

    async def _recover(self) -> None:
        """Free disk space if the disk is full, and try to accept writes again.

        On a full disk the history is discarded, because deleted values occupy space until they are compacted. The steps
        are small, and the write-ahead log is truncated after each, so that they need little space themselves.
        """
        if self._log.is_full:
            while not await self._commits.job(lambda: self._log.compact_step(self._revision, _COMPACTED_WHEN_FULL)):
                await self._commits.job(self._log.truncate)
            await self._commits.job(self._log.truncate)
            while not await self._commits.job(lambda: self._log.vacuum_step(1, 0)):
                await self._commits.job(self._log.truncate)
            await self._commits.job(self._log.truncate)
        await self._commits.job(self._log.recover)

    def note(self, revision: int) -> None:
        """Record that the store has reached `revision` by a write."""
        self._revision = revision
        self._wrote.set()

    async def run(self) -> None:
        """Compact history periodically, unless the interval is 0.

        The task marks a revision, and compacts to it when the mark is old enough, so that the history covers between
        one and two intervals. Marks are stored on disk, because a process may not live that long.
        """
        mark = self._mark
        while self._compaction_interval_s:
            if not mark.revision:
                await self._wrote.wait()
                self._wrote.clear()
                mark = RevisionMark(self._revision, self._clock.now())
                await self._try(self._keep(mark))
            interval_s = self._compaction_interval_s
            left_s = min(mark.at - self._clock.now(), 0) + interval_s
            await self._clock.sleep(max(left_s, min(interval_s, _START_DELAY_S)))
            self._resting.clear()
            await self._try(self._shorten(mark.revision))
            self._resting.set()
            mark = RevisionMark(0, 0)

    async def idle(self) -> bool:
        """Wait until a compaction in progress is complete; return whether there was one."""
        was_busy = not self._resting.is_set()
        await self._resting.wait()
        return was_busy

    async def compact(self, revision: int) -> None:
        while not await self._commits.job(lambda: self._log.compact_step(revision)):
            pass

    async def _try(self, work: Coroutine[None, None, None]) -> None:
        """Run the work; if the store cannot write, schedule another round."""
        try:
            await work
        except Unavailable as error:
            logger.warning("cannot compact the history: %s", error)
            self._wrote.set()

    async def _keep(self, mark: RevisionMark) -> None:
        await self._commits.job(lambda: self._log.mark(mark))

    async def _shorten(self, revision: int) -> None:
        await self.compact(revision)
        await self._reclaim()

    async def _reclaim(self) -> None:
        while not await self._commits.job(self._log.vacuum_step):
            pass
        if not self._wrote.is_set():
            await self._commits.job(self._log.truncate)
