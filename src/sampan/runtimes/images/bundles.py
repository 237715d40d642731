"""Images in the form in which they are loaded into an engine: a manifest, a configuration and layers with their
digests."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sampan.runtimes.images import manifests
from sampan.runtimes.images.manifests import detect_platform
from sampan.runtimes.images.store import ImageStore, StoredImage

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBlob:
    media_type: str
    digest: str
    content: bytes | Path

    @property
    def size(self) -> int:
        return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size

    def open(self) -> IO[bytes]:
        return io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content.open("rb")

    def pieces(self) -> Iterator[bytes]:
        with self.open() as file:
            while data := file.read(_CHUNK):
                yield data

    @property
    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBundle:
    name: str
    """The full name including the tag."""
    manifest: ImageBlob
    config: ImageBlob
    layers: Sequence[ImageBlob]


def single_layer_bundle(name: str, run: Mapping[str, Any], layer: bytes) -> ImageBundle:
    """Return an image with one layer, which is an uncompressed archive. `run` is its run configuration."""
    object_config = {
        "architecture": detect_platform().architecture,
        "os": "linux",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    config = _blob(manifests.OCI_CONFIG, json.dumps(object_config).encode())
    only = _blob(manifests.OCI_LAYER, layer)
    manifest = {
        "schemaVersion": 2,
        "mediaType": manifests.OCI_MANIFEST,
        "config": config.descriptor,
        "layers": [only.descriptor],
    }
    return ImageBundle(
        name=name,
        manifest=_blob(manifests.OCI_MANIFEST, json.dumps(manifest).encode()),
        config=config,
        layers=[only],
    )


def bundle_from_store(store: ImageStore, image: StoredImage, name: str) -> ImageBundle:
    """Return an image of Sampan's own store."""
    blobs, manifest = store.blobs, store.blobs.read(image.digest)
    kind = manifests.media_type_of(manifest) or manifests.OCI_MANIFEST
    config, *layers = (
        ImageBlob(media_type=descriptor.media_type, digest=descriptor.digest, content=blobs.path(descriptor.digest))
        for descriptor in (image.manifest.config, *image.manifest.layers)
    )
    whole = ImageBlob(media_type=kind, digest=image.digest, content=manifest)
    return ImageBundle(name=name, manifest=whole, config=config, layers=layers)


def write_docker_archive(bundle: ImageBundle, out: IO[bytes]) -> None:
    """Write the image in the format of `docker save`."""
    names = [f"layer-{number}.tar" for number in range(len(bundle.layers))]
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [bundle.name], "Layers": names}]).encode()
    with tarfile.open(fileobj=out, mode="w") as archive:
        _add(archive, "manifest.json", _blob("", manifest))
        _add(archive, "config.json", bundle.config)
        for name, layer in zip(names, bundle.layers, strict=True):
            _add(archive, name, layer)


def _add(archive: tarfile.TarFile, name: str, part: ImageBlob) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = part.size, 0o644
    with part.open() as file:
        archive.addfile(member, file)


def _blob(media_type: str, content: bytes) -> ImageBlob:
    return ImageBlob(media_type=media_type, digest=_digest(content), content=content)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
