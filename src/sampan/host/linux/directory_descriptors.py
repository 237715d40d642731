"""Open directories by their names in other open directories, without following links."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from pathlib import Path
from typing import Final

RESOLVE_NO_XDEV, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS = 0x01, 0x02, 0x04
RESOLVE_BENEATH, RESOLVE_IN_ROOT = 0x08, 0x10
UNSUPPORTED: Final = frozenset({errno.ENOSYS, errno.EPERM, errno.EAGAIN, errno.EINVAL})
"""The errors of openat2 where the kernel or a sandbox does not support it, or a rename has interfered."""
_SYS_OPENAT2: Final = 437
"""This system call number is the same on all architectures."""


def open_directory(path: Path | str, *, dir_fd: int | None = None) -> int:
    """Open a directory at a trusted path for reading its entries. The caller closes the descriptor."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)


def open_subdirectory(directory: int, name: str) -> int:
    """Open a subdirectory for reading its entries. Raise OSError if the name is that of a link or of a mount point."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return openat2(directory, name, flags, RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    descriptor = os.open(name, flags, dir_fd=directory)
    if os.fstat(descriptor).st_dev != os.fstat(directory).st_dev:
        os.close(descriptor)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
    return descriptor


def openat2(directory: int, path: str, flags: int, resolve: int) -> int:
    """Open a path with the system call openat2, and return the descriptor. `resolve` restricts how the path is
    resolved."""
    how = struct.pack("QQQ", flags, 0, resolve)
    result: int = _syscall()(
        ctypes.c_long(_SYS_OPENAT2),
        ctypes.c_int(directory),
        ctypes.c_char_p(_encode(path)),
        ctypes.c_char_p(how),
        ctypes.c_size_t(len(how)),
    )
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return result


def _encode(path: str) -> bytes:
    data = os.fsencode(path)
    if b"\0" in data:
        raise ValueError(f"{path!r} has a null byte in it")
    return data or b"."


def _syscall() -> ctypes._NamedFuncPointer:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return call
