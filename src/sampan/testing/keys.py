"""The certificates of test clusters: generated once per process, written for each cluster."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path

from sampan.cluster.pki import Pki

_NAMES = (
    *("kubernetes" + end for end in ("", ".default", ".default.svc", ".default.svc.cluster.local")),
    *("localhost", "127.0.0.1", "::1", "10.96.0.1"),
)


_MEMORY_DIRECTORY = "/dev/shm"


class KeyRing:
    """The certificates and keys of this process. All its clusters share one CA, because generating keys is the slow
    part of starting a cluster. This is safe, because no cluster outlives the process."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._making = threading.Lock()

    def write(self, directory: Path) -> Pki:
        """Write the certificates and keys into a new directory. They are generated on the first call."""
        with self._making:
            if not self._files:
                self._files = _make_files()
        directory.mkdir(mode=0o700)
        for name, content in self._files.items():
            file = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(file, content)  # not synced to disk, because the file is removed with the test
            os.close(file)
        return Pki(directory)


def _make_files() -> dict[str, bytes]:
    """Generate certificates and keys, in memory where that is possible: `Pki` syncs every file to disk."""
    memory = _MEMORY_DIRECTORY if os.access(_MEMORY_DIRECTORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="sampan-keys-", dir=memory) as scratch:
        directory = Path(scratch) / "pki"
        Pki(directory).ensure(names=_NAMES, now=time.time())
        return {path.name: path.read_bytes() for path in directory.iterdir()}


KEYS = KeyRing()
"""The key ring of this process."""
