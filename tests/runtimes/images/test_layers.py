"""Unpacking of layers."""

import gzip
import os
import stat
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.runtimes.images.layers import LayerStore, diff_id_of, zstd_module
from sampan.runtimes.images.manifests import BadImage
from tests.runtimes.images.builders import Files, digest, hard_link, layer

IS_ROOT = os.geteuid() == 0


def unpack_files(directory: Path, files: Files, pack: object = bytes) -> Path:
    data = layer(files)
    blob = directory / "blob"
    blob.write_bytes(pack(data))  # type: ignore[operator]
    return unpack(directory, digest(data))


def unpack(directory: Path, diff_id: str) -> Path:
    blob = directory / "blob"
    return LayerStore(directory / "layers").unpack(blob, diff_id, blob_digest=digest(blob.read_bytes()))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd_module().compress], ids=["tar", "gzip", "zstd"])
def test_files_links_modes_and_times_are_unpacked(tmp_path: Path, pack: object) -> None:
    files = {"etc": None, "etc/motd": b"hello", "bin": "usr/bin", "usr/bin/tool": b"#!"}
    root = unpack_files(tmp_path, {**files, "also": hard_link("also", "etc/motd")}, pack)
    assert (root / "etc/motd").read_bytes() == b"hello"
    assert os.readlink(root / "bin") == "usr/bin"
    assert (root / "also").stat().st_ino == (root / "etc/motd").stat().st_ino
    assert stat.S_IMODE((root / "usr/bin/tool").stat().st_mode) == 0o755
    assert (root / "etc").stat().st_mtime == 1_700_000_000


def test_links_are_resolved_inside_the_layer(tmp_path: Path) -> None:
    """A link to a path outside leads to the same path inside the layer."""
    outside = tmp_path / "outside"
    outside.mkdir()
    root = unpack_files(tmp_path, {"out": str(outside), "out/file": b"x", "up": "../../..", "up/file": b"y"})
    assert list(outside.iterdir()) == []
    assert (root / str(outside).lstrip("/") / "file").read_bytes() == b"x"
    assert (root / "file").read_bytes() == b"y"


def test_absolute_names_are_unpacked_inside_the_layer(tmp_path: Path) -> None:
    assert (unpack_files(tmp_path, {"/etc/passwd-of-layer": b"x"}) / "etc/passwd-of-layer").read_bytes() == b"x"


@pytest.mark.parametrize(
    "files",
    [
        {"../evil": b"x"},
        {"a/../../evil": b"x"},
        {"link": hard_link("link", "/no/such/file")},
        {"a": b"x", "a/b": b"y"},
        {"a": "b", "b": "a", "a/x": b"1"},
        {".wh.": b""},
        {"d/.wh...": b""},
    ],
)
def test_invalid_entries_are_rejected(tmp_path: Path, files: Files) -> None:
    with pytest.raises(BadImage):
        unpack_files(tmp_path, files)
    assert [path for path in (tmp_path / "layers").iterdir() if path.is_dir()] == []
    assert not (tmp_path.parent / "evil").exists()


def test_hard_link_to_a_file_outside_the_layer_is_rejected(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"private")
    with pytest.raises(BadImage):
        unpack_files(tmp_path, {"link": hard_link("link", f"../../{secret.name}")})
    with pytest.raises(BadImage):
        unpack_files(tmp_path, {"link": hard_link("link", str(secret))})


def test_whiteouts(tmp_path: Path) -> None:
    data = layer({"etc/.wh.motd": b"", "var/.wh..wh..opq": b"", "var/new": b"x"})
    (tmp_path / "blob").write_bytes(data)
    store = LayerStore(tmp_path / "layers")
    root = store.unpack(tmp_path / "blob", digest(data), blob_digest=digest(data))
    whiteouts = store.whiteouts(digest(data))
    assert (whiteouts.removed, whiteouts.opaque) == (["etc/motd"], ["var"])
    if IS_ROOT:
        status = (root / "etc/motd").lstat()
        assert stat.S_ISCHR(status.st_mode)
        assert status.st_rdev == 0
        assert os.getxattr(root / "var", "trusted.overlay.opaque") == b"y"


def test_later_entries_replace_earlier_entries(tmp_path: Path) -> None:
    root = unpack_files(tmp_path, {"a": b"1", "./a": None, "a/b": b"3", "c": None, "c/d": b"4", "./c": b"5"})
    assert (root / "a/b").read_bytes() == b"3"
    assert (root / "c").read_bytes() == b"5"


def test_layer_with_another_diff_id_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(layer({"a": b"1"}))
    with pytest.raises(BadImage, match="unpacks to"):
        unpack(tmp_path, digest(b"other"))


@pytest.mark.parametrize(
    "data",
    [b"", b"no archive at all", gzip.compress(b"junk" * 500), layer({"a": b"1" * 5000})[:3000]],
    ids=["empty", "text", "gzip", "truncated"],
)
def test_invalid_archives_are_rejected(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "blob").write_bytes(data)
    try:
        unpack(tmp_path, diff_id_of(tmp_path / "blob"))
    except BadImage:
        return
    assert data == b"", "an empty archive is an empty layer"


names = st.text(alphabet="ab./", min_size=1, max_size=8)
contents = st.one_of(st.binary(max_size=3), st.none(), names, st.just("/"), st.just(".."))


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(names, contents, max_size=8))
def test_unpacking_never_writes_outside_the_layer(tmp_path_factory: pytest.TempPathFactory, files: Files) -> None:
    directory = tmp_path_factory.mktemp("layer")
    canary = directory / "canary"
    canary.mkdir()
    with suppress(BadImage):
        unpack_files(directory, files)
    assert list(canary.iterdir()) == []
    assert {path.name for path in directory.iterdir()} <= {"blob", "layers", "canary"}


@pytest.mark.skipif(not IS_ROOT, reason="only root can change the owner of files")
def test_owners_and_setuid_bits_are_kept(tmp_path: Path) -> None:
    member = tarfile.TarInfo("su")
    member.uid, member.gid, member.mode = 12, 34, 0o4755
    status = (unpack_files(tmp_path, {"su": member}) / "su").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12, 34, 0o4755)
