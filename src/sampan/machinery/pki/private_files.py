"""Files that only their owner may read: keys, kubeconfigs, and the record of a running cluster."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sampan.host.durable_files import write_durably

_MODE = 0o600


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, atomically.

    In a directory that others may write to, such as /tmp, no other user can put a link or file in its place. A file
    that already has the content and the mode is not written, so that a full disk does not keep a cluster from starting.
    """
    if not _has_content(path, content):
        write_durably(path, content, mode=_MODE)


def _has_content(path: Path, content: bytes) -> bool:
    """Whether the path is already a private regular file of this user with the given content."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(file, "rb") as present:
        status = os.fstat(present.fileno())
        is_private = stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) == _MODE
        if not is_private or status.st_uid != os.geteuid() or status.st_size != len(content):
            return False
        return present.read(len(content) + 1) == content
