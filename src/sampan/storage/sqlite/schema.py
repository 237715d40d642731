"""The tables, their format version, and migrations from older formats; the subset of a SQLite driver that is used.

`revisions` and `bodies` are the log: one row for each write, with its revision as the row ID. They are two tables so
that the revisions after another can be read without reading values, and without an index that every write would have to
update. `live` is the current state. A row of `revisions` holds the revision that it replaced. The state as of an old
revision R thus consists of the live rows that are not newer than R, and of the rows that were written up to R and
replaced or deleted after R.

`SqliteDriver` keeps the classification of errors in one place, and lets tests run the store on another build of SQLite,
whose file system loses data that was not synced."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from sampan.storage.backend import StorageError

BUSY, FULL, NOT_A_DATABASE = 5, 13, 26
"""Primary result codes of SQLite."""
DISK_ERRORS = frozenset((3, 8, 10, 14))
"""Result codes that hide the system's error: no permission, read-only, I/O error, cannot open."""


class SqliteCursor(Protocol):
    def __iter__(self) -> Iterator[Any]: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...


class SqliteConnection(Protocol):
    """A connection in autocommit mode, with explicit transactions; it is used by one thread at a time."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ..., /) -> SqliteCursor: ...
    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> SqliteCursor: ...
    def close(self) -> None: ...


class SqliteDriver(Protocol):
    @property
    def error(self) -> type[Exception]:
        """The base class of the errors that connections raise."""

    def connect(self, path: Path) -> SqliteConnection:
        """Open an existing file."""

    def code(self, error: Exception) -> int:
        """Return the primary result code of an error."""


class StandardDriver:
    """The `sqlite3` module of the standard library."""

    error: type[Exception] = sqlite3.Error

    def connect(self, path: Path) -> SqliteConnection:
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False
        )

    def code(self, error: Exception) -> int:
        code: int = getattr(error, "sqlite_errorcode", 0)
        return code & 0xFF


APPLICATION_ID = 0x53414D50  # "SAMP"
FIRST_REVISION = 1

Step = Callable[[SqliteConnection], None]


class FormatError(StorageError):
    """The file is not a store that this version can use."""


def _format_1(connection: SqliteConnection) -> None:
    """Create format 1.

    `created` is 0 for a deletion, which has no row in `bodies`; `previous` is 0 if there was no value before.
    """
    for statement in (
        "CREATE TABLE revisions (revision INTEGER PRIMARY KEY, key TEXT NOT NULL, created INTEGER NOT NULL,"
        " previous INTEGER NOT NULL)",
        "CREATE TABLE bodies (revision INTEGER PRIMARY KEY, value BLOB NOT NULL)",
        "CREATE TABLE live (key TEXT PRIMARY KEY, revision INTEGER NOT NULL, created INTEGER NOT NULL,"
        " expires REAL) WITHOUT ROWID",
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value NUMERIC NOT NULL) WITHOUT ROWID",
        "INSERT INTO meta VALUES ('compacted', 0), ('settled', 0), ('marked_revision', 0), ('marked_at', 0)",
    ):
        connection.execute(statement)


STEPS: Sequence[Step] = (_format_1,)
"""The migrations: step i converts format i to format i + 1; format 0 is an empty file."""


def open_for_writing(driver: SqliteDriver, path: Path, *, is_synced: bool = True) -> SqliteConnection:
    """Return a connection for writing, on a file of the current format. Commits wait for the disk if it is synced."""
    connection = driver.connect(path)
    try:
        version_of(connection, path)  # before anything that would change another program's file
        _configure(connection, is_synced=is_synced)
        migrate(connection, path)
    except driver.error as error:
        connection.close()
        if driver.code(error) == NOT_A_DATABASE:
            raise FormatError(f"{path} is not a Sampan store: {error}") from error
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def migrate(connection: SqliteConnection, path: Path, steps: Sequence[Step] = STEPS) -> None:
    """Run the pending migrations, all or none of them."""
    version = version_of(connection, path)
    if version > len(steps):
        raise FormatError(
            f"{path} has format {version}; this Sampan supports formats up to {len(steps)}: use a newer version"
        )
    if version == len(steps):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in steps[version:]:
            step(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(steps)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def version_of(connection: SqliteConnection, path: Path) -> int:
    """Return the format of the file, 0 if it is empty; raise `FormatError` for another program's file."""
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (application or version or tables):
        raise FormatError(f"{path} is not a Sampan store: another program's SQLite file")
    return int(version)


def _configure(connection: SqliteConnection, *, is_synced: bool) -> None:
    """Configure the write connection.

    Page size and vacuum mode take effect only before anything is written. Only this connection checkpoints.
    """
    for pragma in (
        "busy_timeout = 5000",
        "page_size = 4096",
        "auto_vacuum = INCREMENTAL",
        "journal_mode = WAL",
        f"synchronous = {'FULL' if is_synced else 'OFF'}",
        "fullfsync = ON",
        "wal_autocheckpoint = 1000",
        "journal_size_limit = 16777216",
        "cache_size = -4096",
        "temp_store = MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
