"""Load images from archives that `docker save` writes, and from archives and directories in the OCI image layout."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol, cast

import msgspec

from sampan.api import limits
from sampan.host.durable_files import open_new_file
from sampan.runtimes.images import manifests, tar_reader
from sampan.runtimes.images.layers import diff_id_of
from sampan.runtimes.images.manifests import BadImage, ImageDescriptor, Platform
from sampan.runtimes.images.reference import BadReference, is_digest, parse_reference
from sampan.runtimes.images.store import ImageStore, StoredImage
from sampan.runtimes.images.tar_reader import TarEntry, TarReader
from sampan.runtimes.safe_paths import RootDirectory, UnsafePath, opened_root

_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


def load(store: ImageStore, path: Path, *, now: float, platform: Platform | None = None) -> list[StoredImage]:
    """Load all images of a file or directory in any of the supported formats. Raise BadImage if there is none."""
    with _open_files(path) as files:
        loader = _ImageLoader(store, files, platform or manifests.detect_platform(), now)
        if files.has("index.json"):
            return loader.oci()
        if files.has("manifest.json"):
            return loader.docker()
    raise BadImage(
        f"{path}: not an image archive: it contains neither index.json (OCI) nor manifest.json (docker save)"
    )


class _ImageFiles(Protocol):
    """The files of an image archive or directory by name. Their content is untrusted."""

    def has(self, name: str) -> bool: ...

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a regular file. Raise BadImage if it does not exist."""


def _read(files: _ImageFiles, name: str) -> bytes:
    with files.open(name) as file:
        data = file.read(limits.IMAGE_DOCUMENT_BYTES + 1)
    if len(data) > limits.IMAGE_DOCUMENT_BYTES:
        raise BadImage(f"{name} is too large")
    return data


class _DirectoryFiles:
    def __init__(self, root: RootDirectory) -> None:
        self._root = root

    def has(self, name: str) -> bool:
        try:
            with self._root.open(name):
                return True
        except (OSError, UnsafePath):
            return False

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        try:
            with self._root.open(name) as file:
                yield file
        except FileNotFoundError:
            raise BadImage(f"the image archive has no file {name}") from None
        except UnsafePath as error:
            raise BadImage(str(error)) from None


class _ArchiveFiles:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._entries: dict[str, TarEntry] = {}
        for entry in TarReader(stream, can_seek=True):
            if entry.kind in (tar_reader.REGULAR, tar_reader.SYMBOLIC_LINK) and entry.extents is None:
                self._entries[str(PurePosixPath(entry.name))] = entry

    def has(self, name: str) -> bool:
        return name in self._entries

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        entry = self._entries.get(name)
        if entry is None:
            raise BadImage(f"{name[:200]} is missing from the archive")
        yield cast(BinaryIO, _EntryStream(self._stream, self._resolve_link(entry)))

    def _resolve_link(self, entry: TarEntry) -> TarEntry:
        """Return the file that a symbolic link refers to: old Docker archives contain each layer once, with links to
        it."""
        if entry.kind != tar_reader.SYMBOLIC_LINK:
            return entry
        target = os.path.normpath(PurePosixPath(entry.name).parent / entry.link_name)
        target_entry = self._entries.get(target)
        if target_entry is None or target_entry.kind == tar_reader.SYMBOLIC_LINK:
            raise BadImage(f"{entry.name[:200]} is a link to a missing entry")
        return target_entry


class _EntryStream:
    """A stream with the data of one entry."""

    def __init__(self, stream: BinaryIO, entry: TarEntry) -> None:
        self._stream, self._left = stream, entry.stored
        stream.seek(entry.offset)

    def read(self, size: int) -> bytes:
        data = self._stream.read(min(size, self._left))
        if self._left and size and not data:
            raise BadImage("unexpected end of the archive in an entry")
        self._left -= len(data)
        return data


@contextmanager
def _open_files(path: Path) -> Iterator[_ImageFiles]:
    try:
        if path.is_dir():
            with opened_root(path) as root:
                yield _DirectoryFiles(root)
            return
        with open(path, "rb", buffering=0) as file, _decompress(cast(BinaryIO, file)) as stream:
            yield _archive(stream, path)
    except OSError as error:
        raise BadImage(f"{path}: {error.strerror or error}") from None
    except (EOFError, UnsafePath, zlib.error, lzma.LZMAError) as error:
        raise BadImage(f"{path}: {error}") from None


def _archive(stream: BinaryIO, path: Path) -> _ArchiveFiles:
    try:
        return _ArchiveFiles(stream)
    except BadImage as error:
        raise BadImage(f"{path}: {error}") from None


@contextmanager
def _decompress(file: BinaryIO) -> Iterator[BinaryIO]:
    """Open the archive, decompressing it if necessary."""
    magic = file.read(6)
    file.seek(0)
    opens = next((opens for start, opens in _PACKED.items() if magic.startswith(start)), None)
    with opens(file) if opens is not None else io.BufferedReader(cast(io.RawIOBase, file)) as stream:
        yield cast(BinaryIO, stream)


_PACKED: Mapping[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}


