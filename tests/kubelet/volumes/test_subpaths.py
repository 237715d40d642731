import errno
import os
from pathlib import Path
from typing import Any

import pytest

from sampan.host.linux import directory_descriptors
from sampan.kubelet.volumes import subpaths
from sampan.kubelet.volumes.mounter import Mounter
from sampan.runtimes import safe_paths
from sampan.runtimes.safe_paths import UnsafePath
from tests.kubelet.volumes.volume_manager_node import needs_root

PLAIN = Mounter(can_mount=False)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    path = tmp_path / "volume"
    (path / "dir/sub").mkdir(parents=True)
    (path / "dir/file").write_text("inside")
    (tmp_path / "secret").write_text("outside")
    return path


@needs_root
def test_a_directory_and_a_file_are_bound(volume: Path, tmp_path: Path) -> None:
    mounter = Mounter()
    for index, (subpath, check) in enumerate([("dir", "file"), ("dir/file", "")]):
        target = tmp_path / f"pod/volume-subpaths/v/c/{index}"
        assert subpaths.bind(mounter, volume, subpath, target) == target
        assert (target / check if check else target).read_text() == "inside"
        assert subpaths.bind(mounter, volume, subpath, target) == target
    subpaths.clean(mounter, tmp_path / "pod/volume-subpaths")
    assert not (tmp_path / "pod/volume-subpaths").exists()
    assert (volume / "dir/file").read_text() == "inside"


@needs_root
def test_replaced_directory_is_bound_again(volume: Path, tmp_path: Path) -> None:
    mounter, target = Mounter(), tmp_path / "pod/t"
    subpaths.bind(mounter, volume, "dir", target)
    (volume / "dir").rename(volume / "old")
    (volume / "dir").mkdir()
    (volume / "dir/file").write_text("new")
    subpaths.bind(mounter, volume, "dir", target)
    assert (target / "file").read_text() == "new"
    subpaths.clean(mounter, tmp_path / "pod")


@pytest.mark.parametrize("link", ["/etc", "../secret", "../../..", "dir/sub/../../../secret"])
def test_links_out_of_the_volume_are_rejected(volume: Path, tmp_path: Path, link: str) -> None:
    (volume / "link").symlink_to(link)
    with pytest.raises((UnsafePath, FileNotFoundError)):
        subpaths.bind(PLAIN, volume, "link", tmp_path / "t")
    with pytest.raises((UnsafePath, OSError)):
        subpaths.ensure_exists(volume, "link/new")
    assert not (tmp_path / "new").exists()


def test_links_within_the_volume_are_followed(volume: Path, tmp_path: Path) -> None:
    (volume / "link").symlink_to("dir/sub")
    assert subpaths.bind(PLAIN, volume, "link", tmp_path / "t") == volume / "dir/sub"


def test_link_swapped_in_after_resolution_is_not_bound(
    volume: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An attacker replaces the directory by a link after its path was resolved."""
    openat2 = directory_descriptors.openat2

    def resolve_and_tamper(directory: int, path: str, flags: int, resolve: int) -> int:
        descriptor = openat2(directory, path, flags, resolve)
        if path == "dir":
            (volume / "dir").rename(volume / "away")
            (volume / "dir").symlink_to(tmp_path)
        return descriptor

    monkeypatch.setattr(safe_paths, "openat2", resolve_and_tamper)
    assert subpaths.bind(PLAIN, volume, "dir", tmp_path / "t") == volume / "away"
    monkeypatch.undo()
    with pytest.raises(UnsafePath):
        subpaths.bind(PLAIN, volume, "dir", tmp_path / "t")


@pytest.mark.parametrize("link", ["../{}", "{absolute}", "dir/../../{}"])
def test_the_error_of_a_link_does_not_disclose_whether_its_target_exists(
    volume: Path, tmp_path: Path, link: str
) -> None:
    errors = []
    for name in ("secret", "missing"):
        (volume / "link").symlink_to(link.format(name, absolute=tmp_path / name))
        with pytest.raises(UnsafePath) as error:
            subpaths.ensure_exists(volume, "link")
        errors.append(str(error.value))
        with pytest.raises(UnsafePath):
            subpaths.ensure_exists(volume, "link/below")
        (volume / "link").unlink()
    assert errors[0] == errors[1]
    assert sorted(os.listdir(tmp_path)) == ["secret", "volume"]


def test_a_link_to_nothing_in_the_volume_is_refused(volume: Path) -> None:
    (volume / "link").symlink_to("nothing")
    with pytest.raises(FileExistsError):
        subpaths.ensure_exists(volume, "link")


def test_created_directories_get_the_mode_of_the_volume(volume: Path) -> None:
    volume.chmod(0o2770)
    subpaths.ensure_exists(volume, "dir/new/deep")
    assert (volume / "dir/new/deep").stat().st_mode & 0o7777 == 0o2770
    assert (volume / "dir/new").stat().st_mode & 0o7777 == 0o2770


class Descriptors:
    """Records of open descriptors; a descriptor that is closed twice or not opened here is wrong."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held: set[int] = set()
        self.wrong: list[int] = []
        opens, dups, closes = os.open, os.dup, os.close

        def record_open(*args: Any, **options: Any) -> int:
            self.held.add(descriptor := opens(*args, **options))
            return descriptor

        def record_dup(descriptor: int) -> int:
            self.held.add(copy := dups(descriptor))
            return copy

        def record_close(descriptor: int) -> None:
            if descriptor not in self.held:
                self.wrong.append(descriptor)
                return
            self.held.remove(descriptor)
            closes(descriptor)

        openat2 = directory_descriptors.openat2

        def record_openat2(*args: Any) -> int:
            self.held.add(descriptor := openat2(*args))
            return descriptor

        monkeypatch.setattr(safe_paths, "openat2", record_openat2)
        monkeypatch.setattr(os, "open", record_open)
        monkeypatch.setattr(os, "dup", record_dup)
        monkeypatch.setattr(os, "close", record_close)


@pytest.mark.parametrize("subpath", ["a" * 300, "new/" + "a" * 300, "dir/file/below", "a/b/c", "dir/sub"])
def test_failed_subpath_creation_closes_only_its_own_descriptors(
    volume: Path, monkeypatch: pytest.MonkeyPatch, subpath: str
) -> None:
    descriptors = Descriptors(monkeypatch)
    try:
        subpaths.ensure_exists(volume, subpath)
    except OSError as error:
        assert error.errno in (errno.ENAMETOOLONG, errno.ENOTDIR)  # noqa: PT017
    assert (descriptors.held, descriptors.wrong) == (set(), [])


def test_a_subpath_of_many_levels_holds_few_descriptors(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptors, most = Descriptors(monkeypatch), 0
    mkdir = os.mkdir

    def count_and_mkdir(*args: Any, **options: Any) -> None:
        nonlocal most
        most = max(most, len(descriptors.held))
        mkdir(*args, **options)

    monkeypatch.setattr(os, "mkdir", count_and_mkdir)
    subpaths.ensure_exists(volume, "a/" * 200)
    assert most <= 3
