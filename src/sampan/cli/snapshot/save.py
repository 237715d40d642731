"""`sampan snapshot save`: copy the store of a cluster, which may be running, and describe the cluster."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click

from sampan import __version__
from sampan.cli.local_cluster import rootless
from sampan.cli.local_cluster.cluster_dir import (
    ClusterDir,
    RunningCluster,
    running_cluster_options,
    select_cluster,
)
from sampan.cli.local_cluster.cluster_registry import clusters_root
from sampan.cli.local_cluster.sudo_user import hand_over
from sampan.cli.status.cluster_report import size_text
from sampan.cluster.snapshot import SnapshotManifest, copy_store_file, describe_store, write_archive
from sampan.cluster.snapshot.archive import count_skipped
from sampan.cluster.snapshot.data_copy import image_names
from sampan.cluster.snapshot.manifest import FORMAT
from sampan.cluster.snapshot.store_file import StoreSummary, build_store_file
from sampan.host.durable_files import open_new_file
from sampan.kubectl.client.session import Session
from sampan.machinery.cli_errors import CliError
from sampan.machinery.client import kubeconfig
from sampan.storage.backend import KeyValue

_EVENT_TTL_S = 3600.0
__all__ = ["copied_store", "copy_store", "describe", "describe_store", "local_nodes", "require_cluster"]


def snapshots_directory() -> Path:
    """Return the default directory of snapshots, for commands without a file name."""
    return clusters_root() / ".snapshots"


@click.command("save")
@click.argument("file", required=False, metavar="[FILE]")
@running_cluster_options
@click.option("--no-images", is_flag=True, help="Leave the images out; nodes pull them again.")
@click.option("--no-volumes", is_flag=True, help="Leave the data of volumes out.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def save_command(
    file: str | None, data_dir: str | None, cluster: str | None, no_images: bool, no_volumes: bool, force: bool
) -> None:
    """Save a cluster, which may be running, to FILE.

    The objects are those of one moment. Files of volumes are copied one after another while pods may write to them:
    stop the cluster if that matters. Only you can read the file, which has the keys and secrets of the cluster. Without
    FILE it goes to the directory that `sampan snapshot ls` lists.
    """
    directory = require_cluster(select_cluster(data_dir, cluster))
    target = Path(file).absolute() if file is not None else _default_file(directory)
    if target.exists() and not force:
        raise CliError(f"{target} exists; --force replaces it")
    save = partial(_save, directory, target, has_images=not no_images, has_volumes=not no_volumes)
    if not no_volumes and needs_user_namespace(directory):
        raise SystemExit(rootless.run_inside(save, has_outgoing=False))
    save()


def needs_user_namespace(directory: ClusterDir) -> bool:
    """Whether files of the cluster may belong to other users of the user namespace in which its pods run."""
    return os.geteuid() != 0 and directory.volumes.is_dir() and rootless.is_possible()


def _default_file(directory: ClusterDir) -> Path:
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return snapshots_directory() / f"{directory.name}-{moment}.tar"


def _save(directory: ClusterDir, target: Path, *, has_images: bool, has_volumes: bool) -> None:
    began = time.monotonic()
    if target.parent == snapshots_directory():
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        hand_over([target.parent])
    with copied_store(directory) as store:
        manifest = describe(directory, describe_store(store))
        if has_images:
            manifest.images = image_names(directory.images)
        if has_volumes and directory.volumes.is_dir():
            manifest.volumes = sorted(entry.name for entry in os.scandir(directory.volumes) if entry.is_dir())
            manifest.skipped = count_skipped(directory.volumes)
        _write(directory, target, manifest, store, has_images=has_images, has_volumes=has_volumes)
    hand_over([target])
    took = time.monotonic() - began
    click.echo(f"saved {directory.name} to {target}")
    for line in [*contents(manifest), f"size      {size_text(target.stat().st_size)}, written in {took:.2f} s"]:
        click.echo(f"  {line}")
    click.echo(f"  restore   sampan snapshot restore {target} --name NAME")


def _write(
    directory: ClusterDir, target: Path, manifest: SnapshotManifest, store: Path, *, has_images: bool, has_volumes: bool
) -> None:
    """Write the snapshot to a temporary file, and rename it to `target` when it is complete."""
    try:
        with open_new_file(target.parent, mode=0o600) as new:
            write_archive(
                new.stream,
                manifest,
                store=store,
                directory=directory.path,
                has_images=has_images,
                has_volumes=has_volumes,
            )
            new.publish(target)
    except OSError as error:
        raise CliError(f"cannot write {target}: {error.strerror}: {error.filename or target}") from None


def contents(manifest: SnapshotManifest) -> list[str]:
    """Return lines that describe the content of a snapshot: objects, images and volumes."""
    lines = [f"objects   {manifest.objects} at revision {manifest.revision}"]
    if manifest.images:
        lines.append(f"images    {_names(manifest.images)}")
    if manifest.volumes:
        lines.append(f"volumes   {_names([name.partition('_')[2] or name for name in manifest.volumes])}")
    if manifest.skipped:
        lines.append(f"left out  {manifest.skipped} links, special files and too long paths in volumes")
    return lines


def _names(names: list[str], maximum: int = 3) -> str:
    shown = [name if len(name) <= 45 else f"…{name[-44:]}" for name in names[:maximum]]
    more = f" and {len(names) - maximum} more" if len(names) > maximum else ""
    return f"{len(names)}: " + "\n            ".join(shown) + more


def require_cluster(directory: ClusterDir) -> ClusterDir:
    """Return the cluster if it exists and can be copied. Raise CliError otherwise."""
    if directory.is_joined:
        raise CliError(f"{directory.path} is that of a node that joined a cluster; save the cluster where its store is")
    if not directory.is_cluster:
        if os.path.exists(directory.path) and directory.is_unreadable:
            raise CliError(f"--data-dir: cannot read {directory.path}: Permission denied")
        raise CliError(f"--name: there is no cluster in {directory.path}; `sampan status` lists the clusters")
    if not os.access(directory.pki, os.R_OK | os.X_OK):
        raise CliError(f"--data-dir: cannot read {directory.pki}: the keys are root's; use sudo")
    return directory


@contextmanager
def copied_store(directory: ClusterDir) -> Iterator[Path]:
    """Provide a copy of the store at one revision, in a file that is removed at the end of the block."""
    with tempfile.TemporaryDirectory(dir=directory.path, prefix=".state.db.") as scratch:
        copy = Path(scratch) / "state.db"
        copy_store(directory, copy)
        yield copy


def copy_store(directory: ClusterDir, target: Path) -> None:
    note = directory.read_note_if_running()
    if note is not None and note.store != "sqlite":
        build_store_file(_entries(note), target, event_ttl_s=_EVENT_TTL_S)
        target.with_name(f"{target.name}.lock").unlink(missing_ok=True)
    elif directory.database.exists():
        copy_store_file(directory.database, target)
    else:
        raise CliError(
            f"{directory.path} has no store: the objects of a cluster in memory or etcd are copied while it runs"
        )


def _entries(note: RunningCluster) -> Iterator[KeyValue]:
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


def describe(directory: ClusterDir, store: StoreSummary) -> SnapshotManifest:
    """Describe a cluster, without its images and volumes."""
    return SnapshotManifest(
        format=FORMAT,
        cluster=directory.name,
        version=__version__,
        created=time.time(),
        store_format=store.format,
        revision=store.revision,
        objects=store.objects,
        volume_root=str(directory.volumes),
        local_nodes=local_nodes(directory),
    )


def local_nodes(cluster_directory: ClusterDir) -> list[str]:
    """Return the real nodes that the cluster runs in its own process."""
    directory = cluster_directory.path / "nodes"
    return sorted(entry.name for entry in os.scandir(directory) if entry.is_dir()) if directory.is_dir() else []
