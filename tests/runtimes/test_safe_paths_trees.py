"""Directories that are deeper than recursive functions can go."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.kubelet.volumes.usage import disk_usage
from sampan.runtimes.images.mounts import measure_writable_layers
from sampan.runtimes.safe_paths import remove_tree, walk_tree

_DEPTH = 1500


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """Create a tree as a pod may leave it in its volume. Its deepest paths are too long for system calls."""
    top = tmp_path / "upper"
    top.mkdir()
    here = os.open(top, os.O_PATH)
    for _ in range(_DEPTH):
        os.mkdir("deeper", dir_fd=here)
        below = os.open("deeper", os.O_PATH, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    yield top
    remove_tree(top)


def test_walk_tree_of_deep_directories_stops_at_the_path_limit(deep: Path) -> None:
    assert 100 < len(list(walk_tree(deep))) <= _DEPTH


def test_disk_usage_of_deep_directories_is_measured(deep: Path) -> None:
    assert disk_usage(deep)[1] > 100
    assert measure_writable_layers(deep.parent)[1] > 100


def test_disk_usage_of_1200_nested_directories_is_complete(tmp_path: Path) -> None:
    depth, place = 1200, tmp_path / "upper"
    place.mkdir()
    for _ in range(depth):
        place = place / "d"
        os.mkdir(place)
    assert disk_usage(tmp_path / "upper")[1] == depth + 1
    remove_tree(tmp_path / "upper")
    assert not (tmp_path / "upper").exists()


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "outside")
    assert [entry.name for entry in walk_tree(tmp_path / "tree")] == ["link"]
    remove_tree(tmp_path / "tree")
    assert (tmp_path / "outside" / "kept").exists()


def test_remove_tree_ignores_a_missing_directory(tmp_path: Path) -> None:
    remove_tree(tmp_path / "nothing")
