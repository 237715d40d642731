"""The writer's side of the file: transactions that store writes or forget old history. Runs in the writer's thread.

A batch of writes is one transaction. An error of the database fails the whole batch, which then did not happen.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from sampan.storage.backend import StorageError, Unavailable
from sampan.storage.sqlite.driver import BUSY, FULL, Connection, Driver
from sampan.storage.sqlite.plan import Outcome, Plan, carry_out, decide
from sampan.storage.sqlite.schema import FIRST_REVISION, open_for_writing
from sampan.storage.write import Write

logger = logging.getLogger(__name__)
T = TypeVar("T")

COMPACTED_AT_ONCE = 1000
"""Revisions that one step of a compaction deals with."""
VACUUMED_AT_ONCE = 512
"""Pages that one step of giving space back moves."""
_WORTH_VACUUMING = 0.25


class Mark(NamedTuple):
    """The revision that the store was at, at some time; 0 if there is no mark, or no history before it."""

    revision: int
    at: float


class Found(NamedTuple):
    """What was in the file when it was opened."""

    expiring: list[tuple[str, float, int]]
    """Keys that will expire, with the time and their revision."""
    mark: Mark


class Log:
    def __init__(self, *, driver: Driver, path: Path, max_bytes: int) -> None:
        self._driver = driver
        self._path = path
        self._max_bytes = max_bytes
        self._connection: Connection | None = None
        self.revision = FIRST_REVISION
        """That of the last write on disk."""

    def open(self) -> Found:
        connection = self._usable()
        try:
            expiring = connection.execute(
                "SELECT key, expires, revision FROM live WHERE expires IS NOT NULL"
            ).fetchall()
            meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
        except self._driver.error as error:
            raise self._unavailable(error) from error
        revision = meta["marked_revision"] if meta["marked_revision"] > meta["compacted"] else 0
        return Found(expiring, Mark(revision, meta["marked_at"]))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except self._driver.error as error:
                logger.warning("%s: what is committed stays in the write-ahead log: %s", self._path, error)

    def commit(self, writes: Sequence[Write]) -> list[Outcome]:
        """What became of each write, durably. Raises `Unavailable` if that is nothing."""
        return self._transaction(lambda connection: self._store(connection, writes))

    def mark(self, mark: Mark) -> None:
        """Remember a mark for the next process."""
        marks = [(mark.revision, "marked_revision"), (mark.at, "marked_at")]
        self._transaction(lambda connection: connection.executemany("UPDATE meta SET value = ? WHERE name = ?", marks))

    def compact_step(self, revision: int) -> bool:
        """Forget a part of the history before `revision`; whether that was the last part."""
        return self._transaction(lambda connection: self._forget(connection, revision))

    def vacuum_step(self) -> bool:
        """Give a part of the free space back to the file system; whether there is no more worth it."""
        return self._transaction(self._shrink)

    def truncate(self) -> None:
        """Move what is in the write-ahead log into the file, and make it short again, if no reader is in the way."""
        connection = self._usable()
        try:
            connection.execute("PRAGMA busy_timeout = 0").fetchall()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute("PRAGMA busy_timeout = 5000").fetchall()
        except self._driver.error as error:
            raise self._unavailable(error) from error

    def _usable(self) -> Connection:
        if self._connection is None:
            try:
                self._connection = open_for_writing(self._driver, self._path)
                [last] = self._connection.execute("SELECT max(revision) FROM revisions").fetchone()
            except self._driver.error as error:
                self.close()
                raise self._unavailable(error) from error
            self.revision = max(last or 0, FIRST_REVISION)
        return self._connection

    def _transaction(self, work: Callable[[Connection], T]) -> T:
        """Do `work` and commit it, or nothing."""
        connection = self._usable()
        revision = self.revision
        try:
            connection.execute("BEGIN IMMEDIATE")
            result = work(connection)
        except self._driver.error as error:
            self._undo(connection, revision)
            self._make_room(error)
            raise self._unavailable(error) from error
        except BaseException:
            self._undo(connection, revision)
            raise
        try:
            connection.execute("COMMIT")
        except self._driver.error as error:
            self._undo(connection, revision)
            self._make_room(error)
            raise self._unavailable(error, may_have_happened=not self._is_undone(error)) from error
        return result

    def _undo(self, connection: Connection, revision: int) -> None:
        self.revision = revision
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except self._driver.error:
            self.close()  # and open it anew for the next batch

    def _make_room(self, error: Exception) -> None:
        """On a full disk: what moves from the write-ahead log into the file leaves room in the log, perhaps enough."""
        if self._driver.code(error) == FULL and self._connection is not None:
            with suppress(self._driver.error):
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _is_undone(self, error: Exception) -> bool:
        """Whether a failed COMMIT is certain to be without effect.

        If all of the transaction was written and only the sync failed, it is not part of the database now, but it lies
        in the write-ahead log after the last good transaction, and a crash would bring it back. The next transaction
        goes to the same place; once one is through, the failed one is gone for good.
        """
        if self._driver.code(error) in (FULL, BUSY):
            return True  # the last frame, the one that counts, was never written
        try:
            connection = self._usable()
            connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'settled'")
        except (self._driver.error, StorageError):
            return False
        return True

    def _unavailable(self, error: Exception, *, may_have_happened: bool = False) -> Unavailable:
        what = "no space left" if self._driver.code(error) == FULL else "cannot write"
        return Unavailable(f"{self._path}: {what}: {error}", may_have_happened=may_have_happened)

    def _store(self, connection: Connection, writes: Sequence[Write]) -> list[Outcome]:
        plan = Plan(self.revision)
        is_full = self._used_bytes(connection) > self._max_bytes
        for write in writes:
            if is_full and write.value is not None:
                plan.outcomes.append(Unavailable(f"{self._path}: database space exceeded ({self._max_bytes} bytes)"))
            else:
                plan.outcomes.append(decide(connection, plan, write))
        carry_out(connection, plan)
        self.revision = plan.revision
        return plan.outcomes

    def _used_bytes(self, connection: Connection) -> int:
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def _forget(self, connection: Connection, revision: int) -> bool:
        """A row goes when the state as of `revision` does not show it: it was replaced up to there, or is a deletion
        from before. The row of `revision` itself always stays, so the newest row still tells the store's revision."""
        start = _compacted(connection)
        end = min(revision, start + COMPACTED_AT_ONCE)
        replaced = "SELECT previous FROM revisions WHERE revision > ? AND revision <= ? AND previous > 0"
        connection.execute(f"DELETE FROM bodies WHERE revision IN ({replaced})", (start, end))
        connection.execute(f"DELETE FROM revisions WHERE revision IN ({replaced})", (start, end))
        deletions = "DELETE FROM revisions WHERE revision >= ? AND revision < ? AND created = 0"
        connection.execute(deletions, (start, end))
        connection.execute("UPDATE meta SET value = max(value, ?) WHERE name = 'compacted'", (end,))
        return end >= revision

    def _shrink(self, connection: Connection) -> bool:
        [pages] = connection.execute("PRAGMA page_count").fetchone()
        [free] = connection.execute("PRAGMA freelist_count").fetchone()
        if free < VACUUMED_AT_ONCE or free < pages * _WORTH_VACUUMING:
            return True
        for _ in range(VACUUMED_AT_ONCE):  # one by one: sqlite3 stops after the first, whatever number is given
            connection.execute("PRAGMA incremental_vacuum(1)").fetchall()
        return False


def _compacted(connection: Connection) -> int:
    [compacted] = connection.execute("SELECT value FROM meta WHERE name = 'compacted'").fetchone()
    return int(compacted)
