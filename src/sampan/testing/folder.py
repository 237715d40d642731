"""A temporary folder that goes away with its process, however that ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_WAIT_THEN_REMOVE = 'exec 3<&0; (read -r _ <&3; rm -rf -- "$0") &'
"""In the background of a shell that ends at once: what waits is nobody's child and needs no one to collect it. A shell
gives background work an empty standard input, hence the copy."""


class TemporaryFolder:
    """Removed by `remove()`; if the process is gone before that, be it by kill -9, a waiting shell removes it.

    The shell reads from a pipe whose other end only this process holds, so that it wakes when the process ends.
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


__all__ = ["TemporaryFolder"]
