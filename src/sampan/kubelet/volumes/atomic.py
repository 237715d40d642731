"""Atomic updates of the files in a volume (`pkg/volume/util/atomic_writer.go`).

The files are in a timestamped directory, `..data` is a symbolic link to it, and containers see links through `..data`.
An update creates a new directory, renames the link to it, adds links for new files, removes those of deleted files, and
finally removes the old directory. Containers thus see either all old or all new content.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from sampan.api.go_compat import gotext
from sampan.host.linux.directory_trees import TreePosition, opened_position, remove_tree, walk_tree
from sampan.kubelet.volumes.contract import VolumeOperationError
from sampan.runtimes.safe_paths import RootDirectory, UnsafePath, opened_root

_RANDOM = random.Random()
"""A random number generator of this module, because tests may seed the global one."""

_DATA, _NEW = "..data", "..data_tmp"
_MAX_NAME_LENGTH, _MAX_PATH_LENGTH = 255, 4096


class FileProjection(NamedTuple):
    content: bytes
    mode: int
    user: int | None = None
    """UID of the file's owner; None for the user of the kubelet."""


Payload = Mapping[str, FileProjection]
"""Files by path relative to the volume."""


def write(volume: Path, payload: Payload, *, now: float, set_owner: Callable[[], None]) -> bool:
    """Update the files of the volume. Return whether anything changed. `set_owner` is called before the new files
    become visible.
    """
    desired = {_normalize_path(path): file for path, file in payload.items()}
    before = _current_directory(volume)
    removed = _paths(before) - _with_parents(desired) if before is not None else set()
    is_changed = before is None or bool(removed) or not _is_same(before, desired)
    if is_changed:
        _write_payload(volume, desired, now, set_owner)
    for path, file in desired.items():
        _link(volume, path.partition("/")[0], file.user)
    for path in removed:
        if "/" not in path:
            (volume / path).unlink()
    if is_changed and before is not None:
        remove_tree(before)
    return is_changed


def _write_payload(
    volume: Path, files: Mapping[str, FileProjection], now: float, set_owner: Callable[[], None]
) -> None:
    timestamped = _make_timestamped_directory(volume, now)
    try:
        for path, file in files.items():
            with opened_position(timestamped) as position:
                _write_file(position, path.split("/"), file)
        set_owner()
        (volume / _NEW).unlink(missing_ok=True)
        (volume / _NEW).symlink_to(timestamped.name)
        (volume / _NEW).rename(volume / _DATA)
    except BaseException:
        remove_tree(timestamped)
        raise


def _make_timestamped_directory(volume: Path, now: float) -> Path:
    stamp = datetime.fromtimestamp(now, UTC).strftime("..%Y_%m_%d_%H_%M_%S.")
    while True:
        directory = volume / f"{stamp}{_RANDOM.randrange(1 << 32)}"
        try:
            directory.mkdir()
        except FileExistsError:
            continue
        directory.chmod(0o755)
        return directory


def _write_file(position: TreePosition, parts: Sequence[str], file: FileProjection) -> None:
    for name in parts[:-1]:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=position.descriptor)
            os.chmod(name, 0o755, dir_fd=position.descriptor)
        position.enter(name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(parts[-1], flags, 0o600, dir_fd=position.descriptor)
    try:
        os.write(descriptor, file.content) if len(file.content) < 4096 else _write_all(descriptor, file.content)
        os.fchmod(descriptor, file.mode)
        if file.user is not None:
            os.fchown(descriptor, file.user, -1)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    remainder = memoryview(content)
    while remainder:
        remainder = remainder[os.write(descriptor, remainder) :]


def _link(volume: Path, name: str, user: int | None) -> None:
    link = volume / name
    if not link.is_symlink():
        link.symlink_to(f"{_DATA}/{name}")
        if user is not None:
            os.lchown(link, user, -1)


def _current_directory(volume: Path) -> Path | None:
    try:
        directory = volume / os.readlink(volume / _DATA)
    except FileNotFoundError:
        return None
    return directory if directory.is_dir() else None


def _paths(directory: Path) -> set[str]:
    return {"/".join((*entry.names, entry.name)) for entry in walk_tree(directory)}


def _with_parents(paths: Mapping[str, FileProjection]) -> set[str]:
    return {part for path in paths for part in _iter_with_parents(path)}


def _iter_with_parents(path: str) -> Iterator[str]:
    yield path
    yield from (str(parent) for parent in PurePosixPath(path).parents if parent.name)


def _is_same(before: Path, files: Mapping[str, FileProjection]) -> bool:
    with opened_root(before) as root:
        return all(_has_content(root, path, file.content) for path, file in files.items())


def _has_content(root: RootDirectory, path: str, content: bytes) -> bool:
    try:
        return root.read(path, len(content)) == content
    except (OSError, UnsafePath):
        return False


def _normalize_path(path: str) -> str:
    """Return the normalized path. Raise VolumeOperationError if it is not allowed."""
    parts = path.split("/")
    if not path:
        raise VolumeOperationError(f"invalid path: must not be empty: {gotext.quote(path)}")
    if path.startswith("/"):
        raise VolumeOperationError(f"invalid path: must be relative path: {path}")
    if len(path) > _MAX_PATH_LENGTH:
        raise VolumeOperationError(f"invalid path: must be less than or equal to {_MAX_PATH_LENGTH} characters")
    if ".." in parts:
        raise VolumeOperationError(f"invalid path: must not contain '..': {path}")
    if any(len(part) > _MAX_NAME_LENGTH for part in parts):
        raise VolumeOperationError(
            f"invalid path: filenames must be less than or equal to {_MAX_NAME_LENGTH} characters"
        )
    if parts[0].startswith(".."):
        raise VolumeOperationError(f"invalid path: must not start with '..': {path}")
    return str(PurePosixPath(path))
