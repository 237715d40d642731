"""Mounts subpaths of volumes safely (`pkg/volume/util/subpath`).

A process that can write to the volume must not be able to redirect the subpath to the outside: the path is resolved
from an open directory, links are followed only within the volume, and the bind mount refers to the open file, not to
its name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sampan.kubelet.volumes.mounter import Mounter
from sampan.runtimes.safe_paths import RootDirectory, opened_root


def ensure_exists(volume: Path, subpath: str) -> None:
    """Create the missing directories of the subpath, with the permissions of the volume's root. What exists may be a
    file. Raise UnsafePath if the path leads out of the volume, whether or not its target exists: the error must not
    disclose which files the node has."""
    with opened_root(volume, is_strict=True) as root:
        try:
            os.close(root.hold("/".join(_parts(subpath))))
        except FileNotFoundError:
            _create(root, _parts(subpath), stat.S_IMODE(os.fstat(root.fileno()).st_mode))


def _create(root: RootDirectory, parts: Sequence[str], mode: int) -> None:
    directory, missing = _open_existing(root, parts)
    try:
        for name in missing:
            os.mkdir(name, mode & 0o777, dir_fd=directory)
            below = os.open(name, os.O_DIRECTORY | os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            above, directory = directory, below
            os.close(above)
            os.fchmod(directory, mode)
    finally:
        os.close(directory)


def _open_existing(root: RootDirectory, parts: Sequence[str]) -> tuple[int, Sequence[str]]:
    """Open the deepest existing directory of the path, and return it with the names of the missing directories."""
    for count in range(len(parts) - 1, 0, -1):
        with suppress(FileNotFoundError):
            return root.directory(parts[:count]), parts[count:]
    return root.directory(()), parts


def bind(mounter: Mounter, volume: Path, subpath: str, target: Path) -> Path:
    """Bind the subpath to `target` and return `target`. Without the privilege to mount, return the path of the subpath
    itself.
    """
    with opened_root(volume, is_strict=True) as root:
        descriptor = root.hold("/".join(_parts(subpath)))
    try:
        if not mounter.can_mount:
            return Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if mounter.is_mounted(target):
            if _is_same(os.fstat(descriptor), os.lstat(target)):
                return target
            mounter.unmount(target)
        _make_target(target, is_directory=stat.S_ISDIR(os.fstat(descriptor).st_mode))
        mounter.bind(f"/proc/{os.getpid()}/fd/{descriptor}", target)
    finally:
        os.close(descriptor)
    return target


def _parts(subpath: str) -> list[str]:
    return [part for part in subpath.split("/") if part not in ("", ".")]


def clean(mounter: Mounter, directory: Path) -> None:
    """Unmount and remove all subpaths below the directory, which belongs to a pod or to one of its volumes."""
    if not directory.is_dir():
        return
    _clean_level(mounter, directory)
    directory.rmdir()


def _clean_level(mounter: Mounter, directory: Path) -> None:
    """Unmount and remove everything below the directory. Each entry is unmounted before it is entered."""
    for path in directory.iterdir():
        mounter.unmount(path)
        if path.is_dir() and not path.is_symlink():
            _clean_level(mounter, path)
            path.rmdir()
        else:
            path.unlink()


def _make_target(target: Path, *, is_directory: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    if target.is_dir() != is_directory and target.exists():
        target.rmdir() if target.is_dir() else target.unlink()
    if is_directory:
        target.mkdir(mode=0o750, exist_ok=True)
    else:
        target.touch(mode=0o640)


def _is_same(left: os.stat_result, right: os.stat_result) -> bool:
    return (left.st_dev, left.st_ino) == (right.st_dev, right.st_ino)
