"""Snapshots of clusters: the objects, images and volumes of one cluster in a file, and forks of running clusters.

A snapshot is a tar archive. `manifest` describes it and says which entries it may have, `store_file` copies the objects
at one revision and adapts them to another data directory, `archive` writes and reads the file, and `data_copy` copies
images and volumes into a fork without reading them where the file system allows. An archive is hostile input: it is
unpacked into an empty private directory, with no links, within limits, and checked before any of it is used.
"""

from sampan.cluster.snapshot.archive import read_archive, read_manifest, write_archive
from sampan.cluster.snapshot.data_copy import copy_images, copy_keys, copy_volumes
from sampan.cluster.snapshot.manifest import SnapshotError, SnapshotManifest
from sampan.cluster.snapshot.store_file import (
    Relocation,
    copy_store_file,
    describe_store,
    relocate_objects,
    remove_tokens,
)

__all__ = [
    "Relocation",
    "SnapshotError",
    "SnapshotManifest",
    "copy_images",
    "copy_keys",
    "copy_store_file",
    "copy_volumes",
    "describe_store",
    "read_archive",
    "read_manifest",
    "relocate_objects",
    "remove_tokens",
    "write_archive",
]
