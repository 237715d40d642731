"""`sampan status`: list the clusters of the current user."""

from __future__ import annotations

import os
import time

import click

from sampan.cli.cluster_dir import DEFAULT_NAME, ClusterDir, Running, cluster_dir, known_clusters
from sampan.cli.failures import CliError

_HEAD = ("NAME", "STATUS", "URL", "PID", "UP", "LISTENING", "COMPONENTS", "DNS")


@click.command("status")
@click.option("--data-dir", metavar="DIR", help="Show only the cluster with this data directory.")
@click.option("--name", help="Show only the cluster with this name.")
def command(data_dir: str | None, name: str | None) -> None:
    """List clusters with their state and addresses.

    With --name or --data-dir the exit code is 1 unless the cluster is running.
    """
    if data_dir is not None or name is not None:
        where = cluster_dir(data_dir, DEFAULT_NAME if name is None else name)
        if not where.is_cluster:
            _refuse(where, data_dir)
        clusters = [where]
    else:
        clusters = list(known_clusters())
    if not clusters:
        click.echo("no clusters; `sampan up` starts one")
        return
    rows = [_row(where) for where in clusters]
    widths = [max(len(row[column]) for row in [_HEAD, *rows]) for column in range(len(_HEAD))]
    for row in [_HEAD, *rows]:
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if (data_dir is not None or name is not None) and rows[0][1] != "running":
        raise SystemExit(1)


def _refuse(where: ClusterDir, data_dir: str | None) -> None:
    flag = "--name" if data_dir is None else "--data-dir"
    if os.path.exists(where.path) and where.is_unreadable:
        raise CliError(f"{flag}: cannot read {where.path}: Permission denied")
    raise CliError(f"{flag}: there is no cluster in {where.path}")


def _row(where: ClusterDir) -> tuple[str, ...]:
    try:
        note = running(where)
    except CliError:
        note = None
    if where.is_unreadable:
        return (where.path.name, "unreadable", *[""] * (len(_HEAD) - 2))
    if note is None:
        return (where.path.name, "stopped", *[""] * (len(_HEAD) - 4), _node_text(where), "")
    up = f"{int(time.time() - note.started)}s"
    url, listening = note.url or note.insecure_url, ",".join(note.listening)
    components = f"{','.join(note.components)}{' ' if where.is_joined else ''}{_node_text(where)}"
    return (note.name, "running", url, str(note.pid), up, listening, components, note.dns)


def _node_text(where: ClusterDir) -> str:
    """Return the name of the node if the directory is that of a machine that joined a cluster."""
    if not where.is_joined:
        return ""
    from sampan.cluster.join.record import read_record

    record = read_record(where.join_record)
    return f"(node {record.node} of {record.server})" if record is not None else ""


def running(where: ClusterDir) -> Running | None:
    """Return the description of the running cluster, or None if it is not running, even if an old description is
    left."""
    lock = where.lock()
    if lock.acquire():
        lock.release()
        return None
    return where.read_note()
