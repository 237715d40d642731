"""Applies fsGroup: the files of a volume get the pod's group and its permissions (`pkg/volume/volume_linux.go`)."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from sampan.host.linux.directory_descriptors import open_directory
from sampan.host.linux.directory_trees import Step, traverse_tree

log = logging.getLogger(__name__)

ON_ROOT_MISMATCH = "OnRootMismatch"
_WRITE, _READ, _ENTER = 0o660, 0o440, 0o110


def give_to_group(volume: Path, group: int | None, *, is_read_only: bool, policy: str | None = None) -> None:
    """Change group and permissions of all files of the volume. With the policy OnRootMismatch, do so only if those of
    the volume's root differ.
    """
    if group is None or (policy == ON_ROOT_MISMATCH and _is_fit(volume, group, is_read_only)):
        return
    for entry in traverse_tree(volume):
        if entry.step is Step.LEAVE:
            _change(".", entry.directory, group, is_read_only)
        elif entry.step is Step.ENTRY and not entry.is_directory:
            _change(entry.name, entry.directory, group, is_read_only)
    # The root comes last, because OnRootMismatch takes it as proof that everything else is done.
    root = open_directory(volume)
    try:
        _change(".", root, group, is_read_only)
    finally:
        os.close(root)


def _change(name: str, directory: int, group: int, is_read_only: bool) -> None:
    """Change one file, and log errors, since not all file systems support this. The mode is set through the open file,
    so that a replacement of the same name is not affected.
    """
    try:
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            mode = os.fstat(descriptor).st_mode
            os.chown(name, -1, group, dir_fd=directory, follow_symlinks=False)
            if not stat.S_ISLNK(mode):
                os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IMODE(mode) | _mask(mode, is_read_only))
        finally:
            os.close(descriptor)
    except OSError as error:
        log.warning("cannot change the group ownership of %s: %s", name, error.strerror)


def _mask(mode: int, is_read_only: bool) -> int:
    mask = _READ if is_read_only else _WRITE
    return mask | _ENTER | stat.S_ISGID if stat.S_ISDIR(mode) else mask


def _is_fit(volume: Path, group: int, is_read_only: bool) -> bool:
    try:
        status = volume.stat()
    except OSError:
        return False
    required = (_READ if is_read_only else _WRITE) | _ENTER | stat.S_ISGID
    return status.st_gid == group and stat.S_ISDIR(status.st_mode) and status.st_mode & required == required
