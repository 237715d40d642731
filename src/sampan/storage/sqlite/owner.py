"""Exclusive ownership of a store by one process: file permissions, and a lock."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from sampan.storage.backend import StorageError, Unavailable


class InUse(StorageError):
    """Another process has the store open."""


class FileOwner:
    """Holds a lock on a file beside the store; the kernel releases it when the process ends for any reason."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock_path = path.with_name(path.name + ".lock")
        self._lock: int | None = None

    def acquire(self) -> None:
        """Ensure that the store's file exists and is accessible by its owner only, and take the lock."""
        try:
            self._acquire()
        except OSError as error:
            raise Unavailable(f"{self._path}: {os.strerror(error.errno or 0).lower()}") from error

    def _acquire(self) -> None:
        _make_directory(self._path.parent)
        lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise InUse(f"{self._path} is in use by another process (pid {holder})") from None
        self._lock = lock
        with suppress(OSError):  # the disk may be full; the PID is only informative
            os.pwrite(lock, f"{os.getpid():<31}\n".encode(), 0)
        _make_file(self._path)

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _make_directory(directory: Path) -> None:
    if directory.is_dir():
        return
    _make_directory(directory.parent)
    directory.mkdir(mode=0o700, exist_ok=True)
    _sync_directory(directory.parent)


def _make_file(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    """Sync a directory; otherwise the name of a new file may be lost after a power failure even if its contents were
    synced.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
