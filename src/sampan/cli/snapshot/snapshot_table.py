"""`sampan snapshot ls`: list snapshot files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from sampan.api.values.ages import format_age
from sampan.cli.snapshot.save import snapshots_directory
from sampan.cli.status.cluster_report import size_text
from sampan.cluster.snapshot import SnapshotError, SnapshotManifest, read_manifest
from sampan.kubectl.printers.objects import as_json
from sampan.kubectl.printers.table import table_lines
from sampan.machinery.cli_errors import CliError
from sampan.runtimes.safe_paths import UnsafePath, open_file

_HEAD = ["FILE", "CLUSTER", "AGE", "SIZE", "OBJECTS", "IMAGES", "VOLUMES"]


@click.command("ls")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "-o", "--output", type=click.Choice(["", "json"]), default="", help="Output format: json is for programs."
)
def list_command(files: tuple[str, ...], output: str) -> None:
    """List snapshots: the given files, or those that were saved without the name of a file."""
    directory = snapshots_directory()
    paths = [Path(file) for file in files] or sorted(directory.glob("*.tar"))
    snapshots = [(path, _manifest(path, is_named=bool(files))) for path in paths]
    rows = [(path, manifest) for path, manifest in snapshots if manifest is not None]
    if output == "json":
        click.echo(as_json([_value(path, manifest) for path, manifest in rows]))
        return
    if not rows:
        click.echo("no snapshots; `sampan snapshot save` saves one")
        return
    for line in table_lines([_HEAD, *(_row(path, manifest) for path, manifest in rows)]):
        click.echo(line.rstrip())
    if not files:
        click.echo(f"\nin {directory}")


def _manifest(path: Path, *, is_named: bool) -> SnapshotManifest | None:
    """Return the manifest of a snapshot file. If the file is not a snapshot, raise an error if the user named it;
    otherwise print a warning and return None."""
    try:
        with open_file(path) as stream:
            return read_manifest(stream)
    except (SnapshotError, UnsafePath, OSError) as error:
        text = f"{path}: {error.strerror if isinstance(error, OSError) else error}"
        if is_named:
            raise CliError(text) from None
        click.echo(f"({text})", err=True)
        return None


def _row(path: Path, manifest: SnapshotManifest) -> list[str]:
    age = format_age(max(0.0, time.time() - manifest.created))
    counts = [str(manifest.objects), str(len(manifest.images)), str(len(manifest.volumes))]
    return [path.name, manifest.cluster, age, size_text(path.stat().st_size), *counts]


def _value(path: Path, manifest: SnapshotManifest) -> dict[str, Any]:
    return {
        "file": str(path),
        "cluster": manifest.cluster,
        "created": manifest.created,
        "sizeBytes": path.stat().st_size,
        "version": manifest.version,
        "revision": manifest.revision,
        "objects": manifest.objects,
        "images": manifest.images,
        "volumes": manifest.volumes,
        "skipped": manifest.skipped,
    }
