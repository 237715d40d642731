"""A disk for SQLite that can lose power, run full and fail: an apsw VFS, and the driver that runs a store on it.

The process that writes sees all its writes, as it would from the page cache. `Disk.simulate_power_loss` returns the
files after a power loss at this moment: the last synced content of each file, and of each later write all, nothing or
some sectors.
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
    """The content at the last sync, and the operations since then: writes (offset, data), truncations (size, None)."""

    synced: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        for offset, data in self.unsynced:
            _apply(self.synced, offset, data)
        self.unsynced.clear()

    def simulate_power_loss(self, chance: random.Random) -> bytes:
        content = bytearray(self.synced)
        for offset, data in self.unsynced:
            match chance.choice(["kept", "lost", "torn"]):
                case "kept":
                    _apply(content, offset, data)
                case "torn" if data is not None:
                    for start in range(0, len(data), SECTOR):
                        if chance.random() < 0.5:
                            _apply(content, offset + start, data[start : start + SECTOR])
        return bytes(content)


def _apply(contents: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del contents[offset:]
        return
    if len(contents) < offset:
        contents.extend(bytes(offset - len(contents)))
    contents[offset : offset + len(data)] = data


@dataclass
class Disk:
    """The files of the VFS and its faults. Several threads use it, each call under `lock`."""

    files: dict[str, TrackedFile] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    before_operation: Callable[[str, str], None] = lambda operation, name: None
    """Called before each operation with `write`, `sync` or `truncate` and the file name; may raise an error."""
    is_syncing: bool = True
    """If false, syncs are acknowledged and not done."""

    def simulate_power_loss(self, chance: random.Random) -> dict[str, bytes]:
        with self.lock:
            return {name: file.simulate_power_loss(chance) for name, file in self.files.items()}


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
