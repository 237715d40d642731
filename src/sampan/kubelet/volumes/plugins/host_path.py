"""hostPath volumes: a path of the node, whose type may be checked."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sampan.api.types.core_v1 import HostPathVolumeSource
from sampan.host.worker_thread import run_in_thread
from sampan.kubelet.volumes.contract import ReadyVolume, VolumeOperationError, VolumePluginBase, VolumeSpec
from sampan.machinery.volumes import LOCAL_PATH, PROVISIONED_BY

NAME = "kubernetes.io/host-path"
_CHECKS = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


class HostPathPlugin(VolumePluginBase):
    name = NAME

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume.hostPath is not None or spec.source.hostPath is not None

    async def set_up(self, spec: VolumeSpec) -> ReadyVolume:
        source = spec.volume.hostPath or spec.source.hostPath or HostPathVolumeSource()
        if ".." in source.path.split("/"):
            raise VolumeOperationError(f"invalid HostPath `{source.path}`: must not contain '..'")
        path = Path(source.path)
        await run_in_thread(check, path, source.type or "", _mode(spec))
        return ReadyVolume(path=path, is_read_only=spec.is_read_only)

    async def tear_down(self, uid: str, inner: str) -> None:
        return None


def _mode(spec: VolumeSpec) -> int:
    """Return the mode of a new directory. The directory of a provisioned volume must be accessible to any user that its
    pods run as.
    """
    made_by = spec.persistent.metadata.annotations.get(PROVISIONED_BY) if spec.persistent is not None else None
    return 0o777 if made_by == LOCAL_PATH else 0o755


def _make_directory(path: Path, mode: int) -> None:
    """Create the directory with this mode, regardless of the umask. If it has been created concurrently, its mode is
    kept, and a symbolic link in its place is not followed. A directory that every user may write to is hidden from
    other users of the machine in a private parent directory; containers see it through a mount.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if mode & stat.S_IWOTH else 0o755)
    try:
        path.mkdir()
    except FileExistsError:
        if path.is_dir():
            return
        raise
    descriptor = os.open(path, os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def check(path: Path, type: str, mode: int = 0o755) -> None:
    """Create the path if its type allows that. Raise VolumeOperationError if it has the wrong type. A path without a
    type becomes a directory, as container engines would create it: all runtimes behave alike if it is created here.
    """
    if not path.exists():
        if type in ("", "DirectoryOrCreate"):
            _make_directory(path, mode)
        elif type == "FileOrCreate":
            path.touch(mode=0o644)
    if not type:
        return
    if type not in _CHECKS:
        raise VolumeOperationError(f"{type} is an invalid volume type")
    is_right, word = _CHECKS[type]
    if not path.exists() or not is_right(path.stat().st_mode):
        raise VolumeOperationError(f"hostPath type check failed: {path} is not {word}")
