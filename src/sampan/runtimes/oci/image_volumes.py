"""Images as volumes: their files are mounted beside the container's own, and bound read-only where it wants them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sampan.runtimes.config import Mount
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.oci import rootfs
from sampan.runtimes.safe_paths import inside

Layers = Callable[[str], Sequence[Path]]
"""Of an image, by its name."""


def mounted(mounts: Sequence[Mount], folder: Path, layers: Layers) -> list[Mount]:
    """The mounts, those of images as binds of folders below `folder`. RuntimeFailure."""
    return [
        _mounted(mount, folder / f"volume-{number}", layers) if mount.image else mount
        for number, mount in enumerate(mounts)
    ]


def _mounted(mount: Mount, folder: Path, layers: Layers) -> Mount:
    root = rootfs.mount_layers(layers(mount.image), folder)
    source = inside(root, mount.image_sub_path) if mount.image_sub_path else root
    if not source.exists():
        told = f"image sub path {mount.image_sub_path!r} of {mount.image!r} does not exist"
        raise RuntimeFailure("CreateContainerError", f"failed to mount image volume: {told}")
    return replace(mount, source=source, is_read_only=True, image="", image_sub_path="")


__all__ = ["Layers", "mounted"]
