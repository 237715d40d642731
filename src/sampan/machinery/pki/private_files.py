"""Files that only their owner may read: keys, kubeconfigs, and the record of a running cluster."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE = 0o600


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, atomically.

    The content goes to a new file with a random name in the same directory, is synced to disk and then renamed. In a
    directory that others may write to, such as /tmp, no other user can put a link or file in its place. A file that
    already has the content and the mode is not written, so that a full disk does not keep a cluster from starting.
    """
    if _has_content(path, content):
        return
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    file = os.open(scratch, _FLAGS, _MODE)
    try:
        with os.fdopen(file, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        scratch.replace(path)
    except BaseException:
        with suppress(OSError):
            scratch.unlink()
        raise


def _has_content(path: Path, content: bytes) -> bool:
    """Whether the path is already a private regular file of this user with the given content."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(file, "rb") as present:
        about = os.fstat(present.fileno())
        is_private = stat.S_ISREG(about.st_mode) and stat.S_IMODE(about.st_mode) == _MODE
        if not is_private or about.st_uid != os.geteuid() or about.st_size != len(content):
            return False
        return present.read(len(content) + 1) == content
