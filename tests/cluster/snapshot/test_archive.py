"""Snapshot archives: a round trip, and rejection of malformed archives."""

import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sampan.api import limits
from sampan.cluster.snapshot import SnapshotError, SnapshotManifest, archive, read_archive, read_manifest, write_archive
from sampan.cluster.snapshot.archive import count_skipped
from sampan.host.linux.directory_trees import opened_position, remove_tree, walk_tree

MANIFEST = SnapshotManifest(format=1, cluster="web", objects=3)
BLOB = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""The SHA-256 digest of empty content."""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A data directory with a file of each kind."""
    directory = tmp_path / "web"
    for path, content in {
        "state.db": b"objects",
        "flags.json": b"{}",
        "pki/ca.key": b"secret",
        "images/images.json": b"{}",
        f"images/blobs/sha256/{BLOB}": b"",
        "volumes/pvc_ns_data/sub/file": b"data",
        "nodes/node-0/pod-file": b"not in the snapshot",
        "sampan.log": b"not in the snapshot",
    }.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(content)
    (directory / "volumes/pvc_ns_data/sub/file").chmod(0o4750)
    (directory / "volumes/pvc_ns_data/sub").chmod(0o2550)
    os.symlink("/etc/passwd", directory / "volumes/pvc_ns_data/link")
    os.mkfifo(directory / "volumes/pvc_ns_data/pipe")
    return directory


def archive_of(cluster: Path) -> bytes:
    stream = io.BytesIO()
    write_archive(stream, MANIFEST, store=cluster / "state.db", directory=cluster)
    return stream.getvalue()


def read(content: bytes, target: Path, max_bytes: int = 1 << 20) -> SnapshotManifest:
    target.mkdir()
    return read_archive(io.BytesIO(content), target, max_bytes=max_bytes)


def test_archive_round_trip(cluster: Path, tmp_path: Path) -> None:
    assert count_skipped(cluster / "volumes") == 2
    content, target = archive_of(cluster), tmp_path / "new"
    assert read_manifest(io.BytesIO(content)) == read(content, target) == MANIFEST
    files = {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}
    assert files == {
        "state.db": b"objects",
        "flags.json": b"{}",
        "pki/ca.key": b"secret",
        "images/images.json": b"{}",
        f"images/blobs/sha256/{BLOB}": b"",
        "volumes/pvc_ns_data/sub/file": b"data",
    }
    assert stat.S_IMODE((target / "pki/ca.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((target / "volumes/pvc_ns_data/sub/file").stat().st_mode) == 0o750
    assert stat.S_IMODE((target / "volumes/pvc_ns_data/sub").stat().st_mode) == 0o2550


def test_file_that_shrinks_while_it_is_archived_is_padded(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cluster / "images/blobs/sha256" / BLOB).unlink()
    fstat = os.fstat
    monkeypatch.setattr(os, "fstat", lambda file: _with_larger_size(fstat(file)))
    content = archive_of(cluster)
    monkeypatch.undo()
    read(content, tmp_path / "new")
    assert (tmp_path / "new/volumes/pvc_ns_data/sub/file").read_bytes() == b"data\0\0\0"


@pytest.fixture
def hostile_volume(cluster: Path) -> Iterator[Path]:
    """A volume with a tree that is too deep for paths and for recursion, beside ordinary files."""
    volume = cluster / "volumes/pvc_ns_data"
    with opened_position(volume) as position:
        for _ in range(1500):
            os.mkdir("deep", dir_fd=position.descriptor)
            position.enter("deep")
            os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=position.descriptor))
    yield volume
    remove_tree(volume)


def test_a_directory_that_is_too_deep_is_cut_off_and_counted(hostile_volume: Path, tmp_path: Path) -> None:
    """One pod must not prevent the snapshot of a cluster, nor its restoration."""
    cluster, target = hostile_volume.parent.parent, tmp_path / "new"
    assert count_skipped(cluster / "volumes") == 2 + 2
    content = archive_of(cluster)
    assert read(content, target) == MANIFEST
    copy = target / "volumes/pvc_ns_data"
    assert (copy / "sub/file").read_bytes() == b"data"
    depth = limits.IMAGE_PATH_DEPTH - 3
    assert copy.joinpath(*["deep"] * depth, "file").exists()
    assert len([entry for entry in walk_tree(copy) if entry.name == "deep"]) in (depth, depth + 1)


def test_long_paths_are_left_out_and_counted(cluster: Path, tmp_path: Path) -> None:
    volume = cluster / "volumes/pvc_ns_data"
    with opened_position(volume) as position:
        for _ in range(20):
            os.mkdir("\u20ac" * 80, dir_fd=position.descriptor)
            position.enter("\u20ac" * 80)
    assert count_skipped(cluster / "volumes") == 2 + 1
    read(archive_of(cluster), tmp_path / "new")
    remove_tree(volume)
    remove_tree(tmp_path / "new")


