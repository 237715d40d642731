"""Images from files: archives that `docker save` writes, and archives and folders in the OCI layout."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

import msgspec

from sampan.runtimes.images import manifests
from sampan.runtimes.images.layers import diff_id_of
from sampan.runtimes.images.manifests import BadImage, Descriptor, Platform
from sampan.runtimes.images.reference import BadReference, parse_reference
from sampan.runtimes.images.store import Image, ImageStore

_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_MOST_DOCUMENT = 8 << 20


def load(store: ImageStore, path: Path, *, now: float, platform: Platform | None = None) -> list[Image]:
    """Every image in a file or folder, in whichever of the forms. `BadImage` if there is none."""
    with _opened(path) as files:
        loader = _Loader(store, files, platform or manifests.own_platform(), now)
        if files.has("index.json"):
            return loader.oci()
        if files.has("manifest.json"):
            return loader.docker()
    raise BadImage(f"{path}: there is no image in it: neither index.json (OCI) nor manifest.json (docker save)")


class _Files:
    """The files of an archive or of a folder, by their names in it."""

    def __init__(self, root: Path, archive: tarfile.TarFile | None) -> None:
        self._root, self._archive = root, archive
        self._members = {}
        if archive is not None:
            self._members = {str(PurePosixPath(member.name)): member for member in archive.getmembers()}

    def has(self, name: str) -> bool:
        return name in self._members if self._archive is not None else (self._root / name).is_file()

    def read(self, name: str) -> bytes:
        with self.open(name) as file:
            data = file.read(_MOST_DOCUMENT + 1)
        if len(data) > _MOST_DOCUMENT:
            raise BadImage(f"{name} is too large")
        return data

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise BadImage(f"the archive names a file {name!r}")
        if self._archive is None:
            try:
                with open(self._root / name, "rb") as plain:
                    yield plain
            except FileNotFoundError:
                raise BadImage(f"{name} is missing") from None
            return
        member = self._members.get(name)
        file = self._archive.extractfile(self._followed(member)) if member is not None else None
        if file is None:
            raise BadImage(f"{name} is missing from the archive")
        with file:
            yield cast(BinaryIO, file)

    def _followed(self, member: tarfile.TarInfo) -> tarfile.TarInfo:
        """Old Docker archives have a layer once, and links to it."""
        if not member.issym():
            return member
        target = PurePosixPath(os.path.normpath(PurePosixPath(member.name).parent / member.linkname))
        found = self._members.get(str(target))
        if found is None or found.issym():
            raise BadImage(f"{member.name} is a link to nothing")
        return found


@contextmanager
def _opened(path: Path) -> Iterator[_Files]:
    if path.is_dir():
        yield _Files(path, None)
        return
    try:
        with tarfile.open(path) as archive:
            yield _Files(path, archive)
    except tarfile.TarError as fault:
        raise BadImage(f"{path}: {fault}") from None
    except OSError as fault:
        raise BadImage(f"{path}: {fault.strerror or fault}") from None


class _Loader:
    def __init__(self, store: ImageStore, files: _Files, platform: Platform, now: float) -> None:
        self._store, self._files, self._platform, self._now = store, files, platform, now

    # -- OCI ---------------------------------------------------------------------------------------------------------

    def oci(self) -> list[Image]:
        index = manifests.read_index(self._files.read("index.json"))
        wanted = [each for each in index.manifests if self._is_ours(each)]
        if not wanted:
            manifests.chosen(index, self._platform)
            raise BadImage("there is no image in it")
        return [self._oci_image(each) for each in wanted]

    def _is_ours(self, each: Descriptor) -> bool:
        if each.media_type not in manifests.MANIFESTS | manifests.INDEXES | {""}:
            return False
        there = each.platform
        ours = self._platform
        return there is None or (there.architecture, there.os) in ((ours.architecture, ours.os), ("", ""))

    def _oci_image(self, descriptor: Descriptor) -> Image:
        digest = self._manifest(descriptor.digest)
        manifest = manifests.read_manifest(self._store.blobs.read(digest))
        for part in (manifest.config, *manifest.layers):
            if not self._store.blobs.has(part.digest):
                with self._files.open(_blob(part.digest)) as file:
                    self._store.blobs.put_stream(file, part.digest)
        return self._store.add(digest, names=_names(descriptor), now=self._now)

    def _manifest(self, digest: str) -> str:
        """Down through indexes to the manifest for this platform."""
        data = self._files.read(_blob(digest))
        if manifests.media_type_of(data) in manifests.INDEXES:
            return self._manifest(manifests.chosen(manifests.read_index(data), self._platform).digest)
        return self._store.blobs.put(data, digest)

    # -- docker save -------------------------------------------------------------------------------------------------

    def docker(self) -> list[Image]:
        try:
            rows = msgspec.json.decode(self._files.read("manifest.json"), type=list[dict[str, Any]])
        except msgspec.DecodeError as fault:
            raise BadImage(f"manifest.json: {fault}") from None
        return [self._docker_image(row) for row in rows]

    def _docker_image(self, row: dict[str, Any]) -> Image:
        config = self._files.read(str(row.get("Config", "")))
        config_digest = self._store.blobs.put(config)
        layers = [self._layer(str(name)) for name in row.get("Layers") or ()]
        manifest = {
            "schemaVersion": 2,
            "mediaType": manifests.OCI_MANIFEST,
            "config": {"mediaType": manifests.OCI_CONFIG, "digest": config_digest, "size": len(config)},
            "layers": layers,
        }
        digest = self._store.blobs.put(json.dumps(manifest).encode())
        names = [str(parse_reference(str(name))) for name in row.get("RepoTags") or ()]
        return self._store.add(digest, names=names, now=self._now)

    def _layer(self, name: str) -> dict[str, Any]:
        with self._files.open(name) as file:
            digest = self._store.blobs.put_stream(file)
        path = self._store.blobs.path(digest)
        packed = "" if diff_id_of(path) == digest else "+gzip"
        return {"mediaType": manifests.OCI_LAYER + packed, "digest": digest, "size": path.stat().st_size}


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/', 1)}"


def _names(descriptor: Descriptor) -> Sequence[str]:
    """As whoever wrote the archive called it; a bare tag names nothing."""
    for key in _NAMES:
        text = descriptor.annotations.get(key, "")
        if "/" in text or ":" in text:
            try:
                return [str(parse_reference(text))]
            except BadReference:
                continue
    return []


def save(store: ImageStore, image: Image, path: Path) -> None:
    """Write an image as an archive in the OCI layout."""
    name = dict.fromkeys(_NAMES[:1], image.names[0]) if image.names else {}
    described = {
        "mediaType": manifests.media_type_of(store.blobs.read(image.digest)) or manifests.OCI_MANIFEST,
        "digest": image.digest,
        "size": store.blobs.path(image.digest).stat().st_size,
        "annotations": name,
    }
    index = {"schemaVersion": 2, "mediaType": manifests.OCI_INDEX, "manifests": [described]}
    parts = [image.digest, image.manifest.config.digest, *(layer.digest for layer in image.manifest.layers)]
    scratch = path.with_name(f".{path.name}.new")
    try:
        with tarfile.open(scratch, mode="w") as archive:
            _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
            _add(archive, "index.json", json.dumps(index).encode())
            for digest in dict.fromkeys(parts):
                archive.add(store.blobs.path(digest), arcname=_blob(digest))
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


__all__ = ["load", "save"]
