"""`sampan status`: the clusters of this machine's user."""

from __future__ import annotations

import time

import click

from sampan.cli.cluster_dir import ClusterDir, Running, cluster_dir, clusters_root


@click.command("status")
@click.option("--data-dir", metavar="DIR", help="Only the cluster in this folder.")
@click.option("--name", help="Only the cluster of this name.")
def command(data_dir: str | None, name: str | None) -> None:
    """Show which clusters there are and whether they run."""
    if data_dir or name:
        found = [cluster_dir(data_dir, name or "")]
    else:
        root = clusters_root()
        found = [ClusterDir(path) for path in sorted(root.iterdir()) if path.is_dir()] if root.exists() else []
    if not found:
        click.echo("no clusters; `sampan up` starts one")
        return
    rows = [_row(where) for where in found]
    widths = [max(len(row[column]) for row in [_HEAD, *rows]) for column in range(len(_HEAD))]
    for row in [_HEAD, *rows]:
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if (data_dir or name) and rows[0][1] != "running":
        raise SystemExit(1)


_HEAD = ("NAME", "STATUS", "URL", "PID", "UP", "COMPONENTS")


def _row(where: ClusterDir) -> tuple[str, ...]:
    note = running(where)
    if note is None:
        return (where.path.name, "stopped", "", "", "", "")
    up = f"{int(time.time() - note.started)}s"
    return (note.name, "running", note.url or note.insecure_url, str(note.pid), up, ",".join(note.components))


def running(where: ClusterDir) -> Running | None:
    """What runs in the folder; None if nothing does, whatever an old note says."""
    if not where.path.exists():
        return None
    lock = where.lock()
    if lock.acquire():
        lock.release()
        return None
    return where.read_note()