def test_more_entries_than_a_reader_accepts_are_left_out_and_counted(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        (cluster / f"volumes/pvc_ns_data/{number}").touch()
    monkeypatch.setattr(archive, "MAX_VOLUME_ENTRIES", 20)
    assert count_skipped(cluster / "volumes") >= 15
    read(archive_of(cluster), tmp_path / "new")


def _with_larger_size(result: os.stat_result) -> os.stat_result:
    values = list(result)
    values[stat.ST_SIZE] += 3
    return os.stat_result(values)


def rebuild(content: bytes, change: Callable[[tarfile.TarInfo, bytes], object]) -> bytes:
    """Return a copy of the archive. `change` may alter an entry; the entry is dropped if `change` returns False."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(content)) as old, tarfile.open(fileobj=out, mode="w") as new:
        for info in old:
            data = old.extractfile(info)
            body = data.read() if data is not None else b""
            if change(info, body) is not False:
                new.addfile(info, io.BytesIO(body))
    return out.getvalue()


def add_entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> Callable[[bytes], bytes]:
    """Return a function that adds an entry before the checksums of an archive."""

    def change(content: bytes) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=io.BytesIO(content)) as old, tarfile.open(fileobj=out, mode="w") as new:
            for info in old:
                if info.name == "checksums.json":
                    extra = tarfile.TarInfo(name)
                    extra.type, extra.linkname = kind, link
                    new.addfile(extra)
                new.addfile(info, old.extractfile(info))
        return out.getvalue()

    return change


def remove_entry(name: str) -> Callable[[bytes], bytes]:
    return lambda content: rebuild(content, lambda info, _: info.name != name)


def rename_entry(old: str, new: str) -> Callable[[bytes], bytes]:
    def change(info: tarfile.TarInfo, _: bytes) -> None:
        info.name = new if info.name == old else info.name

    return lambda content: rebuild(content, change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (add_entry("../evil"), "'../evil' does not belong in a snapshot"),
        (add_entry("/etc/evil"), "'/etc/evil' does not belong in a snapshot"),
        (add_entry("volumes/../evil"), "'volumes/../evil' does not belong in a snapshot"),
        (add_entry("volumes/a/../../../evil"), "does not belong in a snapshot"),
        (add_entry("volumes"), "'volumes' does not belong in a snapshot"),
        (add_entry("pki/../evil"), "does not belong in a snapshot"),
        (add_entry("nodes/node-0/evil"), "does not belong in a snapshot"),
        (add_entry("lock"), "does not belong in a snapshot"),
        (add_entry("volumes/a", tarfile.SYMTYPE, "/etc"), "'volumes/a' does not belong in a snapshot"),
        (add_entry("volumes/a", tarfile.LNKTYPE, "state.db"), "'volumes/a' does not belong in a snapshot"),
        (add_entry("volumes/a", tarfile.CHRTYPE), "'volumes/a' does not belong in a snapshot"),
        (add_entry("volumes/a", tarfile.FIFOTYPE), "'volumes/a' does not belong in a snapshot"),
        (add_entry("pki", tarfile.DIRTYPE), "'pki/' does not belong in a snapshot"),
        (add_entry("flags.json"), "'flags.json' is in the snapshot twice"),
        (add_entry("volumes/pvc_ns_data", tarfile.DIRTYPE), "is in the snapshot twice"),
        (add_entry("volumes/new"), "checksums.json does not match its entry 'volumes/new'"),
        (add_entry("volumes/x/" + "y/" * 300 + "z"), "levels"),
        (add_entry("volumes/" + "y" * 300), "cannot be created: File name too long"),
        (add_entry("volumes/" + "y" * 300, tarfile.DIRTYPE), "cannot be created: File name too long"),
        (add_entry("volumes/pvc_ns_data/sub/file/below"), "cannot be created: Not a directory"),
        (add_entry("volumes/pvc_ns_data/sub/file/below/it"), "cannot be created: Not a directory"),
        (remove_entry("checksums.json"), "it is incomplete"),
        (remove_entry("snapshot.json"), "its first entry is not snapshot.json"),
        (remove_entry("pki/ca.key"), "checksums.json does not match its entry 'pki/ca.key'"),
        (rename_entry("pki/ca.key", f"images/blobs/sha256/{'0' * 64}"), "its content has another digest"),
        (lambda content: content.replace(b"secret", b"public"), "'pki/ca.key' has another checksum"),
        (lambda content: content.replace(b'"format": 1', b'"format": 9'), "it has format 9"),
        (lambda content: content.replace(b'"format": 1', b'"format":"'), "snapshot.json cannot be read"),
        (
            lambda content: content.replace(b'"cluster": "web"', b'"cluster": "w\xca\xff"'[:16]),
            "snapshot.json cannot be read",
        ),
        (lambda content: content[:1500], "end of the archive"),
        (lambda content: b"", "the file is empty"),
        (lambda content: b"x" * 4096, "invalid number"),
    ],
)
def test_malformed_archives_are_rejected(
    cluster: Path, tmp_path: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    with pytest.raises(SnapshotError, match=message.replace(".", r"\.")):
        read(change(archive_of(cluster)), tmp_path / "new")
    assert not (tmp_path / "evil").exists()


def test_archive_larger_than_the_free_space_is_rejected(cluster: Path, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="more than 10 bytes"):
        read(archive_of(cluster), tmp_path / "new", max_bytes=10)


def test_oversized_manifest_is_rejected(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("snapshot.json")
        info.size = 5 << 20
        tar.addfile(info, io.BytesIO(bytes(5 << 20)))
    with pytest.raises(SnapshotError, match=r"snapshot\.json is larger than"):
        read_manifest(io.BytesIO(out.getvalue()))


def test_file_with_undecodable_name_is_skipped(cluster: Path, tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(cluster) + b"/volumes/\xff"))).write_bytes(b"")
    assert count_skipped(cluster / "volumes") == 3
    read(archive_of(cluster), tmp_path / "new")
