"""The root file system of a container: an overlay mount of its image's layers and a writable upper layer."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sampan.machinery.user_namespace import is_in_user_namespace
from sampan.runtimes import kernel
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.images.host import HostDirectory, HostRoot
from sampan.runtimes.images.mounts import mount_layers, mount_overlay
from sampan.runtimes.safe_paths import walk_tree

log = logging.getLogger(__name__)


def mount_host(host: HostRoot, directory: Path) -> Path:
    """Mount the host image, whose directories are separate overlay mounts of the machine's directories."""
    root = mount_layers([host.base], directory)
    for shown in host.shown:
        _mount_shown(host, shown, directory, root)
    return root


def _mount_shown(host: HostRoot, shown: HostDirectory, directory: Path, root: Path) -> None:
    """Mount a directory of the machine, of which the container sees only the world-readable files. The layer above it
    contains nothing but directories owned by root, so that the container can create files in them."""
    name = shown.target.strip("/")
    upper, work, target = directory / f"upper-{name}", directory / f"work-{name}", root / name
    if is_in_user_namespace():  # the files have no owners there, and private ones are those of other users
        mount_overlay([shown.source, shown.directories], upper, work, target)
        return
    try:
        with _without_owners(shown.source, directory / f"lower-{name}", host.nobody) as lower:
            mount_overlay([lower, shown.directories], upper, work, target)
    except (OSError, RuntimeFailure) as error:
        log.warning("%s cannot be mounted without owners (%s): private files are hidden by name", shown.source, error)
        mount_overlay([shown.source, shown.hiding], upper, work, target)


@contextmanager
def _without_owners(source: Path, place: Path, namespace: kernel.UserNamespace) -> Iterator[Path]:
    """Mount `source` without owners for the duration of the block. An overlay mount made from it keeps working after it
    is unmounted."""
    place.mkdir(exist_ok=True)
    try:
        kernel.bind_without_owners(source, place, namespace)
        yield place
    finally:
        kernel.unmount(place)
        place.rmdir()


def written_bytes(directory: Path) -> tuple[int, int]:
    """Return the bytes and inodes of the container's writable layers."""
    size = count = 0
    for upper in directory.glob("upper*"):
        count += 1
        for entry in walk_tree(upper):
            count += 1
            if entry.is_dir(follow_symlinks=False):
                continue
            try:
                size += entry.stat(follow_symlinks=False).st_blocks * 512
            except OSError:
                continue
    return size, count
