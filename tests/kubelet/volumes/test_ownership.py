import os
from pathlib import Path
from typing import Any

import pytest

from sampan.kubelet.volumes.ownership import ON_ROOT_MISMATCH, give_to_group
from sampan.runtimes import trees
from tests.kubelet.volumes.made import needs_root


def files(folder: Path) -> Path:
    (folder / "d").mkdir()
    (folder / "d/f").write_text("")
    (folder / "d/f").chmod(0o600)
    (folder / "d").chmod(0o700)
    (folder / "link").symlink_to("d/f")
    return folder


@needs_root
def test_files_and_folders_are_the_groups(tmp_path: Path) -> None:
    folder = files(tmp_path)
    give_to_group(folder, 4321, is_read_only=False)
    for name, mode in [("", 0o2770), ("d", 0o2770), ("d/f", 0o660)]:
        found = (folder / name).stat()
        assert (found.st_gid, found.st_mode & mode) == (4321, mode)
    assert os.lstat(folder / "link").st_gid == 4321


@needs_root
def test_read_only(tmp_path: Path) -> None:
    folder = files(tmp_path)
    give_to_group(folder, 4321, is_read_only=True)
    assert (folder / "d/f").stat().st_mode & 0o777 == 0o640
    assert (folder / "d").stat().st_mode & 0o7777 == 0o2750


@needs_root
def test_the_policy_looks_at_the_folder_alone(tmp_path: Path) -> None:
    folder = files(tmp_path)
    os.chown(folder, -1, 4321)
    folder.chmod(0o2770)
    give_to_group(folder, 4321, is_read_only=False, policy=ON_ROOT_MISMATCH)
    assert (folder / "d/f").stat().st_gid == 0
    folder.chmod(0o770)
    give_to_group(folder, 4321, is_read_only=False, policy=ON_ROOT_MISMATCH)
    assert (folder / "d/f").stat().st_gid == 4321


def test_without_a_group_nothing_happens(tmp_path: Path) -> None:
    folder = files(tmp_path)
    give_to_group(folder, None, is_read_only=False)
    assert (folder / "d").stat().st_mode & 0o777 == 0o700


@needs_root
@pytest.mark.parametrize("name", ["d", "d/f"])
def test_a_link_that_comes_between_does_not_open_a_file_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Another pod that uses the volume swaps what was looked at for a link, before the mode is changed."""
    secret = tmp_path / "secret"
    secret.write_text("treasure")
    secret.chmod(0o600)
    volume = tmp_path / "volume"
    volume.mkdir()
    folder, change = files(volume), os.chmod
    (folder / "d").chmod(0o777)

    def swapped(path: Any, mode: int, **options: Any) -> None:
        if not (folder / name).is_symlink():
            (folder / name).rename(folder / "away")
            (folder / name).symlink_to(secret)
        change(path, mode, **options)

    monkeypatch.setattr(os, "chmod", swapped)
    give_to_group(folder, 4321, is_read_only=False)
    assert (folder / name).is_symlink()
    about = secret.stat()
    assert (about.st_gid, about.st_mode & 0o777) == (0, 0o600)


@needs_root
def test_a_volume_with_very_deep_directories_is_given_to_its_group(tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    place = folder
    try:
        for _ in range(1200):
            place.mkdir()
            place /= "d"
        place.mkdir()
        give_to_group(folder, 4321, is_read_only=False)
        assert place.stat().st_gid == folder.stat().st_gid == 4321
    finally:
        trees.remove_tree(folder)
