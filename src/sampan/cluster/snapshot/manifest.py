"""The description of a snapshot, its first entry, and the rules for the names of its entries."""

from __future__ import annotations

import re

import msgspec

from sampan.api.codec.errors import JSON_ERRORS

FORMAT = 1
MANIFEST, CHECKSUMS = "snapshot.json", "checksums.json"
"""The first and the last entry of an archive."""
STORE, FLAGS = "state.db", "flags.json"
IMAGE_TABLE = "images/images.json"
VOLUMES = "volumes"
DOCUMENT_BYTES = 4 << 20
"""The maximum size of the manifest, of the flags and of a key or certificate."""
CHECKSUMS_BYTES = 256 << 20
MAX_VOLUME_ENTRIES = 900_000
"""The number of files and directories of volumes that a snapshot can have. The reader of archives refuses more than a
million entries, of which other content may need some."""

_KEY = re.compile(r"pki/[a-z0-9][a-z0-9.-]{0,100}", re.ASCII)
_BLOB = re.compile(r"images/blobs/sha256/([0-9a-f]{64})", re.ASCII)


class SnapshotError(ValueError):
    """The file is not a snapshot that this version can restore, or it is damaged."""


class SnapshotManifest(msgspec.Struct, kw_only=True, omit_defaults=True):
    format: int
    cluster: str
    """The name of the cluster."""
    version: str = ""
    """The version of Sampan that wrote the snapshot."""
    created: float = 0
    """The time of the snapshot, in seconds since the epoch."""
    store_format: int = 0
    revision: int = 0
    """The revision of the store at which the objects are copied."""
    objects: int = 0
    images: list[str] = []
    volumes: list[str] = []
    volume_root: str = ""
    """The directory of the volumes in the original cluster, which objects such as PersistentVolumes refer to."""
    local_nodes: list[str] = []
    """The nodes that the original cluster ran in its own process."""
    skipped: int = 0
    """The number of links, special files and other entries of volumes that are not in the snapshot."""


def decode_manifest(content: bytes) -> SnapshotManifest:
    try:
        version = msgspec.json.decode(content, type=_ManifestVersion).format
        if version != FORMAT:
            raise SnapshotError(f"it has format {version}; this Sampan reads format {FORMAT}: use another version")
        return msgspec.json.decode(content, type=SnapshotManifest)
    except JSON_ERRORS as error:
        raise SnapshotError(f"{MANIFEST} cannot be read: {error}") from None


class _ManifestVersion(msgspec.Struct):
    format: int


def is_allowed_file(name: str) -> bool:
    """Whether a snapshot may have a file with this name."""
    if name in (MANIFEST, CHECKSUMS, STORE, FLAGS, IMAGE_TABLE) or _BLOB.fullmatch(name):
        return True
    return bool(_KEY.fullmatch(name)) or is_in_volume(name)


def is_in_volume(name: str) -> bool:
    """Whether the name is that of an entry below the directory of volumes, and does not lead out of it."""
    first, *parts = name.split("/")
    return first == VOLUMES and bool(parts) and all(part not in ("", ".", "..") for part in parts)


def digest_in_name(name: str) -> str:
    """Return the digest in the name of a file that is named by its content; empty for all other files."""
    match = _BLOB.fullmatch(name)
    return match[1] if match else ""
