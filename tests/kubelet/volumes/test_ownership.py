import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from sampan.host.linux.directory_trees import opened_position, remove_tree, walk_tree
from sampan.kubelet.volumes.ownership import ON_ROOT_MISMATCH, give_to_group
from tests.kubelet.volumes.volume_manager_node import needs_root


def files(directory: Path) -> Path:
    (directory / "d").mkdir()
    (directory / "d/f").write_text("")
    (directory / "d/f").chmod(0o600)
    (directory / "d").chmod(0o700)
    (directory / "link").symlink_to("d/f")
    return directory


@needs_root
def test_files_and_directories_get_the_group(tmp_path: Path) -> None:
    directory = files(tmp_path)
    give_to_group(directory, 4321, is_read_only=False)
    for name, mode in [("", 0o2770), ("d", 0o2770), ("d/f", 0o660)]:
        stat_result = (directory / name).stat()
        assert (stat_result.st_gid, stat_result.st_mode & mode) == (4321, mode)
    assert os.lstat(directory / "link").st_gid == 4321


@needs_root
def test_read_only_volume_gets_read_only_modes(tmp_path: Path) -> None:
    directory = files(tmp_path)
    give_to_group(directory, 4321, is_read_only=True)
    assert (directory / "d/f").stat().st_mode & 0o777 == 0o640
    assert (directory / "d").stat().st_mode & 0o7777 == 0o2750


@needs_root
def test_on_root_mismatch_checks_only_the_root_directory(tmp_path: Path) -> None:
    directory = files(tmp_path)
    os.chown(directory, -1, 4321)
    directory.chmod(0o2770)
    give_to_group(directory, 4321, is_read_only=False, policy=ON_ROOT_MISMATCH)
    assert (directory / "d/f").stat().st_gid == 0
    directory.chmod(0o770)
    give_to_group(directory, 4321, is_read_only=False, policy=ON_ROOT_MISMATCH)
    assert (directory / "d/f").stat().st_gid == 4321


def test_no_group_leaves_modes_unchanged(tmp_path: Path) -> None:
    directory = files(tmp_path)
    give_to_group(directory, None, is_read_only=False)
    assert (directory / "d").stat().st_mode & 0o777 == 0o700


@needs_root
@pytest.mark.parametrize("name", ["d", "d/f"])
def test_link_swapped_in_during_chmod_does_not_change_a_file_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Another pod that uses the volume replaces a checked path by a link before the mode is changed."""
    secret = tmp_path / "secret"
    secret.write_text("treasure")
    secret.chmod(0o600)
    volume = tmp_path / "volume"
    volume.mkdir()
    directory, change = files(volume), os.chmod
    (directory / "d").chmod(0o777)

    def swap_link_and_chmod(path: Any, mode: int, **options: Any) -> None:
        if not (directory / name).is_symlink():
            (directory / name).rename(directory / "away")
            (directory / name).symlink_to(secret)
        change(path, mode, **options)

    monkeypatch.setattr(os, "chmod", swap_link_and_chmod)
    give_to_group(directory, 4321, is_read_only=False)
    assert (directory / name).is_symlink()
    secret_stat = secret.stat()
    assert (secret_stat.st_gid, secret_stat.st_mode & 0o777) == (0, 0o600)


@needs_root
def test_a_volume_with_very_deep_directories_is_given_to_its_group(tmp_path: Path) -> None:
    directory = tmp_path / "volume"
    deepest = directory
    try:
        for _ in range(1200):
            deepest.mkdir()
            deepest /= "d"
        deepest.mkdir()
        give_to_group(directory, 4321, is_read_only=False)
        assert deepest.stat().st_gid == directory.stat().st_gid == 4321
    finally:
        remove_tree(directory)


@needs_root
def test_files_below_deep_directories_get_the_group(tmp_path: Path) -> None:
    """The paths of all directories together would take 450 MB."""
    top = tmp_path / "volume"
    top.mkdir()
    with opened_position(top) as position:
        for _ in range(3000):
            os.mkdir("d" * 100, dir_fd=position.descriptor)
            position.enter("d" * 100)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=position.descriptor))
    tracemalloc.start()
    give_to_group(top, 4321, is_read_only=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    entries = list(walk_tree(top))
    assert len(entries) == 3001
    assert {entry.status.st_gid for entry in entries} == {4321}
    assert top.stat().st_gid == 4321
    assert peak < 32 << 20
    remove_tree(top)
