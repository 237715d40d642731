"""Linux system calls that Python's standard library lacks: mounts and user namespaces."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import subprocess
import weakref
from pathlib import Path
from typing import Any

from sampan.host.linux.user_namespace import is_in_user_namespace

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 8, 32, 4096, 16384
MNT_DETACH, UMOUNT_NOFOLLOW = 2, 8
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
"""These system call numbers are the same on all architectures."""
_AT_FDCWD, _AT_EMPTY_PATH, _OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = -100, 0x1000, 1, 4
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_IDMAP = 0x1, 0x100000
_NOBODY = 65534


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _raise_on_error(result: int, action: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{action}: {os.strerror(code)}")


def mount(source: str | Path, target: str | Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    result = _libc().mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _raise_on_error(result, f"mount {kind or 'bind'} on {target}")


def unmount(target: str | Path, flags: int = MNT_DETACH | UMOUNT_NOFOLLOW) -> None:
    """Unmount everything mounted at `target`. If nothing is mounted there, or the path does not exist, do nothing."""
    while True:
        if _libc().umount2(os.fsencode(target), flags) != 0:
            code = ctypes.get_errno()
            if code in (errno.EINVAL, errno.ENOENT):
                return
            raise OSError(code, f"unmount {target}: {os.strerror(code)}")


class UserNamespace:
    """A user namespace, held open by a file descriptor until this object is garbage-collected."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)


def nobody_namespace() -> UserNamespace:
    """Create a user namespace that maps only the user and group nobody. Raise OSError if the kernel does not allow
    it."""
    argv = ["unshare", "--user", "sh", "-c", "echo; read -r line"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.read(1):
                raise OSError(errno.EPERM, "cannot make a user namespace")
            for name in ("uid_map", "gid_map"):
                Path(f"/proc/{process.pid}/{name}").write_text(f"{_NOBODY} {_NOBODY} 1\n")
            return UserNamespace(os.open(f"/proc/{process.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC))
        finally:
            process.kill()


def bind_without_owners(source: Path, target: Path, namespace: UserNamespace) -> None:
    """Mount a directory read-only so that none of its files has an owner known to the kernel.

    It is an id-mapped mount whose user namespace maps none of the owners. So the permission bits for others apply to
    every process, even to root with all capabilities, and set-user-ID bits have no effect. That also holds for files
    created later. Raise OSError if the kernel (before Linux 5.12) or the file system does not support id-mapped mounts.
    """
    tree = _system_call(_SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(source), _OPEN_TREE_CLONE | os.O_CLOEXEC)
    try:
        attributes = struct.pack("QQQQ", _MOUNT_ATTR_IDMAP | _MOUNT_ATTR_RDONLY, 0, 0, namespace.descriptor)
        _system_call(_SYS_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, attributes, len(attributes))
        _system_call(_SYS_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    finally:
        os.close(tree)


def _system_call(number: int, *arguments: int | bytes) -> int:
    call = _libc().syscall
    call.restype = ctypes.c_long
    result: int = call(ctypes.c_long(number), *(_argument(argument) for argument in arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"system call {number}: {os.strerror(code)}")
    return result


def _argument(value: int | bytes) -> Any:
    return ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_long(value)


def mounts_below(directory: Path) -> list[Path]:
    """Return the mount points at and below the directory, the innermost first."""
    prefix, mounts = str(directory), []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        path = line.split(" ")[4].encode().decode("unicode_escape")
        if path == prefix or path.startswith(f"{prefix}/"):
            mounts.append(Path(path))
    return mounts[::-1]


def find_mount(path: Path) -> tuple[str, bool]:
    """Return the mount point of the file system that contains the path, and whether mounts below it propagate to other
    mount namespaces."""
    real, mount = f"{os.path.realpath(path)}/", ("", False)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split(" ")
        point = fields[4].encode().decode("unicode_escape")
        if real.startswith(f"{point.rstrip('/')}/") and len(point) >= len(mount[0]):
            options = fields[6 : fields.index("-")]
            mount = point, any(option.startswith("shared:") for option in options)
    return mount


def held_capabilities() -> int:
    """Return the effective capabilities of this process as a bit set."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return int(next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0"), 16)


_SYS_RESOURCE = 24


def clamp_oom_score(score: int) -> int:
    """Return the score, or the lowest one that this process may set. Without CAP_SYS_RESOURCE that is its own score."""
    if score >= 0 or may_lower_oom_score():
        return score
    try:
        return max(score, int(Path("/proc/self/oom_score_adj").read_text()))
    except (OSError, ValueError):
        return max(score, 0)


def may_lower_oom_score() -> bool:
    return bool(held_capabilities() >> _SYS_RESOURCE & 1) and not is_in_user_namespace()
