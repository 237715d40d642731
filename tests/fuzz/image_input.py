"""Input from authors of images and snapshots: documents and archives."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from sampan.cluster.snapshot import SnapshotError, SnapshotManifest, read_archive, write_archive
from sampan.host.linux.directory_trees import remove_tree
from sampan.runtimes.images import manifests
from sampan.runtimes.images.credentials import read_docker_config
from sampan.runtimes.images.layers import LayerUnpacker
from sampan.runtimes.images.manifests import BadImage, detect_platform
from sampan.runtimes.images.reference import BadReference, parse_reference
from sampan.runtimes.safe_paths import opened_root

ERRORS = (BadImage, BadReference, ValueError)
_DIGEST = "sha256:" + "0" * 64
_LAYER = {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": _DIGEST, "size": 1}
_MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"


def _encode(value: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(value)


DOCUMENTS = (
    b"m" + _encode({"schemaVersion": 2, "mediaType": _MANIFEST_TYPE, "config": _LAYER, "layers": [_LAYER, _LAYER]}),
    b"i"
    + _encode(
        {
            "schemaVersion": 2,
            "manifests": [
                {
                    "mediaType": _MANIFEST_TYPE,
                    "digest": _DIGEST,
                    "size": 9,
                    "platform": {"os": detect_platform().os, "architecture": detect_platform().architecture},
                    "annotations": {"org.opencontainers.image.ref.name": "a"},
                }
            ],
        }
    ),
    b"c"
    + _encode(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "User": "1000:1000",
                "Env": ["PATH=/bin"],
                "Entrypoint": ["/a"],
                "Cmd": ["b"],
                "WorkingDir": "/w",
                "Volumes": {"/v": {}},
                "ExposedPorts": {"80/tcp": {}},
                "StopSignal": "SIGTERM",
            },
            "rootfs": {"type": "layers", "diff_ids": [_DIGEST]},
        }
    ),
    b'a{"auths":{"a.example.com:5000/a":{"auth":"YTpi"},"https://index.docker.io/v1/":{"username":"a","password":"b"}}}',
    b"rregistry.example.com:5000/a/b:tag@" + _DIGEST.encode(),
)


def read_image_documents(data: bytes) -> None:
    """Read a manifest, an index, a configuration, credentials or a reference; the first byte says which."""
    kind, body = data[:1], data[1:]
    if kind == b"m":
        manifests.media_type_of(body)
        manifests.read_manifest(body)
    elif kind == b"i":
        manifests.select_manifest(manifests.read_index(body), detect_platform())
    elif kind == b"c":
        manifests.read_config(body)
    elif kind == b"a":
        read_docker_config(body)
    else:
        parse_reference(body.decode("utf-8", "replace"))


def _layer(form: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
        for name, kind, link in (
            ("d", tarfile.DIRTYPE, ""),
            ("d/f", tarfile.REGTYPE, ""),
            ("d/l", tarfile.SYMTYPE, "../d"),
            ("h", tarfile.LNKTYPE, "d/f"),
            ("d/.wh.x", tarfile.REGTYPE, ""),
            ("d/.wh..wh..opq", tarfile.REGTYPE, ""),
            ("p", tarfile.FIFOTYPE, ""),
            ("n" * 120, tarfile.REGTYPE, ""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode = kind, link, 0o755
            member.size = 5 if kind == tarfile.REGTYPE else 0
            member.pax_headers = {"SCHILY.xattr.user.a": "b", "mtime": "1.5"} if form == tarfile.PAX_FORMAT else {}
            tar.addfile(member, io.BytesIO(b"hello"))
    return stream.getvalue()


LAYERS = (_layer(tarfile.PAX_FORMAT), _layer(tarfile.GNU_FORMAT), gzip.compress(_layer(tarfile.GNU_FORMAT), mtime=0))


def unpack_layer(data: bytes) -> None:
    """Unpack a layer, and check that nothing is created outside its directory."""
    with tempfile.TemporaryDirectory(prefix="fuzz-layer-") as directory:
        target = Path(directory) / "layer"
        target.mkdir()
        try:
            stream = gzip.GzipFile(fileobj=io.BytesIO(data)) if data[:2] == b"\x1f\x8b" else io.BytesIO(data)
            with opened_root(target) as root:
                LayerUnpacker(root).unpack(cast(IO[bytes], stream))
        finally:
            assert os.listdir(directory) == ["layer"]
            remove_tree(target)


def _snapshot() -> bytes:
    with tempfile.TemporaryDirectory(prefix="fuzz-snapshot-") as directory:
        place = Path(directory)
        (place / "pki").mkdir()
        (place / "pki/ca.crt").write_bytes(b"certificate")
        (place / "state.db").write_bytes(b"store")
        (place / "flags.json").write_bytes(b"{}")
        (place / "volumes/v").mkdir(parents=True)
        (place / "volumes/v/file").write_bytes(b"data")
        stream = io.BytesIO()
        manifest = SnapshotManifest(format=1, cluster="a", volumes=["v"], local_nodes=["n"])
        write_archive(stream, manifest, store=place / "state.db", directory=place)
        return stream.getvalue()


SNAPSHOT_ERRORS = (SnapshotError,)
SNAPSHOTS = (_snapshot(),)


def read_snapshot(data: bytes) -> None:
    """Read a snapshot, and check that nothing is created outside its directory."""
    with tempfile.TemporaryDirectory(prefix="fuzz-snapshot-") as directory:
        target = Path(directory) / "snapshot"
        target.mkdir(mode=0o700)
        try:
            read_archive(io.BytesIO(data), target, max_bytes=10 << 20)
        finally:
            assert os.listdir(directory) == ["snapshot"]
            remove_tree(target)
