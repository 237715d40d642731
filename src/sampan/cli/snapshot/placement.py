"""Put the copy of a cluster into a data directory: its flags, and objects that name the place of the original."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.cli.local_cluster.cluster_dir import ClusterDir
from sampan.cluster.snapshot import Relocation, SnapshotError, SnapshotManifest, relocate_objects
from sampan.machinery.private_files import write_private

STORE_FLAGS = frozenset({"store", "etcd_servers"})
"""The flags of the original store: the copy has a SQLite store of its own."""
HOST_FLAGS = frozenset({"secure_port", "chosen_port", "cluster_cidr", "bind_address"})
"""The flags whose values only one running cluster of a machine can have."""


def write_flags(source: Path, target: Path, dropped: Collection[str]) -> None:
    """Copy the remembered flags of a cluster, except some."""
    if not source.exists():
        return
    try:
        values = msgspec.json.decode(source.read_bytes(), type=dict[str, Any])
    except JSON_ERRORS as error:
        raise SnapshotError(f"{source.name} cannot be read: {error}") from None
    write_private(target, msgspec.json.encode({key: value for key, value in values.items() if key not in dropped}))


def relocate(store: Path, manifest: SnapshotManifest, where: ClusterDir, *, drops_other_nodes: bool) -> None:
    """Adapt the objects of a copied store to the data directory of the new cluster."""
    relocation = Relocation(
        old_volumes=manifest.volume_root,
        new_volumes=str(where.volumes),
        local_nodes=manifest.local_nodes,
        drops_other_nodes=drops_other_nodes,
    )
    relocate_objects(store, relocation)
    for suffix in (".lock", ".reserve"):  # files of the process that had the store open
        Path(f"{store}{suffix}").unlink(missing_ok=True)


def up_command(where: ClusterDir, data_dir: str | None) -> str:
    return f"sampan up --data-dir {data_dir}" if data_dir is not None else f"sampan up --name {where.path.name}"


def free_bytes(path: Path) -> int:
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize
