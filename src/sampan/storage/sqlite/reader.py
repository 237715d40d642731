"""The readers' side of the tables: each read is one snapshot and reflects one revision.

Connections of readers neither write nor checkpoint. `ReaderPool` has one connection for fast reads on the event loop,
and others with threads for reads that may take long."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from sampan.host.worker_thread import WorkerThreads
from sampan.storage.backend import Compacted, EventBatch, KeyValue, StoreEvent, StorePage, Unavailable, prefix_end
from sampan.storage.sqlite.schema import SqliteConnection, SqliteDriver

_LOG_EVENTS = 1000
_LOG_BYTES = 4 << 20
_AFTER_ALL_TEXT = b""
"""The end of a range without an upper bound: in SQLite every blob, even an empty one, is greater than every text."""

_LIVE = "SELECT key, revision, created FROM live WHERE key >= :start AND key < :end AND revision <= :at"
_REPLACED_LATER = (
    "SELECT old.key, old.revision, old.created FROM revisions AS new CROSS JOIN revisions AS old"
    " ON old.revision = new.previous WHERE new.revision > :at AND new.previous BETWEEN 1 AND :at"
    " AND new.key >= :start AND new.key < :end"
)
_STATE = f"{_LIVE} UNION ALL {_REPLACED_LATER} ORDER BY key"
_VALUES = "SELECT state.key, value, state.revision, created FROM ({}) AS state CROSS JOIN bodies USING (revision)"
_RANGE_NOW = _VALUES.format(f"{_LIVE} ORDER BY key LIMIT :limit")
_RANGE_THEN = _VALUES.format(f"{_STATE} LIMIT :limit")
_LOG = (
    "SELECT revision, key, value, created FROM revisions LEFT JOIN bodies USING (revision)"
    " WHERE revision > ? AND revision <= ? AND key >= ? AND key < ? ORDER BY revision"
)


class SqliteReader:
    def __init__(self, *, driver: SqliteDriver, path: Path) -> None:
        self._path = path
        self._error = driver.error
        self._connection = driver.connect(path)
        for pragma in ("busy_timeout = 5000", "query_only = ON", "wal_autocheckpoint = 0", "temp_store = MEMORY"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()

    def __enter__(self) -> "SqliteReader":
        return self

    def __exit__(self, *exc: object) -> None:
        self._connection.close()

    def get_newest(self, key: str) -> KeyValue | None:
        """Return the entry as of the last write on disk."""
        with self._translate_errors():
            newest = "SELECT value, live.revision, created FROM live CROSS JOIN bodies USING (revision) WHERE key = ?"
            row = self._connection.execute(newest, (key,)).fetchone()
        return None if row is None else KeyValue(key, *row)

    def get(self, key: str, revision: int) -> KeyValue | None:
        with self._snapshot(revision) as connection:
            row = connection.execute("SELECT revision, created FROM live WHERE key = ?", (key,)).fetchone()
            if row is None or row[0] > revision:
                row = self._find_replaced_row(connection, key, revision)
            if row is None:
                return None
            [value] = connection.execute("SELECT value FROM bodies WHERE revision = ?", (row[0],)).fetchone()
            return KeyValue(key, value, *row)

    def range(self, prefix: str, start: str, limit: int, revision: int) -> StorePage:
        end = prefix_end(prefix) or _AFTER_ALL_TEXT
        with self._snapshot(revision) as connection:
            query = _RANGE_NOW if self._is_newest(connection, revision) else _RANGE_THEN
            rows = connection.execute(query, _range(max(prefix, start), end, revision) | {"limit": limit or -1})
            entries = [KeyValue(*row) for row in rows]
            remaining = 0
            if limit and len(entries) == limit:
                remaining = self._count(connection, entries[-1].key + "\0", end, revision)
            return StorePage(entries, revision, remaining)

    def count(self, prefix: str, revision: int) -> int:
        with self._snapshot(revision) as connection:
            return self._count(connection, prefix, prefix_end(prefix) or _AFTER_ALL_TEXT, revision)

    def log(self, prefix: str, after: int, through: int) -> EventBatch:
        """Return events with `after < revision <= through`, or the first part of them."""
        end = prefix_end(prefix) or _AFTER_ALL_TEXT
        events: list[StoreEvent] = []
        size = 0
        with self._snapshot(after) as connection:
            for row in connection.execute(_LOG, (after, through, prefix, end)):
                events.append(StoreEvent(*row))
                size += len(row[2] or b"")
                if len(events) == _LOG_EVENTS or size > _LOG_BYTES:
                    return EventBatch(events, row[0])
        return EventBatch(events, through)

    def read_compacted_revision(self) -> int:
        """Return the revision from which on history is available."""
        with self._translate_errors():
            [compacted] = self._connection.execute("SELECT value FROM meta WHERE name = 'compacted'").fetchone()
        return int(compacted)

    def _is_newest(self, connection: SqliteConnection, revision: int) -> bool:
        [newest] = connection.execute("SELECT max(revision) FROM revisions").fetchone()
        return (newest or 0) <= revision

    def _count(self, connection: SqliteConnection, start: str, end: str | bytes, revision: int) -> int:
        state = _LIVE if self._is_newest(connection, revision) else _STATE
        [count] = connection.execute(f"SELECT count(*) FROM ({state})", _range(start, end, revision)).fetchone()
        return int(count)

    def _find_replaced_row(self, connection: SqliteConnection, key: str, revision: int) -> tuple[int, int] | None:
        """Return revision and creation of the key's value at `revision` if it was replaced or deleted later."""
        replaced: tuple[int, int] | None = connection.execute(
            "SELECT revision, created FROM revisions WHERE revision ="
            " (SELECT previous FROM revisions WHERE revision > ? AND key = ? ORDER BY revision LIMIT 1)",
            (revision, key),
        ).fetchone()
        return replaced

    @contextmanager
    def _snapshot(self, revision: int) -> Iterator[SqliteConnection]:
        """Open a read transaction; raise `Compacted` if the history from `revision` on is not available."""
        connection = self._connection
        with self._translate_errors():
            connection.execute("BEGIN")
            try:
                [compacted] = connection.execute("SELECT value FROM meta WHERE name = 'compacted'").fetchone()
                if revision < compacted:
                    [newest] = connection.execute("SELECT max(revision) FROM revisions").fetchone()
                    raise Compacted(compacted, newest)
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            raise Unavailable(f"{self._path}: cannot read: {error}") from error


