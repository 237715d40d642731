"""fsGroup: the files of a volume belong to the pod's group, which may read and, unless it may not, write them."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sampan.runtimes.safe_paths import Root, UnsafePath, opened_root

log = logging.getLogger(__name__)

ON_ROOT_MISMATCH = "OnRootMismatch"
_WRITE, _READ, _ENTER = 0o660, 0o440, 0o110


def give_to_group(folder: Path, group: int | None, *, is_read_only: bool, policy: str | None = None) -> None:
    """With the policy OnRootMismatch only where the folder itself is not as it should be."""
    if group is None or (policy == ON_ROOT_MISMATCH and _is_fit(folder, group, is_read_only)):
        return
    with opened_root(folder) as root:
        visited, pending = list[str](), [""]
        while pending:
            visited.append(place := pending.pop())
            with _entered(root, place) as directory:
                pending += _change_files(directory, place, group, is_read_only)
        for place in reversed(visited):  # the volume itself last: OnRootMismatch takes it for the whole
            with _entered(root, place) as directory:
                _change(".", directory, group, is_read_only)


@contextmanager
def _entered(root: Root, place: str) -> Iterator[int | None]:
    """The directory, held open; None where it is gone, or something else is in its place by now. Whoever writes to the
    volume meanwhile cannot make anything outside of it change."""
    try:
        directory = root.directory(place.split("/") if place else ())
    except (OSError, UnsafePath) as error:
        log.warning("cannot change the group ownership of %s: %s", place, error)
        yield None
        return
    try:
        yield directory
    finally:
        os.close(directory)


def _change_files(directory: int | None, place: str, group: int, is_read_only: bool) -> list[str]:
    """Of one directory; the directories in it."""
    found: list[str] = []
    if directory is None:
        return found
    with contextlib.suppress(OSError), os.scandir(f"/proc/self/fd/{directory}/") as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                found.append(f"{place}/{entry.name}" if place else entry.name)
            else:
                _change(entry.name, directory, group, is_read_only)
    return found


def _change(name: str, directory: int | None, group: int, is_read_only: bool) -> None:
    """What cannot be changed is left as it is: not all file systems can. The mode is that of the file that was looked
    at, not of one that has come in its place."""
    if directory is None:
        return
    try:
        held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            mode = os.fstat(held).st_mode
            os.chown(name, -1, group, dir_fd=directory, follow_symlinks=False)
            if not stat.S_ISLNK(mode):
                os.chmod(f"/proc/self/fd/{held}", stat.S_IMODE(mode) | _mask(mode, is_read_only))
        finally:
            os.close(held)
    except OSError as error:
        log.warning("cannot change the group ownership of %s: %s", name, error.strerror)


def _mask(mode: int, is_read_only: bool) -> int:
    mask = _READ if is_read_only else _WRITE
    return mask | _ENTER | stat.S_ISGID if stat.S_ISDIR(mode) else mask


def _is_fit(folder: Path, group: int, is_read_only: bool) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False
    wanted = (_READ if is_read_only else _WRITE) | _ENTER | stat.S_ISGID
    return found.st_gid == group and stat.S_ISDIR(found.st_mode) and found.st_mode & wanted == wanted


__all__ = ["ON_ROOT_MISMATCH", "give_to_group"]