class _ImageLoader:
    def __init__(self, store: ImageStore, files: _ImageFiles, platform: Platform, now: float) -> None:
        self._store, self._files, self._platform, self._now = store, files, platform, now

    # -- OCI ---------------------------------------------------------------------------------------------------------

    def oci(self) -> list[StoredImage]:
        index = manifests.read_index(_read(self._files, "index.json"))
        descriptors = [descriptor for descriptor in index.manifests if self._matches_platform(descriptor)]
        if not descriptors:
            manifests.select_manifest(index, self._platform)
            raise BadImage("the archive contains no image")
        return [self._oci_image(descriptor) for descriptor in descriptors]

    def _matches_platform(self, descriptor: ImageDescriptor) -> bool:
        if descriptor.media_type not in manifests.MANIFESTS | manifests.INDEXES | {""}:
            return False
        platform = descriptor.platform
        ours = self._platform
        return platform is None or (platform.architecture, platform.os) in ((ours.architecture, ours.os), ("", ""))

    def _oci_image(self, descriptor: ImageDescriptor) -> StoredImage:
        digest = self._manifest(descriptor.digest)
        manifest = manifests.read_manifest(self._store.blobs.read(digest))
        for part in (manifest.config, *manifest.layers):
            if not self._store.blobs.has(part.digest):
                with self._files.open(_blob(part.digest)) as file:
                    self._store.blobs.put_stream(file, part.digest)
        return self._store.add(digest, names=_names(descriptor), now=self._now)

    def _manifest(self, digest: str) -> str:
        """Return the digest of the manifest for this platform, descending through nested indexes."""
        for _ in range(limits.IMAGE_INDEX_DEPTH):
            data = _read(self._files, _blob(digest))
            if manifests.media_type_of(data) not in manifests.INDEXES:
                return self._store.blobs.put(data, digest)
            digest = manifests.select_manifest(manifests.read_index(data), self._platform).digest
        raise BadImage(f"the image has more than {limits.IMAGE_INDEX_DEPTH} levels of nested indexes")

    # -- docker save -------------------------------------------------------------------------------------------------

    def docker(self) -> list[StoredImage]:
        try:
            rows = msgspec.json.decode(_read(self._files, "manifest.json"), type=list[dict[str, Any]])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadImage(f"manifest.json: {error}") from None
        return [self._docker_image(row) for row in rows]

    def _docker_image(self, row: dict[str, Any]) -> StoredImage:
        config = _read(self._files, str(row.get("Config", "")))
        config_digest = self._store.blobs.put(config)
        names = _strings(row.get("Layers"), "Layers")
        if len(names) > limits.IMAGE_LAYERS:
            raise BadImage(f"the image has {len(names)} layers, more than {limits.IMAGE_LAYERS}")
        layers = [self._layer(name) for name in names]
        manifest = {
            "schemaVersion": 2,
            "mediaType": manifests.OCI_MANIFEST,
            "config": {"mediaType": manifests.OCI_CONFIG, "digest": config_digest, "size": len(config)},
            "layers": layers,
        }
        digest = self._store.blobs.put(json.dumps(manifest).encode())
        try:
            tags = [str(parse_reference(name)) for name in _strings(row.get("RepoTags"), "RepoTags")]
        except BadReference as error:
            raise BadImage(f"manifest.json: {error}") from None
        return self._store.add(digest, names=tags, now=self._now)

    def _layer(self, name: str) -> dict[str, Any]:
        with self._files.open(name) as file:
            digest = self._store.blobs.put_stream(file)
        path = self._store.blobs.path(digest)
        packed = "" if diff_id_of(path) == digest else "+gzip"
        return {"mediaType": manifests.OCI_LAYER + packed, "digest": digest, "size": path.stat().st_size}


def _strings(value: object, name: str) -> list[str]:
    if not isinstance(value, list | None) or not all(isinstance(item, str) for item in value or ()):
        raise BadImage(f"manifest.json: {name} must be a list of strings")
    return value or []


def _blob(digest: str) -> str:
    if not is_digest(digest):
        raise BadImage(f"the archive names content {digest[:200]!r}, which is not a digest (sha256:…)")
    return f"blobs/{digest.replace(':', '/', 1)}"


def _names(descriptor: ImageDescriptor) -> Sequence[str]:
    """Return the image name in the annotations of a descriptor. A bare tag is not a name."""
    for key in _NAMES:
        text = descriptor.annotations.get(key, "")
        if "/" in text or ":" in text:
            try:
                return [str(parse_reference(text))]
            except BadReference:
                continue
    return []


def save(store: ImageStore, image: StoredImage, path: Path) -> None:
    """Write an image as an archive in the OCI image layout."""
    name = dict.fromkeys(_NAMES[:1], image.names[0]) if image.names else {}
    described = {
        "mediaType": manifests.media_type_of(store.blobs.read(image.digest)) or manifests.OCI_MANIFEST,
        "digest": image.digest,
        "size": store.blobs.path(image.digest).stat().st_size,
        "annotations": name,
    }
    index = {"schemaVersion": 2, "mediaType": manifests.OCI_INDEX, "manifests": [described]}
    parts = [image.digest, image.manifest.config.digest, *(layer.digest for layer in image.manifest.layers)]
    with open_new_file(path.parent, mode=0o644) as new:
        with tarfile.open(fileobj=new.stream, mode="w") as archive:
            _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
            _add(archive, "index.json", json.dumps(index).encode())
            for digest in dict.fromkeys(parts):
                archive.add(store.blobs.path(digest), arcname=_blob(digest))
        new.publish(path)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))
