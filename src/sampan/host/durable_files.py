"""Files that are replaced as a whole: checkpoints, records, keys, downloaded content.

A reader sees the old content or the new one, never a part of it, and several writers of one file do not disturb each
other: each writes to a new file with a random name in the same directory, which then takes the name of the old file.
The module uses only the standard library, as the monitor of containers imports it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNFINISHED = ".new-"
"""The prefix of the names of unfinished files. Readers of directories, such as those of CNI configuration, ignore files
with such names."""

AnyPath = str | os.PathLike[str]


class NewFile:
    """An unfinished file. `publish` gives it a name; without that it is removed at the end of its block."""

    def __init__(self, path: str, stream: BinaryIO, *, is_synced: bool) -> None:
        self.path, self.stream, self._is_synced = path, stream, is_synced
        self.is_published = False

    def publish(self, path: AnyPath) -> None:
        """Replace the file at `path`, in the same directory. A symbolic link there is replaced, not followed."""
        self.stream.flush()
        if self._is_synced:
            os.fsync(self.stream.fileno())
        os.replace(self.path, path)
        self.is_published = True
        if self._is_synced:
            _sync_directory(os.path.dirname(self.path))


@contextmanager
def open_new_file(directory: AnyPath, *, mode: int, is_synced: bool = True) -> Iterator[NewFile]:
    """Yield a new file in the directory. Its name cannot be predicted, so that nobody else can prepare a file or a link
    there. `mode` applies regardless of the umask."""
    path = os.path.join(directory, f"{_UNFINISHED}{os.urandom(8).hex()}")
    file = os.open(path, _FLAGS, mode & 0o600)
    with os.fdopen(file, "wb") as stream:
        new = NewFile(path, stream, is_synced=is_synced)
        try:
            if mode != 0o600:
                os.fchmod(file, mode)
            yield new
        finally:
            if not new.is_published:
                with suppress(OSError):
                    os.unlink(path)


def write_durably(path: AnyPath, content: bytes, *, mode: int, is_synced: bool = True) -> None:
    """Write a file atomically; when this returns, the content survives a power failure. Raise OSError if that fails,
    and leave the old content then.

    `is_synced=False` is for content that is worthless after a power failure or can be made again: a reader may then
    find an empty file, but the caller need not wait for the disk.
    """
    with open_new_file(os.path.dirname(path) or ".", mode=mode, is_synced=is_synced) as new:
        new.stream.write(content)
        new.publish(path)


def remove_unfinished(directory: AnyPath) -> None:
    """Remove the unfinished files of an earlier process that was killed. No other process may write in the
    directory."""
    for name in os.listdir(directory):
        if name.startswith(_UNFINISHED):
            with suppress(OSError):
                os.unlink(os.path.join(directory, name))


def _sync_directory(path: str) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
