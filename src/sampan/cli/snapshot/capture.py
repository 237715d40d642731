"""Copy the store of a cluster, which may be running, and describe the cluster."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sampan import __version__
from sampan.cli.failures import CliError
from sampan.cli.kubectl.session import Session
from sampan.cli.local_cluster.cluster_dir import ClusterDir, Running
from sampan.cluster.snapshot import SnapshotManifest, copy_store_file, describe_store
from sampan.cluster.snapshot.manifest import FORMAT
from sampan.cluster.snapshot.store_file import StoreSummary, build_store_file
from sampan.machinery.client import kubeconfig
from sampan.storage.backend import KeyValue

_EVENT_TTL_S = 3600.0


def existing_cluster(where: ClusterDir) -> ClusterDir:
    """Return the cluster if it exists and can be copied. Raise CliError otherwise."""
    if where.is_joined:
        raise CliError(f"{where.path} is that of a node that joined a cluster; save the cluster where its store is")
    if not where.is_cluster:
        if os.path.exists(where.path) and where.is_unreadable:
            raise CliError(f"--data-dir: cannot read {where.path}: Permission denied")
        raise CliError(f"--name: there is no cluster in {where.path}; `sampan status` lists the clusters")
    if not os.access(where.pki, os.R_OK | os.X_OK):
        raise CliError(f"--data-dir: cannot read {where.pki}: the keys are root's; use sudo")
    return where


@contextmanager
def copied_store(where: ClusterDir) -> Iterator[Path]:
    """Provide a copy of the store at one revision, in a file that is removed at the end of the block."""
    with tempfile.TemporaryDirectory(dir=where.path, prefix=".state.db.") as scratch:
        copy = Path(scratch) / "state.db"
        copy_store(where, copy)
        yield copy


def copy_store(where: ClusterDir, target: Path) -> None:
    note = where.running()
    if note is not None and note.store != "sqlite":
        build_store_file(_entries(note), target, event_ttl_s=_EVENT_TTL_S)
        target.with_name(f"{target.name}.lock").unlink(missing_ok=True)
    elif where.database.exists():
        copy_store_file(where.database, target)
    else:
        raise CliError(
            f"{where.path} has no store: the objects of a cluster in memory or etcd are copied while it runs"
        )


def _entries(note: Running) -> Iterator[KeyValue]:
    """Yield the entries of the store of a running cluster, which its API server reads at one revision."""
    session = Session(kubeconfig.load(Path(note.kubeconfig)), "")
    try:
        for line in session.lines("/debug/store", {}):
            yield _decode_entry(line)
    finally:
        session.close()


def _decode_entry(line: dict[str, str]) -> KeyValue:
    from base64 import b64decode

    return KeyValue(key=line["key"], value=b64decode(line["value"]), revision=0, create_revision=0)


def describe(where: ClusterDir, store: StoreSummary) -> SnapshotManifest:
    """Describe a cluster, without its images and volumes."""
    return SnapshotManifest(
        format=FORMAT,
        cluster=where.path.name,
        version=__version__,
        created=time.time(),
        store_format=store.format,
        revision=store.revision,
        objects=store.objects,
        volume_root=str(where.volumes),
        local_nodes=local_nodes(where),
    )


def local_nodes(where: ClusterDir) -> list[str]:
    """Return the real nodes that the cluster runs in its own process."""
    directory = where.path / "nodes"
    return sorted(entry.name for entry in os.scandir(directory) if entry.is_dir()) if directory.is_dir() else []


__all__ = ["copied_store", "copy_store", "describe", "describe_store", "existing_cluster", "local_nodes"]
