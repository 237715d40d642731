"""A temporary directory that is removed with its process, however the process ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_WAIT_THEN_REMOVE = 'exec 3<&0; (read -r _ <&3; rm -rf -- "$0") &'
"""Runs in the background of a shell that exits at once, so the waiting process is not our child and need not be reaped.
A shell gives background processes an empty standard input, hence the copy."""


class TemporaryDirectory:
    """A directory that `remove()` deletes; if the process is gone before that, even by kill -9, a waiting shell deletes
    it.

    The shell reads from a pipe whose other end only this process holds, so it wakes up when the process ends.
    """

    def __init__(self, prefix: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        reading, self._held = os.pipe()
        try:
            subprocess.run(
                ["/bin/sh", "-c", _WAIT_THEN_REMOVE, str(self.path)],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                check=True,
            )
        finally:
            os.close(reading)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._held >= 0:
            os.close(self._held)
            self._held = -1
