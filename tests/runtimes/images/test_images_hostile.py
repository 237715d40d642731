"""Hostile archives, manifests and configurations."""

import gzip
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api import limits
from sampan.host.linux.directory_trees import remove_tree
from sampan.runtimes.images import ImageStore, manifests
from sampan.runtimes.images.archives import load
from sampan.runtimes.images.layers import LayerStore
from sampan.runtimes.images.manifests import BadImage
from sampan.runtimes.images.tar_reader import TarReader
from tests.input_cost import check_cost
from tests.runtimes.images.builders import Files, MadeImage, digest, docker_archive, layer

BLOCK = 512


def header(name: str, kind: bytes, size: int = 0, **fields: Any) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    for key, value in fields.items():
        setattr(member, key, value)
    return member.tobuf(tarfile.GNU_FORMAT)


def pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def pax(*records: bytes, kind: bytes = b"x") -> bytes:
    data = b"".join(records)
    return header("pax", kind, len(data)) + pad(data)


def record(key: bytes, value: bytes) -> bytes:
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest)
    while len(str(length)) + len(rest) != length:
        length = len(str(length)) + len(rest)
    return str(length).encode() + rest


def unpack_archive(directory: Path, data: bytes, pack: Callable[[bytes], bytes] = bytes) -> Path:
    blob, packed = directory / "blob", pack(data)
    blob.write_bytes(packed)
    return LayerStore(directory / "layers").unpack(blob, digest(data), blob_digest=digest(packed))


def check_rejected(message: str, work: Callable[[], object]) -> None:
    """Check that the work raises BadImage with a message, at bounded cost."""

    def expect_bad_image() -> None:
        with pytest.raises(BadImage, match=message):
            work()

    check_cost(expect_bad_image)


def check_bounds(work: Callable[[], object]) -> None:
    """Check that the work succeeds or raises BadImage, at bounded cost."""

    def run() -> None:
        with suppress(BadImage):
            work()

    check_cost(run)


# -- headers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K", b"X"], ids=["pax", "global", "name", "link", "solaris"])
def test_a_layer_with_a_huge_extended_header_is_refused_before_it_is_read(tmp_path: Path, kind: bytes) -> None:
    """A blob of 0.3 MB must not take gigabytes of memory."""
    size = 256 << 20
    zeros = gzip.compress(bytes(1 << 20), compresslevel=1)
    (tmp_path / "blob").write_bytes(gzip.compress(header("pax", kind, size)) + zeros * (size >> 20))
    store = LayerStore(tmp_path / "layers")
    check_rejected(
        "extended header of more than 1048576 bytes",
        lambda: store.unpack(tmp_path / "blob", digest(b""), blob_digest=digest(b"x")),
    )


def test_large_extended_headers_are_not_kept_in_memory(tmp_path: Path) -> None:
    """Each header is within the limit, but together they would fill the memory."""
    entry = pax(record(b"comment", b"x" * 900_000)) + header("file", b"0")
    (tmp_path / "blob").write_bytes(gzip.compress(entry, compresslevel=1) * 150)

    def read() -> None:
        with gzip.open(tmp_path / "blob") as stream:
            assert len([entry.name for entry in TarReader(stream)]) == 150  # type: ignore[arg-type]

    check_cost(read)


def test_pax_header_of_digits_is_parsed_in_linear_time(tmp_path: Path) -> None:
    """The standard library takes quadratic time for such a header (CVE-2024-6232)."""
    for data in (b"1" * 1_000_000, b"1" * 500_000 + b" " + b"a" * 500_000, b"20 " + b"=" * 1_000_000):
        archive = pax(data) + header("file", b"0")
        check_rejected(r"PAX header|a number", partial(unpack_archive, tmp_path, archive))


def test_many_extended_headers_in_a_row_are_refused(tmp_path: Path) -> None:
    """The standard library calls itself recursively for each header."""
    data = pax(record(b"path", b"a")) * 5000 + header("file", b"0")
    check_rejected("too many extended headers in a row", lambda: unpack_archive(tmp_path, data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pax(*(record(b"SCHILY.xattr.user.a%d" % at, b"1") for at in range(65))), "extended attributes"),
        (pax(record(b"path", b"a/" * 300 + b"b")), "more than 255 levels"),
        (pax(record(b"path", b"a" * 5000)), "name of more than 4096 bytes"),
        (pax(record(b"path", b"a" * 300)), "File name too long"),
        (pax(record(b"path", b"a\0b")), "null byte"),
        (pax(record(b"size", b"9" * 5000)), "with an invalid number"),
        (pax(record(b"uid", b"4294967295")), "out of range"),
        (pax(record(b"mtime", b"nan")), "with an invalid time"),
        (pax(record(b"size", "٣".encode())), "with an invalid number"),
        (header("dev", b"3", devmajor=0o7777777, devminor=1), "out of range|cannot be created"),
        (header("file", b"0", 1 << 40), "more than 68719476736 bytes"),
        (header("file", b"Z"), "unknown type"),
        (header("a/" * 60 + "x", b"1", linkname="nothing"), "cannot be created"),
    ],
)
def test_invalid_tar_entries_are_rejected(tmp_path: Path, data: bytes, message: str) -> None:
    archive_data = data if data[156:157] not in b"x" else data + header("file", b"0")
    with pytest.raises(BadImage, match=message):
        unpack_archive(tmp_path, archive_data + bytes(1024))


