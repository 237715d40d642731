"""The user who runs a command through sudo.

Real nodes need root, and people start clusters with `sudo sampan up`. The cluster then belongs to the person: its data
directory is in that home directory, and kubectl and `sampan status` work without sudo.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def sudo_user() -> pwd.struct_passwd | None:
    """Return the user who called sudo, or None if the process does not run as root through sudo."""
    uid = os.environ.get("SUDO_UID", "")
    if os.geteuid() != 0 or not (uid.isascii() and uid.isdigit()) or len(uid) > 10 or int(uid) == 0:
        return None
    try:
        return pwd.getpwuid(int(uid))
    except KeyError:
        return None


def hand_over(paths: Iterable[Path]) -> None:
    """Change the owner of files and directories that root has created to the user who called sudo. Symbolic links, and
    files with several hard links, are skipped: they may be files of somebody else."""
    user = sudo_user()
    if user is None:
        return
    for path in paths:
        try:
            file = os.open(path, _FLAGS)
        except OSError:
            continue
        try:
            status = os.fstat(file)
            is_own = stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)
            if is_own and status.st_uid == 0:
                os.fchown(file, user.pw_uid, user.pw_gid)
        finally:
            os.close(file)
