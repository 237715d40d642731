"""The tables, their format version, and migrations from older formats.

`revisions` and `bodies` are the log: one row for each write, with its revision as the row ID. They are two tables so
that the revisions after another can be read without reading values, and without an index that every write would have
to update. `live` is the current state. A row of `revisions` holds the revision that it replaced, so that the state as
of an old revision R is: what is live and not newer than R, and what was replaced or deleted after R and written up to
R.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from sampan.storage.backend import StorageError
from sampan.storage.sqlite.driver import NOT_A_DATABASE, Connection, Driver

APPLICATION_ID = 0x53414D50  # "SAMP"
FIRST_REVISION = 1

Step = Callable[[Connection], None]


class FormatError(StorageError):
    """The file is not a store that this version can use."""


def _format_1(connection: Connection) -> None:
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


def open_for_writing(driver: Driver, path: Path) -> Connection:
    """Return a connection for writing, on a file of the current format."""
    connection = driver.connect(path)
    try:
        version_of(connection, path)  # before anything that would change another program's file
        _configure(connection)
        bring_up(connection, path)
    except driver.error as error:
        connection.close()
        if driver.code(error) == NOT_A_DATABASE:
            raise FormatError(f"{path} is not a Sampan store: {error}") from error
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def bring_up(connection: Connection, path: Path, steps: Sequence[Step] = STEPS) -> None:
    """Run the pending migrations, all or none of them."""
    version = version_of(connection, path)
    if version > len(steps):
        raise FormatError(
            f"{path} has format {version}; this version of Sampan knows formats up to {len(steps)}: use a newer one"
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


def version_of(connection: Connection, path: Path) -> int:
    """Return the format of the file, 0 if it is empty; raise `FormatError` for another program's file."""
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (application or version or tables):
        raise FormatError(f"{path} is not a Sampan store: another program's SQLite file")
    return int(version)


def _configure(connection: Connection) -> None:
    """Configure the write connection.

    Page size and vacuum mode take effect only before anything is written. Only this connection checkpoints.
    """
    for pragma in (
        "busy_timeout = 5000",
        "page_size = 4096",
        "auto_vacuum = INCREMENTAL",
        "journal_mode = WAL",
        "synchronous = FULL",
        "fullfsync = ON",
        "wal_autocheckpoint = 1000",
        "journal_size_limit = 16777216",
        "cache_size = -8192",
        "temp_store = MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
