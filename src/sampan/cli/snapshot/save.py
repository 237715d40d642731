"""`sampan snapshot save`."""

from __future__ import annotations

import os
import tempfile
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click

from sampan.cli.failures import CliError
from sampan.cli.local_cluster import rootless
from sampan.cli.local_cluster.cluster_dir import ClusterDir, clusters_root, running_cluster_options, selected_cluster
from sampan.cli.local_cluster.sudo_user import hand_over
from sampan.cli.snapshot.capture import copied_store, describe, existing_cluster
from sampan.cli.status.cluster_report import size_text
from sampan.cluster.snapshot import SnapshotManifest, describe_store, write_archive
from sampan.cluster.snapshot.archive import count_skipped
from sampan.cluster.snapshot.data_copy import image_names


def snapshots_directory() -> Path:
    """Return the directory of snapshots that are saved without the name of a file."""
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
    where = existing_cluster(selected_cluster(data_dir, cluster))
    target = Path(file).absolute() if file is not None else _default_file(where)
    if target.exists() and not force:
        raise CliError(f"{target} exists; --force replaces it")
    save = partial(_save, where, target, has_images=not no_images, has_volumes=not no_volumes)
    if not no_volumes and needs_user_namespace(where):
        raise SystemExit(rootless.run_inside(save, has_outgoing=False))
    save()


def needs_user_namespace(where: ClusterDir) -> bool:
    """Whether files of the cluster may belong to other users of the user namespace in which its pods run."""
    return os.geteuid() != 0 and where.volumes.is_dir() and rootless.is_possible()


def _default_file(where: ClusterDir) -> Path:
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return snapshots_directory() / f"{where.path.name}-{moment}.tar"


def _save(where: ClusterDir, target: Path, *, has_images: bool, has_volumes: bool) -> None:
    began = time.monotonic()
    if target.parent == snapshots_directory():
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        hand_over([target.parent])
    with copied_store(where) as store:
        manifest = describe(where, describe_store(store))
        if has_images:
            manifest.images = image_names(where.images)
        if has_volumes and where.volumes.is_dir():
            manifest.volumes = sorted(entry.name for entry in os.scandir(where.volumes) if entry.is_dir())
            manifest.skipped = count_skipped(where.volumes)
        _write(where, target, manifest, store, has_images=has_images, has_volumes=has_volumes)
    hand_over([target])
    took = time.monotonic() - began
    click.echo(f"saved {where.path.name} to {target}")
    for line in [*contents(manifest), f"size      {size_text(target.stat().st_size)}, written in {took:.2f} s"]:
        click.echo(f"  {line}")
    click.echo(f"  restore   sampan snapshot restore {target} --name NAME")


def _write(
    where: ClusterDir, target: Path, manifest: SnapshotManifest, store: Path, *, has_images: bool, has_volumes: bool
) -> None:
    """Write the file under another name, and rename it when it is complete."""
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as out:
            try:
                write_archive(
                    out,
                    manifest,
                    store=store,
                    directory=where.path,
                    has_images=has_images,
                    has_volumes=has_volumes,
                )
                out.flush()
                os.fsync(out.fileno())
                os.replace(out.name, target)  # a temporary file can be read only by its owner
            except BaseException:
                os.unlink(out.name)
                raise
    except OSError as error:
        raise CliError(f"cannot write {target}: {error.strerror}: {error.filename or target}") from None


def contents(manifest: SnapshotManifest) -> list[str]:
    """Return lines that say what a snapshot has."""
    lines = [f"objects   {manifest.objects} at revision {manifest.revision}"]
    if manifest.images:
        lines.append(f"images    {_names(manifest.images)}")
    if manifest.volumes:
        lines.append(f"volumes   {_names([name.partition('_')[2] or name for name in manifest.volumes])}")
    if manifest.skipped:
        lines.append(f"left out  {manifest.skipped} links and special files in volumes")
    return lines


def _names(names: list[str], most: int = 3) -> str:
    shown = [name if len(name) <= 45 else f"…{name[-44:]}" for name in names[:most]]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{len(names)}: " + "\n            ".join(shown) + more
