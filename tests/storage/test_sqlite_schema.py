"""File formats: new, older and newer files, and foreign files, which are rejected and unchanged."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sampan.host.clock import VirtualClock
from sampan.storage.sqlite import FormatError, SqliteBackend
from sampan.storage.sqlite.schema import (
    APPLICATION_ID,
    STEPS,
    SqliteConnection,
    StandardDriver,
    migrate,
    open_for_writing,
    version_of,
)


@contextmanager
def _open_raw(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def _create_store(path: Path) -> None:
    async def work() -> None:
        async with SqliteBackend(path=path, clock=VirtualClock()) as backend:
            await backend.put("/a", b"1")

    asyncio.run(work())


def test_new_file_has_application_id_and_format_version(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    _create_store(path)
    with _open_raw(path) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA user_version").fetchone() == (len(STEPS),)
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    _create_store(path)
    newer = len(STEPS) + 1
    with _open_raw(path) as connection:
        connection.execute(f"PRAGMA user_version = {newer}")
    with pytest.raises(FormatError, match=rf"{path} has format {newer}; .* up to {len(STEPS)}"):
        _create_store(path)


def _make_other_database(path: Path) -> None:
    with _open_raw(path) as connection:
        connection.execute("CREATE TABLE other (a)")


def _make_other_application(path: Path) -> None:
    with _open_raw(path) as connection:
        connection.execute("PRAGMA application_id = 7")


def _make_text(path: Path) -> None:
    path.write_text("this is not a database, but it is long enough to look at" * 20)


@pytest.mark.parametrize("make", [_make_other_database, _make_other_application, _make_text])
def test_foreign_files_are_rejected_and_unchanged(tmp_path: Path, make: object) -> None:
    path = tmp_path / "state.db"
    make(path)  # type: ignore[operator]
    before = path.read_bytes()
    with pytest.raises(FormatError, match=f"{path} is not a Sampan store"):
        _create_store(path)
    assert path.read_bytes() == before
    _check_unlocked(path)


def _check_unlocked(path: Path) -> None:
    """Check that the failed attempt has released the lock."""
    path.unlink()
    _create_store(path)


def _format_next(connection: SqliteConnection) -> None:
    """Migrate to a fictitious format: keys without their leading slash, and a new table."""
    connection.execute("CREATE TABLE extra (a)")
    connection.execute("UPDATE live SET key = substr(key, 2)")
    connection.execute("UPDATE revisions SET key = substr(key, 2)")


def _format_after(connection: SqliteConnection) -> None:
    connection.execute("INSERT INTO extra VALUES (42)")


def test_older_format_is_migrated_step_by_step(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    _create_store(path)
    connection = open_for_writing(StandardDriver(), path)
    migrate(connection, path, [*STEPS, _format_next, _format_after])
    assert version_of(connection, path) == len(STEPS) + 2
    assert connection.execute("SELECT a FROM extra").fetchall() == [(42,)]
    assert connection.execute("SELECT key FROM live").fetchall() == [("a",)]
    migrate(connection, path, [*STEPS, _format_next, _format_after])
    assert connection.execute("SELECT a FROM extra").fetchall() == [(42,)], "a step was done twice"
    connection.close()


def test_failed_migration_step_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    _create_store(path)

    def fail(connection: SqliteConnection) -> None:
        raise ZeroDivisionError

    connection = open_for_writing(StandardDriver(), path)
    with pytest.raises(ZeroDivisionError):
        migrate(connection, path, [*STEPS, _format_next, fail])
    assert version_of(connection, path) == len(STEPS)
    assert connection.execute("SELECT key FROM live").fetchall() == [("/a",)]
    connection.close()
    _create_store(path)


def test_file_without_tables_is_opened_as_an_empty_store(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with _open_raw(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    _create_store(path)
