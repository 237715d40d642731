import os
from pathlib import Path

from sampan.kubelet.volumes.ownership import ON_ROOT_MISMATCH, give_to_group
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
