"""Temporary directories that are removed when their process ends, however it ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

_WAIT_THEN_REMOVE = 'exec 3<&0; (read -r _ <&3; rm -rf -- "$0") &'
"""A shell script that waits in the background for the end of its input, and then removes a directory. The shell itself
exits at once, so that the waiting process is not our child and need not be reaped. Background processes of a shell have
an empty standard input, so the script copies it to descriptor 3 first."""


class TemporaryDirectory:
    """A directory that `remove()` deletes; if the process is gone before that, even by kill -9, a waiting shell deletes
    it.

    All directories of a process are in one parent directory with one shell, because starting a shell takes longer than
    everything else. The last `remove()` deletes the parent directory.
    """

    def __init__(self, prefix: str) -> None:
        self._is_removed = False
        self.path = _PARENT.make_child(prefix)

    def remove(self) -> None:
        if not self._is_removed:
            self._is_removed = True
            _PARENT.remove_child(self.path)


class _ParentDirectory:
    """The parent directory of all temporary directories of this process. The shell that removes it reads from a pipe.
    Only this process holds the other end, so that the shell wakes up when the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._children = 0
        self._path: Path | None = None
        self._pipe_end = -1

    def make_child(self, prefix: str) -> Path:
        with self._lock:
            if self._path is None:
                self._path, self._pipe_end = _make_directory(prefix)
            self._children += 1
            return Path(tempfile.mkdtemp(prefix=prefix, dir=self._path))

    def remove_child(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)
        with self._lock:
            self._children -= 1
            if self._children == 0 and self._path is not None:
                shutil.rmtree(self._path, ignore_errors=True)
                os.close(self._pipe_end)
                self._path = None


def _make_directory(prefix: str) -> tuple[Path, int]:
    """Create a directory, and start the shell that removes it. Return the path, and the end of the pipe to hold
    open."""
    path = Path(tempfile.mkdtemp(prefix=prefix))
    read_end, write_end = os.pipe()
    try:
        subprocess.run(
            ["/bin/sh", "-c", _WAIT_THEN_REMOVE, str(path)],
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            check=True,
        )
    finally:
        os.close(read_end)
    return path, write_end


_PARENT = _ParentDirectory()
"""The parent of the temporary directories of this process."""