def test_layer_with_an_extreme_compression_ratio_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMAGE_LAYER_FREE_BYTES", 1 << 20)
    data = layer({"zeros": bytes(4 << 20)})
    with pytest.raises(BadImage, match="too much for its packed size"):
        unpack_archive(tmp_path, data, gzip.compress)
    assert unpack_archive(tmp_path, layer({"file": os.urandom(2 << 20)}), gzip.compress).is_dir()


def test_layer_with_too_many_entries_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMAGE_LAYER_ENTRIES", 10)
    with pytest.raises(BadImage, match="more than 10 entries"):
        unpack_archive(tmp_path, layer({f"f{at}": b"" for at in range(11)}))


@pytest.mark.parametrize("depth", [200, 3000])
def test_depth_of_directories_that_are_nested_through_links_is_limited(tmp_path: Path, depth: int) -> None:
    """Each link leads to the end of the directories before it, so that names stay short."""
    files: Files = {"a": None}
    place = "a"
    for number in range(depth // 100 or 1):
        deep = f"{place}/" + "/".join(["d"] * 100)
        files[deep] = None
        files[f"l{number}"] = f"/{deep}" if number == 0 else f"/l{number - 1}/" + "/".join(["d"] * 100)
        place = f"l{number}"
    archive = layer(files)

    def unpack() -> None:
        try:
            unpack_archive(tmp_path, archive)
        finally:
            remove_tree(tmp_path / "layers")

    if depth < limits.IMAGE_PATH_DEPTH:
        check_cost(unpack)
    else:
        check_rejected("levels of directories", unpack)


# -- valid archives --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["gnu", "posix", "oldgnu", "ustar", "v7"])
def test_archives_of_gnu_tar_are_unpacked(tmp_path: Path, form: str) -> None:
    tree = tmp_path / "tree"
    (tree / "dir").mkdir(parents=True)
    (tree / "dir/file").write_bytes(b"content")
    (tree / "link").symlink_to("dir/file")
    long = "n" * 90 if form in ("ustar", "v7") else "n" * 200
    (tree / long).write_bytes(b"long")
    os.link(tree / "dir/file", tree / "hard")
    data = subprocess.run(
        ["tar", f"--format={form}", "--numeric-owner", "-C", tree, "-cf", "-", "."], check=True, capture_output=True
    ).stdout
    root = unpack_archive(tmp_path, data)
    assert (root / "dir/file").read_bytes() == b"content"
    assert (root / long).read_bytes() == b"long"
    assert os.readlink(root / "link") == "dir/file"
    assert (root / "hard").stat().st_ino == (root / "dir/file").stat().st_ino


@pytest.mark.parametrize(
    "form", [["gnu"], ["posix"], ["posix", "--sparse-version=0.0"], ["posix", "--sparse-version=0.1"]], ids=str
)
def test_sparse_files_of_gnu_tar_are_unpacked(tmp_path: Path, form: list[str]) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    with open(tree / "sparse", "wb") as file:
        for at in range(40):
            file.seek(at << 16)
            file.write(b"data%d" % at)
        file.truncate(4 << 20)
    data = subprocess.run(
        ["tar", f"--format={form[0]}", *form[1:], "--sparse", "-C", tree, "-cf", "-", "."],
        check=True,
        capture_output=True,
    ).stdout
    assert len(data) < 1 << 20
    path = unpack_archive(tmp_path, data) / "sparse"
    assert path.stat().st_blocks * 512 < 2 << 20, "holes take no space"
    assert digest(path.read_bytes()) == digest((tree / "sparse").read_bytes())


def _data(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member) if member.isreg() else None
    return file.read() if file is not None else b""


names = st.text(alphabet="abü./", min_size=1, max_size=120)
contents = st.one_of(st.binary(max_size=600), st.none(), names)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(names, contents, max_size=8), st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]))
def test_tar_reader_agrees_with_tarfile(files: Files, form: int) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if content is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    out.seek(0)
    reader = TarReader(out)
    actual = [
        (entry.name.rstrip("/"), entry.link_name, b"".join(data for _, data in reader.pieces())) for entry in reader
    ]
    out.seek(0)
    with tarfile.open(fileobj=out) as archive:
        expected = [(member.name.rstrip("/"), member.linkname, _data(archive, member)) for member in archive]
    assert actual == expected


