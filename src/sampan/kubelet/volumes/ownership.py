"""fsGroup: the files of a volume belong to the pod's group, which may read and, unless it may not, write them."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

log = logging.getLogger(__name__)

ON_ROOT_MISMATCH = "OnRootMismatch"
_WRITE, _READ, _ENTER = 0o660, 0o440, 0o110


def give_to_group(folder: Path, group: int | None, *, is_read_only: bool, policy: str | None = None) -> None:
    """With the policy OnRootMismatch only where the folder itself is not as it should be."""
    if group is None or (policy == ON_ROOT_MISMATCH and _is_fit(folder, group, is_read_only)):
        return
    for parent, folders, files, descriptor in os.fwalk(folder, topdown=False, follow_symlinks=False):
        for name in (*files, *(name for name in folders if _is_link(name, descriptor))):
            _change(name, group, is_read_only, descriptor)
        _change(parent, group, is_read_only)


def _change(name: str | Path, group: int, is_read_only: bool, descriptor: int | None = None) -> None:
    """What cannot be changed is left as it is: not all file systems can."""
    try:
        mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
        os.chown(name, -1, group, dir_fd=descriptor, follow_symlinks=False)
        if not stat.S_ISLNK(mode):
            os.chmod(name, stat.S_IMODE(mode) | _mask(mode, is_read_only), dir_fd=descriptor)
    except OSError as fault:
        log.warning("the owner of %s cannot be changed: %s", name, fault.strerror)


def _mask(mode: int, is_read_only: bool) -> int:
    mask = _READ if is_read_only else _WRITE
    return mask | _ENTER | stat.S_ISGID if stat.S_ISDIR(mode) else mask


def _is_link(name: str, descriptor: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode)


def _is_fit(folder: Path, group: int, is_read_only: bool) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False
    wanted = (_READ if is_read_only else _WRITE) | _ENTER | stat.S_ISGID
    return found.st_gid == group and stat.S_ISDIR(found.st_mode) and found.st_mode & wanted == wanted


__all__ = ["ON_ROOT_MISMATCH", "give_to_group"]