def _range(start: str, end: str | bytes, revision: int) -> dict[str, str | bytes | int]:
    """Return the named parameters of the queries for a range of keys at a revision."""
    return {"start": start, "end": end, "at": revision}


T = TypeVar("T")


class ReaderPool:
    def __init__(self, *, driver: SqliteDriver, path: Path, threads: int) -> None:
        self._connections = ExitStack()
        self._free: SimpleQueue[SqliteReader] = SimpleQueue()
        with ExitStack() as opened:
            for _ in range(threads):
                self._free.put(opened.enter_context(SqliteReader(driver=driver, path=path)))
            self.quick = opened.enter_context(SqliteReader(driver=driver, path=path))
            """The connection for reads of single keys at the current revision, on the event loop."""
            self._connections = opened.pop_all()
        self._worker = WorkerThreads(name=f"sqlite reader {path.name}", threads=threads)

    async def read(self, read: Callable[[SqliteReader], T]) -> T:
        """Run a read in a thread."""
        return await self._worker.call(lambda: self._read(read))

    async def close(self) -> None:
        await self._worker.stop()
        self._connections.close()

    def _read(self, read: Callable[[SqliteReader], T]) -> T:
        reader = self._free.get()
        try:
            return read(reader)
        finally:
            self._free.put(reader)
