"""Disk space kept for the moment when there is none left, so that objects can still be deleted then."""

import os
from contextlib import suppress
from pathlib import Path

RESERVE_BYTES = 8 << 20
"""Twice what the write-ahead log holds before its pages move to the file: on a full disk they need that much there, and
once they have moved the log has room for deletions."""
_PART_OF_DISK = 8
"""On a small file system no more than one part in so many."""


class Reserve:
    """A file beside the store that only takes up space; it is removed when a write fails for want of space."""

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(store.name + ".reserve")

    @property
    def size(self) -> int:
        disk = os.statvfs(self._path.parent)
        return min(RESERVE_BYTES, disk.f_blocks * disk.f_frsize // _PART_OF_DISK)

    def keep(self) -> bool:
        """Take the space if it is not taken yet; whether it is."""
        try:
            disk, size = os.statvfs(self._path.parent), self.size
            if self._path.exists() and self._path.stat().st_blocks * 512 >= size:
                return True
            if disk.f_bavail * disk.f_frsize < size + size // 4:
                return False  # it would leave no room for a single write
            self._allocate(size)
        except OSError:
            self.give_up()
            return False
        return True

    def give_up(self) -> None:
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
    """What the system says when somebody writes to the directory, which SQLite does not tell; None if it works."""
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


__all__ = ["RESERVE_BYTES", "Reserve", "failure_of"]
