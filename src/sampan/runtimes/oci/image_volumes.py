"""Image volumes: the image is mounted below the container's directory, and bind-mounted read-only into the
container."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sampan.runtimes.config import Mount
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.oci import rootfs
from sampan.runtimes.safe_paths import inside

Layers = Callable[[str], Sequence[Path]]
"""A function that returns the layers of the image with that name."""


def mounted(mounts: Sequence[Mount], directory: Path, layers: Layers) -> list[Mount]:
    """Return the mounts, with image volumes replaced by bind mounts of directories below `directory`. Raise
    RuntimeFailure if the subPath does not exist in the image.
    """
    return [
        _mounted(mount, directory / f"volume-{number}", layers) if mount.image else mount
        for number, mount in enumerate(mounts)
    ]


def _mounted(mount: Mount, directory: Path, layers: Layers) -> Mount:
    root = rootfs.mount_layers(layers(mount.image), directory)
    source = inside(root, mount.image_sub_path) if mount.image_sub_path else root
    if not source.exists():
        message = f"image sub path {mount.image_sub_path!r} of {mount.image!r} does not exist"
        raise RuntimeFailure("CreateContainerError", f"failed to mount image volume: {message}")
    return replace(mount, source=source, is_read_only=True, image="", image_sub_path="")
