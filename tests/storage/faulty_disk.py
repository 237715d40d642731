"""A disk for SQLite that can lose power, run full and fail: an apsw VFS, and the driver that runs a store on it.

The process that writes sees all its writes, as it would from the page cache. `Disk.after_power_loss` says what would be
found after a power loss at this moment: for each file what was last synced, and of each write since then all, nothing
or some sectors.
"""

import itertools
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from sampan.storage.sqlite.schema import SqliteConnection

SECTOR = 512
_names = itertools.count()


@dataclass
class TrackedFile:
    """The contents as of the last sync, and what was done since: writes (offset, data) and truncations (size, None)."""

    synced: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        for offset, data in self.unsynced:
            _apply(self.synced, offset, data)
        self.unsynced.clear()

    def after_power_loss(self, chance: random.Random) -> bytes:
        left = bytearray(self.synced)
        for offset, data in self.unsynced:
            match chance.choice(["kept", "lost", "torn"]):
                case "kept":
                    _apply(left, offset, data)
                case "torn" if data is not None:
                    for start in range(0, len(data), SECTOR):
                        if chance.random() < 0.5:
                            _apply(left, offset + start, data[start : start + SECTOR])
        return bytes(left)


def _apply(contents: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del contents[offset:]
        return
    if len(contents) < offset:
        contents.extend(bytes(offset - len(contents)))
    contents[offset : offset + len(data)] = data


@dataclass
class Disk:
    """What the VFS keeps and may be told to do. Used from several threads, each call under `lock`."""

    files: dict[str, TrackedFile] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    before_operation: Callable[[str, str], None] = lambda operation, name: None
    """Called with `write`, `sync` or `truncate` and the file's name before each; may raise instead of letting it be."""
    is_syncing: bool = True
    """False: syncs are answered and not done."""

    def after_power_loss(self, chance: random.Random) -> dict[str, bytes]:
        with self.lock:
            return {name: file.after_power_loss(chance) for name, file in self.files.items()}


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        filename = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._disk = disk
        self._name = Path(filename).name
        with disk.lock:
            self._file = disk.files.setdefault(self._name, TrackedFile())

    def xWrite(self, data: bytes, offset: int) -> None:
        with self._disk.lock:
            self._disk.before_operation("write", self._name)
            super().xWrite(data, offset)
            self._file.unsynced.append((offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        with self._disk.lock:
            self._disk.before_operation("truncate", self._name)
            super().xTruncate(size)
            self._file.unsynced.append((size, None))

    def xSync(self, flags: int) -> None:
        with self._disk.lock:
            self._disk.before_operation("sync", self._name)
            if self._disk.is_syncing:
                self._file.sync()


class _Vfs(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self.name = f"faulty-{next(_names)}"
        self._disk = disk
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _File(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        with self._disk.lock:
            self._disk.files.pop(Path(filename).name, None)


class FaultyDriver:
    error: type[Exception] = apsw.Error

    def __init__(self, disk: Disk) -> None:
        self._vfs = _Vfs(disk)

    def connect(self, path: Path) -> SqliteConnection:
        connection: SqliteConnection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=self._vfs.name)
        return connection

    def code(self, error: Exception) -> int:
        assert isinstance(error, apsw.Error)
        return int(error.result)  # type: ignore[attr-defined]
