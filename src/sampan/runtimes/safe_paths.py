"""Open files in a directory with untrusted content: the root of an image or a container, or a volume.

Symbolic links are resolved as if the directory were the root of the file system, so that no path leads out of it. Each
step starts from an open directory descriptor, never from a path, so that a concurrent writer to the directory cannot
change what is opened. Only regular files are opened for reading: opening a FIFO blocks, and opening a device node acts
on the device.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from sampan.host.linux.directory_descriptors import (
    RESOLVE_BENEATH,
    RESOLVE_IN_ROOT,
    RESOLVE_NO_MAGICLINKS,
    UNSUPPORTED,
    openat2,
)

_MAX_LINKS: Final = 40
"""The number of symbolic links that Linux follows in one path resolution."""
_MAX_LEVELS: Final = 256
"""The maximum depth of a path that is resolved step by step. Each level holds a file descriptor open, and a process may
have as few as 1024."""
_PATH: Final = getattr(os, "O_PATH", os.O_RDONLY)
"""On systems other than Linux this module can be imported but not used."""
_STEP: Final = _PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = _PATH | os.O_DIRECTORY | os.O_CLOEXEC
_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
}


class UnsafePath(ValueError):
    """The path contains a link cycle, or leads to something that is not a regular file of bounded size."""


class RootDirectory:
    """An open directory, the root of paths with untrusted content. Its creator closes it; `opened_root` closes it at
    the end of a `with` block."""

    def __init__(self, descriptor: int, *, is_strict: bool = False) -> None:
        """With `is_strict`, absolute links and links that lead above the directory are refused. Otherwise they are
        resolved as if the directory were the root of the file system."""
        self._descriptor, self._is_strict = descriptor, is_strict

    def fileno(self) -> int:
        return self._descriptor

    def read(self, path: str, maximum: int) -> bytes:
        """Return the content of a regular file. Raise FileNotFoundError if it does not exist, and UnsafePath if it is
        not a regular file or larger than `maximum` bytes."""
        with self.open(path) as file:
            return _read_bounded(file, path, maximum)

    def open(self, path: str) -> BinaryIO:
        """Open a regular file. The caller closes it."""
        descriptor = self.hold(path)
        try:
            return _reopen(descriptor, path)
        finally:
            os.close(descriptor)

    def hold(self, path: str) -> int:
        """Return a descriptor that only identifies a file of any kind, without opening it. The caller closes it."""
        return self._resolve(path, _PATH | os.O_CLOEXEC)

    def directory(self, parts: Sequence[str], *, mode: int | None = None) -> int:
        """Return the descriptor of a directory, which the caller closes. If `mode` is not None, missing directories are
        created, including the target of a dangling link."""
        if not parts:
            return os.dup(self._descriptor)
        try:
            return self._resolve("/".join(parts), _DIRECTORY)
        except FileNotFoundError:
            if mode is None:
                raise
        return self._resolve_stepwise(parts, mode, is_directory=True)

    def _resolve(self, path: str, flags: int) -> int:
        if "\0" in path:
            raise UnsafePath(f"{path!r} has a null byte in it")
        try:
            scope = RESOLVE_BENEATH if self._is_strict else RESOLVE_IN_ROOT
            return openat2(self._descriptor, path.lstrip("/"), flags, scope | RESOLVE_NO_MAGICLINKS)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise UnsafePath(f"{path}: too many levels of symbolic links") from None
            if error.errno == errno.EXDEV:
                raise _escape(path) from None
            if error.errno not in UNSUPPORTED:
                raise
        return self._resolve_stepwise(_parts(path), None, is_directory=bool(flags & os.O_DIRECTORY))

    def _resolve_stepwise(self, parts: Sequence[str], mode: int | None, *, is_directory: bool) -> int:
        """Resolve a path step by step, for kernels without openat2 and to create missing directories."""
        remaining, links = list(reversed(parts)), 0
        trail = [os.dup(self._descriptor)]
        try:
            while remaining:
                name = remaining.pop()
                if name == "..":
                    if len(trail) > 1:
                        os.close(trail.pop())
                    elif self._is_strict:
                        raise _escape("/".join(parts))
                    continue
                if len(trail) > _MAX_LEVELS:
                    raise UnsafePath(f"{'/'.join(parts)[:200]}: more than {_MAX_LEVELS} levels of directories")
                step = _open_component(trail[-1], name, mode)
                kind = os.fstat(step).st_mode
                if not stat.S_ISLNK(kind):
                    trail.append(step)
                    if not stat.S_ISDIR(kind) and (remaining or is_directory):
                        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
                    continue
                try:
                    target = os.readlink("", dir_fd=step)
                finally:
                    os.close(step)
                links += 1
                if links > _MAX_LINKS:
                    raise UnsafePath(f"{'/'.join(parts)}: too many levels of symbolic links")
                if target.startswith("/"):
                    if self._is_strict:
                        raise _escape("/".join(parts))
                    while len(trail) > 1:
                        os.close(trail.pop())
                remaining += reversed(_parts(target))
            return trail.pop()
        finally:
            for descriptor in trail:
                os.close(descriptor)


def _escape(path: str) -> UnsafePath:
    return UnsafePath(f"{path[:200]} leads out of the directory")


@contextmanager
def opened_root(path: Path, *, is_strict: bool = False) -> Iterator[RootDirectory]:
    descriptor = os.open(path, _DIRECTORY)
    try:
        yield RootDirectory(descriptor, is_strict=is_strict)
    finally:
        os.close(descriptor)


def open_file(path: Path | str, *, dir_fd: int | None = None) -> BinaryIO:
    """Open a regular file at a trusted path, or with this name in an open directory; the caller closes it. The last
    component of the path must not be a symbolic link."""
    descriptor = os.open(path, _STEP, dir_fd=dir_fd)
    try:
        return _reopen(descriptor, os.path.basename(path))
    finally:
        os.close(descriptor)


def read_file(path: Path, maximum: int) -> bytes:
    """Return the content of a file as `open_file` opens it. Raise UnsafePath if it is larger than `maximum` bytes or
    not a regular file."""
    with open_file(path) as file:
        return _read_bounded(file, path.name, maximum)


def _reopen(owned_descriptor: int, name: str) -> BinaryIO:
    """Open the file of an O_PATH descriptor for reading. Raise UnsafePath if it is not a regular file."""
    mode = os.fstat(owned_descriptor).st_mode
    if not stat.S_ISREG(mode):
        raise UnsafePath(f"{name} is {_KINDS.get(stat.S_IFMT(mode), 'a special file')}, not a regular file")
    descriptor = os.open(f"/proc/self/fd/{owned_descriptor}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    return open(descriptor, "rb", buffering=0)


def _read_bounded(file: BinaryIO, name: str, maximum: int) -> bytes:
    data = bytearray()
    while len(data) <= maximum and (piece := file.read(maximum + 1 - len(data))):
        data += piece
    if len(data) > maximum:
        raise UnsafePath(f"{name} is larger than {maximum} bytes")
    return bytes(data)


def _open_component(directory: int, name: str, mode: int | None) -> int:
    try:
        return os.open(name, _STEP, dir_fd=directory)
    except FileNotFoundError:
        if mode is None:
            raise
    os.mkdir(name, 0o700, dir_fd=directory)
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fchmod(descriptor, mode)
        return os.open(name, _STEP, dir_fd=directory)
    finally:
        os.close(descriptor)


def _parts(path: str) -> list[str]:
    """Split a path. pathlib is not used because it treats two leading slashes as a separate root."""
    return [part for part in path.split("/") if part not in ("", ".")]


def resolve_inside(root: Path, path: str) -> Path:
    """Return the path within `root` that `path` resolves to. Components after the first one that does not exist are
    kept as they are. Use it only for a directory that is not written to concurrently: the result is a path, which may
    be replaced later."""
    remaining, done, links = _parts(path), root, 0
    while remaining:
        part = remaining.pop(0)
        if part == "..":
            done = done.parent if done != root else done
            continue
        step = done / part
        if not step.is_symlink():
            done = step
            continue
        links += 1
        if links > _MAX_LINKS:
            raise UnsafePath(f"{path}: symbolic links form a cycle")
        target = os.readlink(step)
        if target.startswith("/"):
            done = root
        remaining = _parts(target) + remaining
    return done
