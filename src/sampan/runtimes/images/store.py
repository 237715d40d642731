"""The image store of a machine: content by digest, the table of images with their names, and the location of their
files.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

import msgspec

from sampan.api import limits
from sampan.host.durable_files import open_new_file, write_durably
from sampan.runtimes.images.layers import LayerStore
from sampan.runtimes.images.manifests import BadImage, ImageConfig, ImageManifest, read_config, read_manifest
from sampan.runtimes.images.reference import BadReference, ImageReference, is_digest, parse_reference

_CHUNK = 1 << 20
log = logging.getLogger(__name__)


class BlobWriter:
    """Writes and hashes content piece by piece, up to a maximum size."""

    def __init__(self, file: IO[bytes], *, maximum: int) -> None:
        self._file, self._maximum = file, maximum
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self._maximum:
            raise BadImage(f"the content is larger than {self._maximum} bytes, the announced or allowed size")
        self._hash.update(data)
        self._file.write(data)

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


class BlobStore:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, digest: str) -> Path:
        if not is_digest(digest):
            raise BadImage(f"{digest!r} is not a supported digest (sha256:…)")
        return self._directory / "sha256" / digest.removeprefix("sha256:")

    def has(self, digest: str) -> bool:
        return self.path(digest).exists()

    def read(self, digest: str) -> bytes:
        """Return the content of a JSON document. Raise BadImage if it is missing or larger than documents may be."""
        try:
            with open(self.path(digest), "rb") as file:
                data = file.read(limits.IMAGE_DOCUMENT_BYTES + 1)
        except FileNotFoundError:
            raise BadImage(f"content {digest} is missing") from None
        if len(data) > limits.IMAGE_DOCUMENT_BYTES:
            raise BadImage(f"content {digest} is larger than {limits.IMAGE_DOCUMENT_BYTES} bytes")
        return data

    @contextmanager
    def writer(self, expected: str = "", *, size: int | None = None) -> Iterator[BlobWriter]:
        """Store the content that is written within the block, or raise BadImage if its digest is not `expected`."""
        directory = self._directory / "sha256"
        directory.mkdir(parents=True, exist_ok=True)
        with open_new_file(directory, mode=0o600) as new:
            blob = BlobWriter(new.stream, maximum=limits.IMAGE_LAYER_BYTES if size is None else size)
            yield blob
            if expected and blob.digest != expected:
                raise BadImage(f"the content's digest is {blob.digest}, not {expected}")
            new.publish(self.path(blob.digest))

    def put(self, data: bytes, expected: str = "") -> str:
        with self.writer(expected) as writer:
            writer.write(data)
        return writer.digest

    def put_stream(self, stream: BinaryIO, expected: str = "") -> str:
        with self.writer(expected) as writer:
            while data := stream.read(_CHUNK):
                writer.write(data)
        return writer.digest

    def digests(self) -> Iterator[str]:
        directory = self._directory / "sha256"
        names = os.listdir(directory) if directory.exists() else []
        return (f"sha256:{name}" for name in names if not name.startswith("."))

    def keep_only(self, digests: Iterable[str]) -> int:
        """Remove all content except the blobs with these digests, and return the number of bytes freed."""
        retained, freed = set(digests), 0
        for digest in list(self.digests()):
            if digest not in retained:
                path = self.path(digest)
                freed += path.stat().st_size
                path.unlink(missing_ok=True)
        return freed


class ImageUnknown(KeyError):
    """The store has no such image."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"there is no image {self.name!r}"


class _ImageEntry(msgspec.Struct):
    """The names of one image; the table maps the digests of manifests to entries."""

    names: list[str] = []
    """Full names with tags."""
    digests: list[str] = []
    """Full names with digests, as the registries report them."""
    added: float = 0


