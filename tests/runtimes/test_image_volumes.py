"""The layers of images, as engines report them, for engines whose image volumes Sampan mounts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.cri.containerd_images import layers_of
from sampan.runtimes.docker import conversions
from sampan.runtimes.engine import version_of


@dataclass(frozen=True)
class SnapshotMount:
    type: str
    source: str = ""
    options: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("text", "version"),
    [("1.6.20~ds1", (1, 6)), ("v2.1.0", (2, 1)), ("28.0.1", (28, 0)), ("20.10.24+dfsg1", (20, 10)), ("dev", (0, 0))],
)
def test_version_of_an_engine(text: str, version: tuple[int, int]) -> None:
    assert version_of(text) == version


def test_layers_of_containerd() -> None:
    """The first directory of an overlay mount is the uppermost one."""
    overlay = SnapshotMount("overlay", "overlay", ("index=off", "lowerdir=/s/2/fs:/s/1/fs"))
    assert layers_of([overlay]) == [Path("/s/1/fs"), Path("/s/2/fs")]
    assert layers_of([SnapshotMount("bind", "/s/1/fs", ("ro", "rbind"))]) == [Path("/s/1/fs")]
    with pytest.raises(RuntimeFailure, match="the snapshotter overlayfs"):
        layers_of([SnapshotMount("zfs", "pool/1")])


def test_layers_of_docker() -> None:
    data = {"UpperDir": "/o/3/diff", "LowerDir": "/o/2/diff:/o/1/diff"}
    assert _docker_layers("overlay2", data) == [Path("/o/1/diff"), Path("/o/2/diff"), Path("/o/3/diff")]
    assert _docker_layers("overlay2", {"UpperDir": "/o/1/diff"}) == [Path("/o/1/diff")]
    with pytest.raises(RuntimeFailure, match="the storage driver overlay2"):
        _docker_layers("btrfs", {})


def _docker_layers(driver: str, data: dict[str, str]) -> Any:
    return conversions.layers({"GraphDriver": {"Name": driver, "Data": data}})
