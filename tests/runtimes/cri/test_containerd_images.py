"""Layers of images as containerd reports them, from which Sampan mounts image volumes."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.cri.containerd_images import layers_of


@dataclass(frozen=True)
class SnapshotMount:
    type: str
    source: str = ""
    options: tuple[str, ...] = ()


def test_layers_come_from_overlay_and_bind_mounts() -> None:
    """The first directory of an overlay mount is the uppermost layer."""
    overlay = SnapshotMount("overlay", "overlay", ("index=off", "lowerdir=/s/2/fs:/s/1/fs"))
    assert layers_of([overlay]) == [Path("/s/1/fs"), Path("/s/2/fs")]
    assert layers_of([SnapshotMount("bind", "/s/1/fs", ("ro", "rbind"))]) == [Path("/s/1/fs")]
    with pytest.raises(RuntimeFailure, match="the snapshotter overlayfs"):
        layers_of([SnapshotMount("zfs", "pool/1")])
