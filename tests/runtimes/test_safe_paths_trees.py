"""Folders that are deeper than anything recursive can go."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.kubelet.volumes.usage import disk_usage
from sampan.runtimes.images.mounts import written_bytes
from sampan.runtimes.safe_paths import remove_tree, walk_tree

_DEPTH = 1500


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """As a pod may leave its volume. The last part has a path that no call takes."""
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


def test_deep_directories_are_walked_as_far_as_paths_go(deep: Path) -> None:
    assert 100 < len(list(walk_tree(deep))) <= _DEPTH


def test_deep_directories_are_measured(deep: Path) -> None:
    assert disk_usage(deep)[1] > 100
    assert written_bytes(deep.parent)[1] > 100


def test_a_tree_of_short_names_is_measured_to_its_end(tmp_path: Path) -> None:
    depth, place = 1200, tmp_path / "upper"
    place.mkdir()
    for _ in range(depth):
        place = place / "d"
        os.mkdir(place)
    assert disk_usage(tmp_path / "upper")[1] == depth + 1
    remove_tree(tmp_path / "upper")
    assert not (tmp_path / "upper").exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "outside")
    assert [entry.name for entry in walk_tree(tmp_path / "tree")] == ["link"]
    remove_tree(tmp_path / "tree")
    assert (tmp_path / "outside" / "kept").exists()


def test_what_is_not_there_need_not_be_removed(tmp_path: Path) -> None:
    remove_tree(tmp_path / "nothing")
