"""The writer's side of the file: transactions that store writes or compact history, in the writer's thread.

A batch of writes is one transaction. Each write sees those before it in its batch; a conflict fails only the write that
it concerns. A database error fails the whole batch, which then has no effect. When the disk is full, the store
releases its reserve (see `reserve`) and accepts only deletions until there is enough space to allocate the reserve
again.
"""

import errno
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec import Struct, field

from sampan.storage.backend import (
    KeyValue,
    PendingWrite,
    StorageError,
    StoreConflict,
    StoreEvent,
    Unavailable,
    is_allowed,
)
from sampan.storage.sqlite.reserve import DiskReserve, failure_of
from sampan.storage.sqlite.schema import (
    BUSY,
    DISK_ERRORS,
    FIRST_REVISION,
    FULL,
    SqliteConnection,
    SqliteDriver,
    open_for_writing,
)

Outcome = StoreEvent | StorageError


class BatchRows(Struct):
    """The new rows, and the state of the written keys."""

    revision: int
    outcomes: list[Outcome] = field(default_factory=list)
    revisions: list[tuple[int, str, int, int]] = field(default_factory=list)
    bodies: dict[int, bytes] = field(default_factory=dict)
    live: dict[str, tuple[int, int, float | None] | None] = field(default_factory=dict)
    """Revision, creation and expiry of each written key; None if it is deleted."""


def decide(
    connection: SqliteConnection, plan: BatchRows, write: PendingWrite, refusal: StorageError | None = None
) -> Outcome:
    """Add a write to the plan unless it conflicts; `refusal` is the error for a write that is otherwise valid."""
    current = _live(connection, plan, write.key)
    previous, created = current or (0, 0)
    if not is_allowed(write, previous):
        return StoreConflict(write.key, _entry(connection, plan, write.key, previous, created))
    if refusal is not None:
        return refusal
    plan.revision = revision = plan.revision + 1
    if write.value is None:
        created, plan.live[write.key] = 0, None
    else:
        created = created or revision
        plan.live[write.key] = (revision, created, write.expires)
        plan.bodies[revision] = write.value
    plan.revisions.append((revision, write.key, created, previous))
    return StoreEvent(revision, write.key, write.value, created)


def _live(connection: SqliteConnection, plan: BatchRows, key: str) -> tuple[int, int] | None:
    """Return revision and creation of a key, including the writes planned so far."""
    if key in plan.live:
        planned = plan.live[key]
        return None if planned is None else (planned[0], planned[1])
    row: tuple[int, int] | None = connection.execute(
        "SELECT revision, created FROM live WHERE key = ?", (key,)
    ).fetchone()
    return row


def _entry(connection: SqliteConnection, plan: BatchRows, key: str, revision: int, created: int) -> KeyValue | None:
    if not revision:
        return None
    if (value := plan.bodies.get(revision)) is None:
        [value] = connection.execute("SELECT value FROM bodies WHERE revision = ?", (revision,)).fetchone()
    return KeyValue(key, value, revision, created)


def carry_out(connection: SqliteConnection, plan: BatchRows) -> None:
    if not plan.revisions:
        return
    connection.executemany("INSERT INTO revisions VALUES (?, ?, ?, ?)", plan.revisions)
    if plan.bodies:
        connection.executemany("INSERT INTO bodies VALUES (?, ?)", plan.bodies.items())
        written = [(key, *state) for key, state in plan.live.items() if state is not None]
        connection.executemany("INSERT OR REPLACE INTO live VALUES (?, ?, ?, ?)", written)
    if deleted := [(key,) for key, state in plan.live.items() if state is None]:
        connection.executemany("DELETE FROM live WHERE key = ?", deleted)


logger = logging.getLogger(__name__)
T = TypeVar("T")

COMPACTION_STEP_REVISIONS = 1000
"""The number of revisions that one step of a compaction processes."""
VACUUM_STEP_PAGES = 512
"""The number of pages that one vacuum step moves."""
_WORTH_VACUUMING = 0.25
_WAL_PAGES = 1000
_NO_SPACE = os.strerror(errno.ENOSPC).lower()


class RevisionMark(NamedTuple):
    """The revision of the store at some time; the revision is 0 if there is no mark, or no history before it."""

    revision: int
    at: float


class StoredState(NamedTuple):
    """The part of the content of the file that is needed when the store is opened."""

    expiring: list[tuple[str, float, int]]
    """Expiring keys with their expiry time and revision."""
    mark: RevisionMark


