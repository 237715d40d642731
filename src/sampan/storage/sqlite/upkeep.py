"""Keeps the file short: forgets history that is old enough, gives space back, empties the write-ahead log when idle."""

import asyncio
import logging

from sampan.machinery.clock import Clock
from sampan.storage.backend import Unavailable
from sampan.storage.sqlite.commits import GroupCommit
from sampan.storage.sqlite.log import Log

logger = logging.getLogger(__name__)


class Upkeep:
    def __init__(
        self, *, clock: Clock, log: Log, commits: GroupCommit, history_s: float, history_revisions: int
    ) -> None:
        self._clock = clock
        self._log = log
        self._commits = commits
        self._history_s = history_s
        self._history_revisions = history_revisions
        self._wrote = asyncio.Event()
        """Set by a write; while there is none there is nothing to do, and nothing wakes up."""
        self._revision = log.revision
        self._resting = asyncio.Event()
        """Nothing is being compacted or given back."""
        self._resting.set()

    def note(self, revision: int) -> None:
        """Something was written."""
        self._revision = revision
        self._wrote.set()

    async def run(self) -> None:
        """What was written before one sleep is forgotten after it, so history is between one and two of them long."""
        while True:
            await self._wrote.wait()
            self._wrote.clear()
            revision = self._revision
            await self._clock.sleep(self._history_s)
            self._resting.clear()
            try:
                await self.compact(min(revision, self._revision - self._history_revisions))
                await self._reclaim()
            except Unavailable as error:
                logger.warning("history was not compacted: %s", error)
                self._wrote.set()
            finally:
                self._resting.set()

    async def idle(self) -> None:
        """Until a round that has begun is over."""
        await self._resting.wait()

    async def compact(self, revision: int) -> None:
        while not await self._commits.job(lambda: self._log.compact_step(revision)):
            pass

    async def _reclaim(self) -> None:
        while not await self._commits.job(self._log.vacuum_step):
            pass
        if not self._wrote.is_set():
            await self._commits.job(self._log.truncate)
