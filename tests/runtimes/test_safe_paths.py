"""Access to files in untrusted directories, with and without openat2."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.runtimes import safe_paths
from sampan.runtimes.safe_paths import RootDirectory, UnsafePath, open_file, opened_root, read_file, resolve_inside


@pytest.fixture(params=["openat2", "without openat2"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RootDirectory]:
    def raise_not_implemented(directory: int, path: str, flags: int, resolve: int = 0) -> int:
        raise OSError(38, "Function not implemented")

    if request.param == "without openat2":
        monkeypatch.setattr(safe_paths, "openat2", raise_not_implemented)
    (tmp_path / "secret").write_text("outside")
    place = tmp_path / "root"
    (place / "etc").mkdir(parents=True)
    (place / "etc/file").write_text("inside")
    with opened_root(place) as opened:
        yield opened
    assert open_descriptors_under(tmp_path) == [], "no descriptor is left open"


def open_descriptors_under(directory: Path) -> list[str]:
    """Return the files below `directory` that this process has open. Other descriptors belong to the test runner."""
    targets = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            targets.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [target for target in targets if target.startswith(f"{directory}/")]


@pytest.mark.parametrize(
    "target", ["/etc/file", "//etc/file", "file", "../etc/file", "../../../../etc/file", "../etc/../etc/./file"]
)
def test_links_are_followed_within_the_root(root: RootDirectory, tmp_path: Path, target: str) -> None:
    (tmp_path / "root/etc/link").symlink_to(target)
    assert root.read("etc/link", 100) == b"inside"
    assert root.read("/etc/../../etc/link", 100) == b"inside"


@pytest.mark.parametrize("target", ["../secret", "../../secret", "/secret", "/proc/self/root/etc/passwd"])
def test_no_link_leads_out_of_the_root(root: RootDirectory, tmp_path: Path, target: str) -> None:
    (tmp_path / "root/etc/link").symlink_to(target)
    (tmp_path / "root/etc/absolute").symlink_to(tmp_path / "secret")
    for name in ("etc/link", "etc/absolute", "../secret", f"{tmp_path}/secret", "etc/../../secret"):
        with pytest.raises(FileNotFoundError):
            root.read(name, 100)


@pytest.mark.parametrize("target", ["/etc/file", "../../secret", "../etc/../../root/etc/file"])
def test_a_strict_root_refuses_links_that_lead_out_of_it(root: RootDirectory, tmp_path: Path, target: str) -> None:
    (tmp_path / "root/etc/link").symlink_to(target)
    (tmp_path / "root/etc/good").symlink_to("../etc/./file")
    strict = RootDirectory(root.fileno(), is_strict=True)
    with pytest.raises(UnsafePath, match="leads out of the directory"):
        strict.read("etc/link", 100)
    with pytest.raises(UnsafePath, match="leads out of the directory"):
        strict.read("../root/etc/file", 100)
    assert strict.read("etc/good", 100) == strict.read("/etc/file", 100) == b"inside"


@pytest.mark.parametrize("kind", ["pipe", "socket", "directory", "device", "large", "circle"])
def test_only_regular_files_of_bounded_size_are_read(root: RootDirectory, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "root/odd"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as link:
            link.bind(str(path))
    elif kind == "directory":
        path.mkdir()
    elif kind == "device":
        if os.geteuid() != 0:
            pytest.skip("only root can make devices")
        os.mknod(path, 0o20600, os.makedev(10, 130))
    elif kind == "large":
        path.write_bytes(bytes(101))
    else:
        path.symlink_to("odd")
    with pytest.raises(UnsafePath):
        root.read("odd", 100)
    if kind != "circle":
        with pytest.raises(UnsafePath):
            read_file(path, 100)


def test_open_file_rejects_symbolic_links(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    with open_file(tmp_path / "file") as file:
        assert file.read() == b"x"
    with pytest.raises(UnsafePath, match="symbolic link"):
        open_file(tmp_path / "link")


def test_directories_behind_a_link_are_created_inside_the_root(root: RootDirectory, tmp_path: Path) -> None:
    (tmp_path / "root/out").symlink_to(tmp_path / "made")
    os.close(root.directory(["out", "deep"], mode=0o750))
    assert not (tmp_path / "made").exists()
    path = tmp_path / "root" / str(tmp_path / "made").lstrip("/") / "deep"
    assert path.stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("path", ["/etc/file", "//etc/file", "etc//file", "/../etc/file"])
def test_inside_treats_absolute_paths_as_relative_to_the_root(tmp_path: Path, path: str) -> None:
    assert resolve_inside(tmp_path, path) == tmp_path / "etc/file"
