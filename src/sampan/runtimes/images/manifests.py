"""Image documents: indexes (one image per platform), manifests (the layers of an image), and image configurations."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from sampan.api import limits
from sampan.runtimes.images.reference import is_digest

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
INDEXES = frozenset({OCI_INDEX, DOCKER_LIST})
MANIFESTS = frozenset({OCI_MANIFEST, DOCKER_MANIFEST})

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


T = TypeVar("T")


class BadImage(ValueError):
    """The image is malformed; the message gives the reason."""


class Platform(msgspec.Struct, frozen=True):
    architecture: str = ""
    os: str = ""
    variant: str = ""


class ImageDescriptor(msgspec.Struct, frozen=True, omit_defaults=True, rename={"media_type": "mediaType"}):
    digest: str
    size: int = 0
    media_type: str = ""
    platform: Platform | None = None
    annotations: dict[str, str] = {}


class ImageIndex(msgspec.Struct, frozen=True):
    manifests: list[ImageDescriptor] = []


class ImageManifest(msgspec.Struct, frozen=True):
    config: ImageDescriptor
    layers: list[ImageDescriptor] = []


class RunConfig(msgspec.Struct, frozen=True, rename="pascal"):
    """The defaults for running the image, which a container may override."""

    user: str = ""
    env: list[str] | None = None
    entrypoint: list[str] | None = None
    cmd: list[str] | None = None
    working_dir: str = ""
    stop_signal: str = ""
    volumes: dict[str, Any] | None = None
    exposed_ports: dict[str, Any] | None = None
    labels: dict[str, str] | None = None


class RootFs(msgspec.Struct, frozen=True):
    type: str = "layers"
    diff_ids: list[str] = []


class ImageConfig(msgspec.Struct, frozen=True):
    architecture: str = ""
    os: str = "linux"
    config: RunConfig | None = None
    rootfs: RootFs = RootFs()
    created: str | None = None

    @property
    def run(self) -> RunConfig:
        return self.config or RunConfig()


def read_index(data: bytes) -> ImageIndex:
    return _read(data, ImageIndex, "an index")


def read_manifest(data: bytes) -> ImageManifest:
    """Parse a manifest. Raise BadImage also for invalid digests and sizes, as they become parts of paths and
    requests."""
    manifest = _read(data, ImageManifest, "a manifest")
    for part in (manifest.config, *manifest.layers):
        _check(part)
    if len(manifest.layers) > limits.IMAGE_LAYERS:
        raise BadImage(f"the image has {len(manifest.layers)} layers, more than {limits.IMAGE_LAYERS}")
    if manifest.config.size > limits.IMAGE_DOCUMENT_BYTES:
        raise BadImage(f"the image's configuration is larger than {limits.IMAGE_DOCUMENT_BYTES} bytes")
    return manifest


def read_config(data: bytes) -> ImageConfig:
    """Parse a configuration. Raise BadImage also for diff ids that are not digests, as they become parts of paths."""
    config = _read(data, ImageConfig, "a configuration")
    for diff_id in config.rootfs.diff_ids:
        if not is_digest(diff_id):
            raise BadImage(
                f"the image's configuration names a layer {diff_id[:200]!r}, which is not a digest (sha256:…)"
            )
    return config


def _check(part: ImageDescriptor) -> None:
    if not is_digest(part.digest):
        raise BadImage(f"the image names content {part.digest[:200]!r}, which is not a digest (sha256:…)")
    if not 0 <= part.size <= limits.IMAGE_LAYER_BYTES:
        raise BadImage(f"the image names content of {part.size} bytes, not between 0 and {limits.IMAGE_LAYER_BYTES}")


def media_type_of(data: bytes) -> str:
    """Return the media type that a document declares, or else the one that its fields imply."""
    try:
        manifest = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadImage("the manifest is not JSON") from None
    if media_type := manifest.get("mediaType"):
        return str(media_type)
    if "manifests" in manifest:
        return OCI_INDEX
    return OCI_MANIFEST if "layers" in manifest and "config" in manifest else ""


def detect_platform() -> Platform:
    machine = platform.machine()
    return Platform(architecture=_ARCHITECTURES.get(machine, machine), os="linux")


def select_manifest(index: ImageIndex, platform: Platform) -> ImageDescriptor:
    """Return the manifest for a platform, or else the first one without a platform. Raise BadImage if there is none."""
    descriptor = _select_by_platform(index, platform)
    _check(descriptor)
    return descriptor


def _select_by_platform(index: ImageIndex, platform: Platform) -> ImageDescriptor:
    images = [descriptor for descriptor in index.manifests if descriptor.media_type in MANIFESTS | INDEXES | {""}]
    for descriptor in images:
        candidate = descriptor.platform
        if candidate is not None and (candidate.architecture, candidate.os) == (platform.architecture, platform.os):
            return descriptor
    if unmarked := [descriptor for descriptor in images if descriptor.platform is None]:
        return unmarked[0]
    platforms = sorted(
        {f"{descriptor.platform.os}/{descriptor.platform.architecture}" for descriptor in images if descriptor.platform}
    )
    raise BadImage(f"there is no image for {platform.os}/{platform.architecture}, only for {_format_list(platforms)}")


def _format_list(words: Sequence[str]) -> str:
    return ", ".join(words) or "nothing"


def _read(data: bytes, type: type[T], problem: str) -> T:
    if len(data) > limits.IMAGE_DOCUMENT_BYTES:
        raise BadImage(f"{problem} of an image may not be larger than {limits.IMAGE_DOCUMENT_BYTES} bytes")
    try:
        return msgspec.json.decode(data, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadImage(f"this is not {problem} of an image: {error}") from None
