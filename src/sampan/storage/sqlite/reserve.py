"""A reserve of disk space, so that objects can still be deleted when the disk is full."""

import os
from contextlib import suppress
from pathlib import Path

RESERVE_BYTES = 8 << 20
"""Twice the size at which the write-ahead log is checkpointed: on a full disk the checkpoint needs that much space in
the file, and afterwards the log has room for deletions.
"""


_DISK_DIVISOR = 8
"""The divisor that limits the reserve on a small file system: the reserve is at most this part of it."""


class DiskReserve:
    """A file beside the store that only occupies space; it is removed when a write fails because the disk is full."""

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(store.name + ".reserve")

    @property
    def size(self) -> int:
        disk = os.statvfs(self._path.parent)
        return min(RESERVE_BYTES, disk.f_blocks * disk.f_frsize // _DISK_DIVISOR)

    def keep(self) -> bool:
        """Allocate the reserve if it is not allocated yet; return whether it is."""
        try:
            disk, size = os.statvfs(self._path.parent), self.size
            if self._path.exists() and self._path.stat().st_blocks * 512 >= size:
                return True
            if disk.f_bavail * disk.f_frsize < size + size // 4:
                return False  # allocating it would leave no room for a single write
            self._allocate(size)
        except OSError:
            self.remove()
            return False
        return True

    def remove(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _allocate(self, size: int) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)
            else:
                os.pwrite(descriptor, bytes(size), 0)
        finally:
            os.close(descriptor)


def failure_of(directory: Path) -> OSError | None:
    """Return the system's error for a write to the directory, which SQLite does not report, or None if it succeeds."""
    path = directory / f".write-test-{os.getpid()}"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, bytes(4096))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            path.unlink(missing_ok=True)
    except OSError as error:
        return error
    return None
