"""The little that is used of a SQLite driver.

So errors are told apart in one place, and tests can run the store on another build of SQLite, whose file system forgets
what was not synced.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

BUSY, FULL, NOT_A_DATABASE = 5, 13, 26
"""Primary result codes of SQLite."""
DISK_FAULTS = frozenset((3, 8, 10, 14))
"""Result codes that hide what the system said: no permission, read-only, I/O error, cannot open."""


class Cursor(Protocol):
    def __iter__(self) -> Iterator[Any]: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...


class Connection(Protocol):
    """In autocommit mode: transactions are begun and ended by statements. Used by one thread at a time."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ..., /) -> Cursor: ...
    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Cursor: ...
    def close(self) -> None: ...


class Driver(Protocol):
    @property
    def error(self) -> type[Exception]:
        """The class of everything that connections raise."""

    def connect(self, path: Path) -> Connection:
        """Open a file that exists."""

    def code(self, error: Exception) -> int:
        """The primary result code behind an `error`."""


class StandardDriver:
    """`sqlite3` of the standard library."""

    error: type[Exception] = sqlite3.Error

    def connect(self, path: Path) -> Connection:
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False
        )

    def code(self, error: Exception) -> int:
        code: int = getattr(error, "sqlite_errorcode", 0)
        return code & 0xFF