class RevisionLog:
    def __init__(self, *, driver: SqliteDriver, path: Path, max_bytes: int, is_synced: bool) -> None:
        self._driver = driver
        self._path = path
        self._max_bytes = max_bytes
        self._is_synced = is_synced
        self._connection: SqliteConnection | None = None
        self.revision = FIRST_REVISION
        """The revision of the last write on disk."""
        self.compacted = 0
        """The revision before which history was discarded; read by other threads."""
        self._reserve = DiskReserve(path)
        self.is_full = False
        """Whether the disk is full, so that only deletions are accepted."""
        self.write_failure = ""
        """Why writes are rejected, or empty if they are not; read by other threads."""

    def open(self) -> StoredState:
        try:
            connection = self._open_connection()
        except Unavailable:
            if not self.is_full:
                raise
            connection = self._open_connection()  # retry with the space that the reserve had occupied
        if not self._reserve.keep():
            logger.warning("%s: not enough disk space to reserve space for deletions", self._path)
        try:
            expiring = connection.execute(
                "SELECT key, expires, revision FROM live WHERE expires IS NOT NULL"
            ).fetchall()
            meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
        except self._driver.error as error:
            raise self._unavailable(error) from error
        self.compacted = meta["compacted"]
        revision = meta["marked_revision"] if meta["marked_revision"] > meta["compacted"] else 0
        return StoredState(expiring, RevisionMark(revision, meta["marked_at"]))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except self._driver.error as error:
                logger.warning("%s: checkpoint of the write-ahead log failed, retrying later: %s", self._path, error)

    def commit(self, writes: Sequence[PendingWrite]) -> list[Outcome]:
        """Commit the writes durably and return the outcome of each; raise `Unavailable` if none took effect."""
        if self.is_full:
            self.recover()
        was_full = self.is_full
        try:
            return self._transaction(lambda connection: self._store(connection, writes))
        except Unavailable:
            if was_full or not self.is_full or not any(write.value is None for write in writes):
                raise
        return self._transaction(lambda connection: self._store(connection, writes))

    def recover(self) -> bool:
        """Try to accept all writes again; return whether that is possible."""
        if self.is_full:
            if self._reserve.keep():
                logger.warning("%s: disk space is available again, accepting all writes", self._path)
                self.is_full, self.write_failure = False, ""
        elif self.write_failure:
            self._transaction(
                lambda connection: connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'settled'")
            )
        return not self.write_failure

    def mark(self, mark: RevisionMark) -> None:
        """Store a mark for the next process."""
        marks = [(mark.revision, "marked_revision"), (mark.at, "marked_at")]
        self._transaction(lambda connection: connection.executemany("UPDATE meta SET value = ? WHERE name = ?", marks))

    def compact_step(self, revision: int, at_once: int = COMPACTION_STEP_REVISIONS) -> bool:
        """Compact part of the history before `revision`; return whether it was the last part."""
        end = self._transaction(lambda connection: self._forget(connection, revision, at_once))
        self.compacted = max(self.compacted, end)
        return end >= revision

    def vacuum_step(self, minimum: int = VACUUM_STEP_PAGES, worth: float = _WORTH_VACUUMING) -> bool:
        """Release part of the free pages to the file system; return True if no more are worth releasing.

        That is the case with fewer free pages than `minimum`, or than the fraction `worth` of the file.
        """
        return self._transaction(lambda connection: self._shrink(connection, minimum, worth))

    def truncate(self) -> None:
        """Checkpoint the write-ahead log into the file and truncate it, if no reader prevents it."""
        connection = self._open_connection()
        try:
            connection.execute("PRAGMA busy_timeout = 0").fetchall()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute("PRAGMA busy_timeout = 5000").fetchall()
        except self._driver.error as error:
            raise self._unavailable(error) from error

    def _open_connection(self) -> SqliteConnection:
        if self._connection is None:
            try:
                self._connection = open_for_writing(self._driver, self._path, is_synced=self._is_synced)
                [last] = self._connection.execute("SELECT max(revision) FROM revisions").fetchone()
                self._shorten_wal(self._connection)
            except self._driver.error as error:
                self.close()
                raise self._unavailable(error) from error
            self.revision = max(last or 0, FIRST_REVISION)
        return self._connection

    def _shorten_wal(self, connection: SqliteConnection) -> None:
        """On a small disk, limit the write-ahead log so that its pages fit into the space of the reserve."""
        pages = self._reserve.size // 2 // 4096
        if pages < _WAL_PAGES:
            connection.execute(f"PRAGMA wal_autocheckpoint = {max(pages, 50)}").fetchall()

    def _transaction(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run `work` in a transaction that is committed completely or not at all."""
        connection = self._open_connection()
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
        if not self.is_full:
            self.write_failure = ""
        return result

    def _undo(self, connection: SqliteConnection, revision: int) -> None:
        self.revision = revision
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except self._driver.error:
            self.close()  # it is reopened for the next batch

    def _make_room(self, error: Exception) -> None:
        """On a full disk, release the reserve and checkpoint the write-ahead log. The checkpoint makes room in the log,
        perhaps enough. The space of the reserve is used by the checkpoint and by deletions."""
        if self._driver.code(error) == FULL:
            self._reserve.remove()
        if self._driver.code(error) == FULL and self._connection is not None:
            with suppress(self._driver.error):
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _is_undone(self, error: Exception) -> bool:
        """Whether a failed COMMIT is certain to have no effect.

        If the whole transaction was written and only the sync failed, it is not part of the database now, but it is in
        the write-ahead log after the last valid transaction, and a crash would revive it. The next transaction
        overwrites the same place; once one has succeeded, the failed one is gone for good.
        """
        if self._driver.code(error) in (FULL, BUSY):
            return True  # the commit frame was never written
        try:
            connection = self._open_connection()
            connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'settled'")
        except (self._driver.error, StorageError):
            return False
        return True

    def _unavailable(self, error: Exception, *, may_have_happened: bool = False) -> Unavailable:
        reason = self._reason(error)
        if reason == _NO_SPACE and not self.is_full:
            logger.warning("%s: %s: accepting only deletions until disk space is available", self._path, reason)
            self._reserve.remove()
            self.is_full = True
        self.write_failure = f"{self._path}: {reason}"
        return Unavailable(self.write_failure, may_have_happened=may_have_happened)

    def _reason(self, error: Exception) -> str:
        """Return the reason of a failed write, as the system's error where SQLite does not report it."""
        code = self._driver.code(error)
        if code == FULL:
            return _NO_SPACE
        disk_error = failure_of(self._path.parent) if code in DISK_ERRORS else None
        if disk_error is None or disk_error.errno is None:
            return f"cannot write: {error}"
        return os.strerror(disk_error.errno).lower()

    def _store(self, connection: SqliteConnection, writes: Sequence[PendingWrite]) -> list[Outcome]:
        plan = BatchRows(self.revision)
        is_full = self._used_bytes(connection) > self._max_bytes
        for write in writes:
            refusal = self._refusal(is_full) if write.value is not None else None
            plan.outcomes.append(decide(connection, plan, write, refusal))
        carry_out(connection, plan)
        self.revision = plan.revision
        return plan.outcomes

    def _refusal(self, is_too_large: bool) -> Unavailable | None:
        """Return why puts are currently rejected, or None."""
        if self.is_full:
            return Unavailable(f"{self._path}: {_NO_SPACE}")
        if is_too_large:
            return Unavailable(f"{self._path}: database space exceeded ({self._max_bytes} bytes)")
        return None

    def _used_bytes(self, connection: SqliteConnection) -> int:
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def _forget(self, connection: SqliteConnection, revision: int, at_once: int) -> int:
        """Delete the rows that the state as of `revision` does not need; return the revision that was reached.

        These are rows replaced up to `revision`, and deletions before it. The row of `revision` itself always stays, so
        that the newest row still holds the store's revision.
        """
        start = _read_compacted_revision(connection)
        end = min(revision, start + at_once)
        replaced = "SELECT previous FROM revisions WHERE revision > ? AND revision <= ? AND previous > 0"
        connection.execute(f"DELETE FROM bodies WHERE revision IN ({replaced})", (start, end))
        connection.execute(f"DELETE FROM revisions WHERE revision IN ({replaced})", (start, end))
        deletions = "DELETE FROM revisions WHERE revision >= ? AND revision < ? AND created = 0"
        connection.execute(deletions, (start, end))
        connection.execute("UPDATE meta SET value = max(value, ?) WHERE name = 'compacted'", (end,))
        return end

    def _shrink(self, connection: SqliteConnection, minimum: int, worth: float) -> bool:
        [pages] = connection.execute("PRAGMA page_count").fetchone()
        [free] = connection.execute("PRAGMA freelist_count").fetchone()
        if free < minimum or free < pages * worth:
            return True
        # One by one: sqlite3 steps such a statement only once, whatever number is passed.
        for _ in range(min(free, VACUUM_STEP_PAGES)):
            connection.execute("PRAGMA incremental_vacuum(1)").fetchall()
        return False


def _read_compacted_revision(connection: SqliteConnection) -> int:
    [compacted] = connection.execute("SELECT value FROM meta WHERE name = 'compacted'").fetchone()
    return int(compacted)
