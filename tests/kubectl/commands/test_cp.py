"""Archives from containers are unpacked below the target only."""

from __future__ import annotations

import io
import tarfile
import tracemalloc
from pathlib import Path
from typing import IO

import pytest

from sampan.kubectl.commands.cp import FileSpec, file_spec, unpack
from sampan.kubectl.errors import KubectlError


def archive(*members: tuple[str, bytes | None, str]) -> IO[bytes]:
    """Return a tar archive of files, or of links where there is no content."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content, link in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, link
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    data.seek(0)
    return data


def test_files_are_unpacked(tmp_path: Path) -> None:
    unpack(archive(("dir/a", b"1", ""), ("dir/b/c", b"2", "")), "/dir", tmp_path / "out", namespace="n", pod="p")
    assert (tmp_path / "out" / "a").read_bytes() == b"1"
    assert (tmp_path / "out" / "b" / "c").read_bytes() == b"2"


@pytest.mark.parametrize("name", ["dir/../../escape", "dir/../../../escape", "/dir/../../escape"])
def test_entries_outside_of_the_target_are_skipped(tmp_path: Path, name: str) -> None:
    unpack(archive((name, b"x", "")), "/dir", tmp_path / "out" / "deep", namespace="n", pod="p")
    assert not list(tmp_path.rglob("escape"))


def test_links_are_skipped_and_not_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    data = archive(("dir/link", None, str(outside)), ("dir/link/escape", b"x", ""))
    unpack(data, "/dir", tmp_path / "out", namespace="n", pod="p")
    assert not list(outside.iterdir())
    assert "warning: skipping symlink" in capsys.readouterr().err


def test_a_link_in_the_target_is_not_followed(tmp_path: Path) -> None:
    outside, target = tmp_path / "outside", tmp_path / "out"
    outside.mkdir()
    target.mkdir()
    (target / "link").symlink_to(outside)
    unpack(archive(("dir/link/escape", b"x", "")), "/dir", target, namespace="n", pod="p")
    assert not list(outside.iterdir())


def test_archive_without_the_requested_path_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(KubectlError, match="tar contents corrupted"):
        unpack(archive(("other/a", b"1", "")), "/dir", tmp_path, namespace="n", pod="p")


def test_file_specs() -> None:
    assert file_spec("a/b") == FileSpec("a/b")
    assert file_spec("pod:/x") == FileSpec("/x", "pod")
    assert file_spec("ns/pod:x") == FileSpec("x", "pod", "ns")
    with pytest.raises(KubectlError):
        file_spec(":x")


def test_a_small_archive_with_a_huge_sparse_file_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("dir/huge")
        info.pax_headers = {
            "GNU.sparse.major": "0",
            "GNU.sparse.minor": "1",
            "GNU.sparse.name": "dir/huge",
            "GNU.sparse.size": str(1 << 35),
            "GNU.sparse.map": f"{(1 << 35) - 1},1",
        }
        info.size = 1
        tar.addfile(info, io.BytesIO(b"x"))
    data.seek(0)
    unpack(data, "/dir", tmp_path / "out", namespace="n", pod="p")
    assert not list(tmp_path.rglob("huge"))
    assert "skipping sparse file" in capsys.readouterr().err


def test_a_large_archive_is_not_held_in_memory(tmp_path: Path) -> None:
    size = 32 << 20
    with (tmp_path / "archive").open("w+b") as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            info = tarfile.TarInfo("dir/file")
            info.size = size
            with open("/dev/zero", "rb") as zeros:
                tar.addfile(info, zeros)
        file.seek(0)
        tracemalloc.start()
        unpack(file, "/dir", tmp_path / "out", namespace="n", pod="p")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert (tmp_path / "out/file").stat().st_size == size
    assert peak < 4 << 20


def test_an_archive_with_a_huge_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    info = tarfile.TarInfo("header")
    info.type, info.size = tarfile.XHDTYPE, 1 << 32
    with pytest.raises(KubectlError, match="tar contents corrupted"):
        unpack(io.BytesIO(info.tobuf() + bytes(1024)), "/dir", tmp_path / "out", namespace="n", pod="p")