# -- fuzzing ---------------------------------------------------------------------------------------------------------


def _seed() -> bytes:
    """Return an archive with all kinds of entries."""
    extents = b"".join(b"%011o\0" % number for number in (0, 512, 4096, 512)) + bytes(48) + b"\0%011o\0" % 8192
    sparse = bytearray(header("sparse", b"S", 1024))
    sparse[386 : 386 + len(extents)] = extents
    sparse[148:156] = b"%06o\0 " % (sum(sparse[:148]) + 256 + sum(sparse[156:]))
    plain = layer({"d": None, "d/f": b"x" * 700, "l": "d/f", "d/.wh.gone": b"", "d/.wh..wh..opq": b""})
    while plain.endswith(bytes(BLOCK)):
        plain = plain[:-BLOCK]
    records = record(b"path", b"p"), record(b"SCHILY.xattr.user.a", b"1"), record(b"mtime", b"1.5")
    stored = b"1\n0\n5\n"
    sparse_records = (
        record(b"GNU.sparse.major", b"1"),
        record(b"GNU.sparse.minor", b"0"),
        record(b"GNU.sparse.realsize", b"9"),
    )
    return b"".join(
        (
            plain,
            pax(*records) + header("f", b"0", 3) + pad(b"abc"),
            header("long", b"L", 5) + pad(b"name\0") + header("f", b"0"),
            bytes(sparse) + bytes(1024),
            pax(*sparse_records) + header("s", b"0", 517) + pad(pad(stored) + b"12345"),
            header("fifo", b"6") + header("dev", b"3", devmajor=1, devminor=3) + header("hard", b"1", linkname="d/f"),
            bytes(1024),
        )
    )


SEED = _seed()


def test_fuzzing_seed_is_a_valid_archive(tmp_path: Path) -> None:
    root = unpack_archive(tmp_path, SEED)
    assert (root / "s").read_bytes() == b"12345\0\0\0\0"
    assert (root / "sparse").stat().st_size == 8192


def _fix_checksums(data: bytes) -> bytes:
    """Return the archive with valid checksums in all headers, so that changes reach the parser."""
    blocks = [bytearray(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)]
    for block in blocks:
        if len(block) == BLOCK and block[257:262] == b"ustar":
            block[148:156] = b"%06o\0 " % (sum(block[:148]) + 256 + sum(block[156:]))
    return b"".join(blocks)


changes = st.lists(st.tuples(st.integers(0, len(SEED) - 1), st.binary(min_size=1, max_size=12)), max_size=6)


@settings(max_examples=250, deadline=None)
@given(changes, st.booleans(), st.integers(0, len(SEED)), st.sampled_from([bytes, gzip.compress]))
def test_mutated_archives_are_unpacked_or_rejected_at_bounded_cost(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, bytes]],
    has_valid_checksums: bool,
    end: int,
    pack: Callable[[bytes], bytes],
) -> None:
    data = bytearray(SEED)
    for at, new in changes:
        data[at : at + len(new)] = new
    archive_data = _fix_checksums(bytes(data)) if has_valid_checksums else bytes(data[:end])

    def unpack() -> None:
        directory = tmp_path_factory.mktemp("layer")
        try:
            unpack_archive(directory, archive_data, pack)
        finally:
            assert {entry.name for entry in directory.iterdir()} <= {"blob", "layers"}
            shutil.rmtree(directory)

    check_bounds(unpack)


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=3000), st.sampled_from([b"", b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"BZh9", b"\xfd7zXZ\0"])
)
def test_random_bytes_are_rejected_at_bounded_cost(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, magic: bytes
) -> None:
    def unpack() -> None:
        directory = tmp_path_factory.mktemp("junk")
        try:
            with suppress(BadImage):
                unpack_archive(directory, magic + data)
            load(ImageStore(directory / "store"), directory / "blob", now=0)
        finally:
            shutil.rmtree(directory)

    check_bounds(unpack)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("sha256:" + "a" * 64),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
