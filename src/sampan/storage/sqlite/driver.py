"""The subset of a SQLite driver that is used.

It keeps the classification of errors in one place and lets tests run the store on another build of SQLite, whose file
system loses what was not synced.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

BUSY, FULL, NOT_A_DATABASE = 5, 13, 26
"""Primary result codes of SQLite."""
DISK_FAULTS = frozenset((3, 8, 10, 14))
"""Result codes that hide the system's error: no permission, read-only, I/O error, cannot open."""


class Cursor(Protocol):
    def __iter__(self) -> Iterator[Any]: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...


class Connection(Protocol):
    """A connection in autocommit mode, with explicit transactions; it is used by one thread at a time."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ..., /) -> Cursor: ...
    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Cursor: ...
    def close(self) -> None: ...


class Driver(Protocol):
    @property
    def error(self) -> type[Exception]:
        """The base class of the errors that connections raise."""

    def connect(self, path: Path) -> Connection:
        """Open an existing file."""

    def code(self, error: Exception) -> int:
        """Return the primary result code of an error."""


class StandardDriver:
    """The `sqlite3` module of the standard library."""

    error: type[Exception] = sqlite3.Error

    def connect(self, path: Path) -> Connection:
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False
        )

    def code(self, error: Exception) -> int:
        code: int = getattr(error, "sqlite_errorcode", 0)
        return code & 0xFF
