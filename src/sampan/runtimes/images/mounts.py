"""Overlay mounts of the layers of images, with a writable layer above them: the root file systems of containers, and
image volumes."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sampan.host.linux.directory_trees import TreeMeter, TreeUsage, remove_tree
from sampan.host.linux.user_namespace import is_in_user_namespace
from sampan.runtimes import kernel
from sampan.runtimes.config import ContainerConfig, Mount
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.images.host import HostDirectory, HostRoot
from sampan.runtimes.safe_paths import resolve_inside

log = logging.getLogger(__name__)

_MAX_OPTIONS_BYTES = 4095
"""The maximum length in bytes of the options that the kernel accepts for a mount."""

Layers = Callable[[str], Sequence[Path]]
"""A function that returns the layers of the image with that name, the lowest first."""


def mount_layers(layers: Sequence[Path], directory: Path) -> Path:
    """Mount the layers, lowest first, below a new writable layer in `directory`, and return the mount point."""
    root = directory / "rootfs"
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)  # an image may contain set-user-ID programs, which other users of the machine must not reach
    mount_overlay(layers, directory / "upper", directory / "work", root)
    return root


def mount_overlay(layers: Sequence[Path], upper: Path, work: Path, target: Path) -> None:
    for directory in (upper, work, target):
        directory.mkdir(parents=True, exist_ok=True)
    shutil.copystat(layers[-1], upper)
    status = layers[-1].stat()
    os.chown(upper, status.st_uid, status.st_gid)
    lower = ":".join(str(layer).replace(":", "\\:") for layer in reversed(layers))
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    if is_in_user_namespace():
        options += ",userxattr"  # the default attributes are those of root of the machine
    if len(options.encode()) > _MAX_OPTIONS_BYTES:
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


def mount_image_volumes(mounts: Sequence[Mount], directory: Path, layers: Layers) -> list[Mount]:
    """Return the mounts, with image volumes replaced by bind mounts of directories below `directory`. Raise
    RuntimeFailure if the subPath does not exist in the image.
    """
    return [
        _mount_image_volume(mount, directory / f"volume-{number}", layers) if mount.image else mount
        for number, mount in enumerate(mounts)
    ]


def _mount_image_volume(mount: Mount, directory: Path, layers: Layers) -> Mount:
    root = mount_layers(layers(mount.image), directory)
    source = resolve_inside(root, mount.image_sub_path) if mount.image_sub_path else root
    if not source.exists():
        message = f"image sub path {mount.image_sub_path!r} of {mount.image!r} does not exist"
        raise RuntimeFailure("CreateContainerError", f"failed to mount image volume: {message}")
    return replace(mount, source=source, is_read_only=True, image="", image_sub_path="")


class EngineImageVolumes:
    """Image volumes for an engine that does not support them: the layers that the engine has unpacked are mounted below
    `directory`, and the containers get bind mounts. The calls block."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def mount(self, uid: str, config: ContainerConfig, layers: Mapping[str, Sequence[Path]]) -> ContainerConfig:
        """Return the container configuration with image volumes replaced by bind mounts. The volumes that were mounted
        for an earlier run of the container are unmounted."""
        directory = self._directory / uid / config.name
        _remove(directory)
        return replace(config, mounts=mount_image_volumes(config.mounts, directory, layers.__getitem__))

    def remove(self, uid: str) -> None:
        """Unmount the image volumes of a pod."""
        _remove(self._directory / uid)


def _remove(directory: Path) -> None:
    if directory.exists():
        unmount_all(directory)
        remove_tree(directory)


def mount_host(host: HostRoot, directory: Path) -> Path:
    """Mount the host image, whose directories are separate overlay mounts of the machine's directories."""
    root = mount_layers([host.base], directory)
    for shown in host.shown:
        _mount_host_directory(host, shown, directory, root)
    return root


def _mount_host_directory(host: HostRoot, shown: HostDirectory, directory: Path, root: Path) -> None:
    """Mount a directory of the machine, of which the container sees only the world-readable files. The layer above it
    contains nothing but directories owned by root, so that the container can create files in them."""
    name = shown.target.strip("/")
    upper, work, target = directory / f"upper-{name}", directory / f"work-{name}", root / name
    if is_in_user_namespace():  # there, private files belong to other users already
        mount_overlay([shown.source, shown.directories_layer], upper, work, target)
        return
    try:
        with _mount_without_owners(shown.source, directory / f"lower-{name}", host.nobody) as lower:
            mount_overlay([lower, shown.directories_layer], upper, work, target)
    except (OSError, RuntimeFailure) as error:
        log.warning("cannot mount %s without file owners: %s; hiding private files instead", shown.source, error)
        mount_overlay([shown.source, shown.hiding_layer], upper, work, target)


@contextmanager
def _mount_without_owners(source: Path, place: Path, namespace: kernel.UserNamespace) -> Iterator[Path]:
    """Mount `source` without owners for the duration of the block. An overlay mount made from it keeps working after it
    is unmounted."""
    place.mkdir(exist_ok=True)
    try:
        kernel.bind_without_owners(source, place, namespace)
        yield place
    finally:
        kernel.unmount(place)
        place.rmdir()


def measure_writable_layers(directory: Path, meter: TreeMeter) -> TreeUsage:
    """Return the usage of the container's writable layers."""
    usages = [meter.measure(upper) for upper in directory.glob("upper*")]
    return TreeUsage(sum(usage.size for usage in usages), sum(usage.inodes for usage in usages))