fields = st.dictionaries(
    st.sampled_from(
        [*("config", "layers", "manifests", "rootfs", "diff_ids", "digest", "size", "mediaType", "platform", "type")]
    ),
    values
    | st.dictionaries(st.sampled_from(["digest", "size", "diff_ids", "User", "Env", "Cmd", "StopSignal"]), values)
    | st.lists(st.dictionaries(st.sampled_from(["digest", "size", "platform"]), values), max_size=3),
)
READERS: list[Callable[[bytes], Any]] = [
    manifests.read_index,
    manifests.read_manifest,
    manifests.read_config,
    manifests.media_type_of,
    lambda data: manifests.select_manifest(manifests.read_index(data), manifests.detect_platform()),
]


@settings(max_examples=200, deadline=None)
@given(fields | values, st.sampled_from(READERS))
def test_random_documents_are_parsed_or_rejected_at_bounded_cost(value: Any, read: Callable[[bytes], Any]) -> None:
    check_bounds(lambda: read(json.dumps(value).encode()))


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "data",
    [
        *(b"[" * 100_000, b'{"a":' * 20_000, b'{"config":' * 20_000, b"\xff\xfe", b'{"config":"\xff"}', b"1" * 90_000),
        *(b'{"rootfs":{"diff_ids":[' + b'"sha256:",' * 9000 + b'""]}}', b"{" + b'"a":1,' * 16_000 + b'"b":2}'),
        b'{"layers":[' + b'{"digest":"x"},' * 6000 + b'{"digest":"x"}],"config":{"digest":"x"}}',
    ],
    ids=range(9),
)
def test_document_of_100_kb_has_bounded_cost(data: bytes, read: Callable[[bytes], Any]) -> None:
    check_bounds(lambda: read(data))


def test_an_image_of_too_many_layers_is_refused() -> None:
    part = {"digest": digest(b""), "size": 1}
    data = json.dumps({"config": part, "layers": [part] * (limits.IMAGE_LAYERS + 1)}).encode()
    with pytest.raises(BadImage, match="more than 127"):
        manifests.read_manifest(data)


# -- archives of images ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ['{"Config": 5}', '{"Config": "c", "Layers": {}}', '{"Config": "c", "RepoTags": [1]}'])
def test_docker_archive_with_an_invalid_manifest_is_rejected(tmp_path: Path, row: str) -> None:
    (tmp_path / "a.tar").write_bytes(layer({"manifest.json": f"[{row}]".encode(), "c": b"{}"}))
    with pytest.raises(BadImage):
        load(ImageStore(tmp_path / "store"), tmp_path / "a.tar", now=0)


def test_deeply_nested_indexes_are_rejected(tmp_path: Path) -> None:
    kind = "application/vnd.oci.image.index.v1+json"
    files: Files = {}
    data = b"{}"
    for _ in range(limits.IMAGE_INDEX_DEPTH + 2):
        data = json.dumps(
            {"mediaType": kind, "manifests": [{"mediaType": kind, "digest": digest(data), "size": 1}]}
        ).encode()
        files[f"blobs/{digest(data).replace(':', '/')}"] = data
    files["index.json"] = data
    (tmp_path / "a.tar").write_bytes(layer(files))
    with pytest.raises(BadImage, match="levels of nested indexes"):
        load(ImageStore(tmp_path / "store"), tmp_path / "a.tar", now=0)


@pytest.mark.parametrize("kind", ["link", "pipe", "digest"])
def test_image_directory_cannot_refer_to_files_outside(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "image"
    place.mkdir()
    (tmp_path / "outside.json").write_bytes(b'{"manifests": []}')
    if kind == "link":
        (place / "index.json").symlink_to(tmp_path / "outside.json")
    elif kind == "pipe":
        os.mkfifo(place / "index.json")
    else:
        rows = [{"digest": "sha256:../../outside.json", "size": 1}]
        (place / "index.json").write_text(json.dumps({"manifests": rows}))
    with pytest.raises(BadImage, match=r"not an image archive|not a digest"):
        load(ImageStore(tmp_path / "store"), place, now=0)


def test_unpacked_layer_is_reused_until_it_is_pruned(tmp_path: Path) -> None:
    image = MadeImage({"a": b"1"})
    store = ImageStore(tmp_path / "store")
    [loaded] = load(store, docker_archive(tmp_path / "a.tar", image, "app:1"), now=0)
    [path] = store.lower_layers(loaded)
    pairs = {path.name: path.read_text() for path in (tmp_path / "store/layers/.blobs").iterdir()}
    assert pairs == {digest(image.plain[0]).removeprefix("sha256:"): digest(image.plain[0])}
    os.utime(path, (1, 1))
    assert ImageStore(tmp_path / "store").lower_layers(loaded) == [path]
    assert path.stat().st_mtime == 1, "the layer was not unpacked again"
    store.remove("app:1")
    store.prune()
    assert list((tmp_path / "store/layers/.blobs").iterdir()) == []
