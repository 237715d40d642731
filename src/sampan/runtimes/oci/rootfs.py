"""The root file system of a container: an overlay mount of its image's layers and a writable upper layer."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sampan.runtimes import kernel
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.images.host import HostDirectory, HostRoot
from sampan.runtimes.safe_paths import walk_tree

log = logging.getLogger(__name__)

_MOST_OPTIONS = 4095
"""The maximum length in bytes of the options that the kernel accepts for a mount."""


def mount_layers(layers: Sequence[Path], directory: Path) -> Path:
    """Mount the layers, lowest first, below a new writable layer in `directory`, and return the mount point."""
    root = directory / "rootfs"
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)  # an image may contain set-user-ID programs, which other users of the machine must not reach
    _overlay(layers, directory / "upper", directory / "work", root)
    return root


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
    try:
        with _without_owners(shown.source, directory / f"lower-{name}", host.nobody) as lower:
            _overlay([lower, shown.directories], upper, work, target)
    except (OSError, RuntimeFailure) as error:
        log.warning("%s cannot be mounted without owners (%s): private files are hidden by name", shown.source, error)
        _overlay([shown.source, shown.hiding], upper, work, target)


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


def _overlay(layers: Sequence[Path], upper: Path, work: Path, target: Path) -> None:
    for directory in (upper, work, target):
        directory.mkdir(parents=True, exist_ok=True)
    shutil.copystat(layers[-1], upper)
    about = layers[-1].stat()
    os.chown(upper, about.st_uid, about.st_gid)
    lower = ":".join(str(layer).replace(":", "\\:") for layer in reversed(layers))
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    if len(options.encode()) > _MOST_OPTIONS:
        raise RuntimeFailure("CreateContainerError", f"the image has too many layers ({len(layers)})")
    try:
        kernel.mount("overlay", target, "overlay", 0, options)
    except OSError as error:
        raise RuntimeFailure(
            "CreateContainerError", f"cannot mount the root file system of the container: {error}"
        ) from None


def unmount_all(directory: Path) -> None:
    """Unmount everything at and below the directory."""
    for path in kernel.mounts_below(directory):
        kernel.unmount(path)


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
