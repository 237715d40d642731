"""The registry of clusters whose data are not below the default directory, with which commands find them by name.

For each of them there is a small file in the default directory, with the name of the cluster and the path of its data.
It is written by each start. A file about a directory that is no longer that of a cluster is ignored, and the next
registration removes it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pwd
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from sampan.cli.local_cluster.sudo_user import hand_over, sudo_user
from sampan.machinery.pki.private_files import write_private

log = logging.getLogger(__name__)

_DIRECTORY = ".clusters"
_MAX_ENTRIES = 1000
_MAX_BYTES = 1 << 14


class RegisteredCluster(msgspec.Struct, frozen=True):
    """The content of a file of the registry."""

    name: str
    data_dir: str


def clusters_root() -> Path:
    """Return the parent of the data directories of clusters without --data-dir."""
    base = os.environ.get("SAMPAN_HOME")
    if base:
        return Path(base).absolute()
    user = sudo_user()
    home = Path.home() if user is None else Path(user.pw_dir)
    data = os.environ.get("XDG_DATA_HOME") or home / ".local/share"
    return Path(data).absolute() / "sampan"


def list_roots() -> list[Path]:
    """Return the directories in which clusters are looked for. If the process runs through sudo, they include the
    directory of root."""
    roots = [clusters_root()]
    if sudo_user() is not None and not os.environ.get("SAMPAN_HOME"):
        roots.append(Path(pwd.getpwuid(0).pw_dir) / ".local/share/sampan")
    return roots


def register_cluster(name: str, data_dir: Path) -> None:
    """Record where the data of a cluster are. A registry that cannot be written is not a reason to stop the cluster."""
    root = clusters_root()
    directory = root / _DIRECTORY
    try:
        unregister_cluster(data_dir)
        if data_dir == root / name:
            return
        _remove_stale_files(directory)
        missing = [path for path in (directory, *directory.parents) if not path.exists()]
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = directory / f"{name}.{_digest(data_dir)}"
        write_private(file, msgspec.json.encode(RegisteredCluster(name, str(data_dir))))
        hand_over([*missing, file])
    except OSError as error:
        log.warning("cannot record in %s where the data of %s are: %s", directory, name, error.strerror)


def unregister_cluster(data_dir: Path) -> None:
    """Remove the record of a data directory, if there is one."""
    directory = clusters_root() / _DIRECTORY
    for file in directory.glob(f"*.{_digest(data_dir)}"):
        file.unlink(missing_ok=True)
    for path in (directory, directory.parent):
        with suppress(OSError):  # the directory is not empty, or does not exist
            path.rmdir()


def list_registered_clusters() -> Iterator[RegisteredCluster]:
    """Yield the records of all roots, sorted by name."""
    for root in list_roots():
        for file in _list_files(root / _DIRECTORY):
            if (entry := _read(file)) is not None:
                yield entry


def registered_name(data_dir: Path) -> str:
    """Return the name under which the cluster in a directory was last started; empty if it is not registered."""
    for root in list_roots():
        for file in (root / _DIRECTORY).glob(f"*.{_digest(data_dir)}"):
            if (entry := _read(file)) is not None and entry.data_dir == str(data_dir):
                return entry.name
    return ""


def _list_files(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())[:_MAX_ENTRIES]
    except OSError:
        return []


def _read(file: Path) -> RegisteredCluster | None:
    try:
        if file.stat().st_size > _MAX_BYTES:
            return None
        entry = msgspec.json.decode(file.read_bytes(), type=RegisteredCluster)
    except (OSError, msgspec.MsgspecError):
        return None
    is_whole = file.name == f"{entry.name}.{_digest(Path(entry.data_dir))}" and entry.data_dir.startswith("/")
    return entry if is_whole else None


def _remove_stale_files(directory: Path) -> None:
    """Remove the records of directories that do not exist any more."""
    for file in _list_files(directory):
        entry = _read(file)
        if entry is None or not os.path.lexists(entry.data_dir):
            file.unlink(missing_ok=True)


def _digest(data_dir: Path) -> str:
    return hashlib.blake2b(os.fsencode(data_dir), digest_size=8).hexdigest()
