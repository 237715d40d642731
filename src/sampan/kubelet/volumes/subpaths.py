"""Mounts subpaths of volumes safely (`pkg/volume/util/subpath`).

A process that can write to the volume must not be able to redirect the subpath to the outside: each component of the
path is opened without following symbolic links, and the bind mount refers to the open file, not to its name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from sampan.kubelet.volumes.mounter import Mounter

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC if hasattr(os, "O_PATH") else os.O_RDONLY | os.O_NOFOLLOW


class UnsafeSubpath(Exception):
    """The subpath leads out of the volume, or changes while it is being resolved."""


def make_directory(volume: Path, subpath: str) -> None:
    """Create the missing directories of the subpath, with the permissions of the volume's root."""
    base = volume.resolve(strict=True)
    mode = stat.S_IMODE(base.stat().st_mode)
    existing, missing = _split_existing(base, subpath)
    real = existing.resolve(strict=True)
    with _open_without_links(base, real) as descriptor, _OpenPosition(os.dup(descriptor)) as at:
        for name in missing:
            os.mkdir(name, mode & 0o777, dir_fd=at.descriptor)
            at.enter(name, os.O_DIRECTORY | os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            os.fchmod(at.descriptor, mode)


class _OpenPosition:
    """A position in a volume. It owns exactly one file descriptor at a time and closes it once: closing a descriptor
    twice could close one that another thread has opened since.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def enter(self, name: str, flags: int) -> None:
        below = os.open(name, flags, dir_fd=self.descriptor)
        above, self.descriptor = self.descriptor, below
        os.close(above)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self.descriptor)


def _split_existing(base: Path, subpath: str) -> tuple[Path, list[str]]:
    """Return the existing part of the path, and the names of the missing components."""
    parts = [part for part in Path(subpath).parts if part != "/"]
    for count in range(len(parts), -1, -1):
        path = base.joinpath(*parts[:count])
        if os.path.lexists(path):
            return path, parts[count:]
    return base, parts


def bind(mounter: Mounter, volume: Path, subpath: str, target: Path) -> Path:
    """Bind the subpath to `target` and return `target`. Without the privilege to mount, return the path of the subpath
    itself.
    """
    base = volume.resolve(strict=True)
    real = (base / subpath).resolve(strict=True)
    with _open_without_links(base, real) as descriptor:
        if not mounter.can_mount:
            return real
        if mounter.is_mounted(target):
            if _is_same(os.stat(f"/proc/self/fd/{descriptor}"), os.lstat(target)):
                return target
            mounter.unmount(target)
        _make_target(target, is_directory=stat.S_ISDIR(os.fstat(descriptor).st_mode))
        mounter.bind(f"/proc/{os.getpid()}/fd/{descriptor}", target)
    return target


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


@contextmanager
def _open_without_links(base: Path, real: Path) -> Iterator[int]:
    """Open `real`, which must not contain symbolic links, component by component, starting at the volume."""
    if not real.is_relative_to(base):
        raise UnsafeSubpath(f"subpath {real} not within volume path {base}")
    with _OpenPosition(os.open(base, _STEP)) as at:
        for name in real.relative_to(base).parts:
            at.enter(name, _STEP)
            if stat.S_ISLNK(os.fstat(at.descriptor).st_mode):
                raise UnsafeSubpath(f"unexpected symlink found {name} in {real}")
        yield at.descriptor


def _is_same(left: os.stat_result, right: os.stat_result) -> bool:
    return (left.st_dev, left.st_ino) == (right.st_dev, right.st_ino)