_Table = dict[str, _ImageEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    id: str
    """The digest of the image configuration, which is the image id that other tools show."""
    digest: str
    """The digest of the manifest."""
    names: Sequence[str]
    digests: Sequence[str]
    size: int
    """The compressed size of the layers and the configuration."""
    added: float
    config: ImageConfig
    manifest: ImageManifest

    @property
    def reference(self) -> str:
        """The image id in a container status: a name with a digest if the image was pulled, otherwise its id."""
        return self.digests[0] if self.digests else self.id


class ImageStore:
    """Images on disk. Layers are unpacked when a container first needs them, and shared by all containers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.blobs = BlobStore(directory / "blobs")
        self._layers = LayerStore(directory / "layers")

    # -- queries -----------------------------------------------------------------------------------------------------

    def list(self) -> list[StoredImage]:
        return list(self._images(self._read()))

    def get(self, name: str) -> StoredImage:
        """Return an image by its name, its digest, its id, or a unique prefix of its id. Raise ImageUnknown if there is
        none."""
        digest = self._digest(name)
        return self._image(digest, self._read().get(digest, _ImageEntry()))

    def _digest(self, name: str) -> str:
        """Return the digest of the image's manifest, even if the image itself cannot be read."""
        table = self._read()
        with suppress(BadReference):
            reference = parse_reference(name)
            for digest, entry in table.items():
                if _matches_reference(digest, entry, reference):
                    return digest
        if image := self._find_by_id(table, name):
            return image.digest
        raise ImageUnknown(name)

    def has(self, name: str) -> bool:
        try:
            self.get(name)
        except (ImageUnknown, BadImage):
            return False
        return True

    def is_unpacked(self, image: StoredImage) -> bool:
        """Whether all layers of the image are unpacked."""
        pairs = zip(image.config.rootfs.diff_ids, image.manifest.layers, strict=False)
        return all(self._layers.is_unpacked(diff_id, blob_digest=layer.digest) for diff_id, layer in pairs)

    def lower_layers(self, image: StoredImage) -> Sequence[Path]:
        """Return the directories of the image's layers, the lowest first, unpacking them if necessary."""
        diff_ids, layers = image.config.rootfs.diff_ids, image.manifest.layers
        if len(diff_ids) != len(layers):
            raise BadImage(f"the image has {len(layers)} layers, but diff IDs for {len(diff_ids)}")
        return [
            self._layers.unpack(self.blobs.path(layer.digest), diff_id, blob_digest=layer.digest)
            for diff_id, layer in zip(diff_ids, layers, strict=True)
        ]

    # -- changes -----------------------------------------------------------------------------------------------------

    def add(
        self, manifest_digest: str, *, names: Sequence[str] = (), digests: Sequence[str] = (), now: float
    ) -> StoredImage:
        """Add an image whose content is in `blobs`. A name that another image has is moved to this one."""
        self._check(manifest_digest)
        with self._locked_table() as table:
            for other in table.values():
                other.names = [name for name in other.names if name not in names]
            entry = table.setdefault(manifest_digest, _ImageEntry(added=now))
            entry.names = sorted({*entry.names, *names})
            entry.digests = sorted({*entry.digests, *digests})
        return self._image(manifest_digest, entry)

    def tag(self, name: str, new: str, *, now: float) -> None:
        self.add(self.get(name).digest, names=[str(parse_reference(new))], now=now)

    def remove(self, name: str) -> None:
        """Remove a name. The image itself is removed with its last name, or if `name` is an id or digest. Its content
        is kept until `prune`."""
        digest = self._digest(name)
        try:
            full = str(parse_reference(name))
        except BadReference:
            full = ""
        with self._locked_table() as table:
            entry = table.get(digest)
            if entry is None:
                return
            if full in entry.names and len(entry.names) > 1:
                entry.names.remove(full)
            else:
                del table[digest]

    def prune(self, used: Sequence[str] = ()) -> int:
        """Remove content that belongs neither to an image in the table nor to one of the images in `used` (digests of
        manifests). Return the number of compressed bytes freed."""
        with self._locked_table() as table:
            digests = [*table, *(digest for digest in used if self.blobs.has(digest))]
            blobs, layers = set[str](digests), set[str]()
            for image in self._images({digest: table.get(digest, _ImageEntry()) for digest in digests}):
                parts = (image.manifest.config, *image.manifest.layers)
                blobs |= {image.digest, *(part.digest for part in parts)}
                layers |= set(image.config.rootfs.diff_ids)
            self._layers.keep_only(layers, blobs)
            return self.blobs.keep_only(blobs)

    # -- internals ---------------------------------------------------------------------------------------------------

    def _image(self, digest: str, entry: _ImageEntry) -> StoredImage:
        manifest = read_manifest(self.blobs.read(digest))
        return StoredImage(
            id=manifest.config.digest,
            digest=digest,
            names=entry.names,
            digests=entry.digests,
            size=sum(layer.size for layer in manifest.layers) + manifest.config.size,
            added=entry.added,
            config=read_config(self.blobs.read(manifest.config.digest)),
            manifest=manifest,
        )

    def _images(self, table: _Table) -> Iterator[StoredImage]:
        """Yield the images of a table. An unreadable image, which an earlier version may have added, is logged and
        skipped."""
        for digest, entry in table.items():
            try:
                yield self._image(digest, entry)
            except BadImage as error:
                log.warning("image %s (%s) cannot be read: %s", digest, ", ".join(entry.names), error)

    def _check(self, digest: str) -> None:
        """Raise BadImage unless all content of the image is present."""
        manifest = read_manifest(self.blobs.read(digest))
        config = read_config(self.blobs.read(manifest.config.digest))
        if len(config.rootfs.diff_ids) != len(manifest.layers):
            message = f"the image has {len(manifest.layers)} layers, but diff IDs for {len(config.rootfs.diff_ids)}"
            raise BadImage(message)
        for layer in manifest.layers:
            if not self.blobs.has(layer.digest):
                raise BadImage(f"layer {layer.digest} is missing")

    def _find_by_id(self, table: _Table, text: str) -> StoredImage | None:
        part = text.removeprefix("sha256:")
        if len(part) < 4 or not all(letter in "0123456789abcdef" for letter in part):
            return None
        matches = [image for image in self._images(table) if image.id.removeprefix("sha256:").startswith(part)]
        return matches[0] if len(matches) == 1 else None

    @property
    def _file(self) -> Path:
        return self._directory / "images.json"

    def _read(self) -> _Table:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_Table)
        except FileNotFoundError:
            return {}

    @contextmanager
    def _locked_table(self) -> Iterator[_Table]:
        """Lock the table against other processes, and write it unless the block raises an exception."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o711)
        with open(self._directory / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            table = self._read()
            yield table
            self._write(table)

    def _write(self, table: _Table) -> None:
        write_durably(self._file, msgspec.json.encode(table), mode=0o600)


def _matches_reference(digest: str, entry: _ImageEntry, reference: ImageReference) -> bool:
    if not reference.digest:
        return str(reference) in entry.names
    if reference.digest == digest:
        return True
    return f"{reference.name}@{reference.digest}" in entry.digests
