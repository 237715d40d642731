"""`sampan down`: ends a cluster."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import suppress

import click

from sampan.cli.cluster_dir import ClusterDir, cluster_dir
from sampan.cli.failures import CliError
from sampan.cli.left_nodes import end_left_nodes

_PATIENCE_S = 120
"""Ending many pods takes a while."""


@click.command("down")
@click.option("--data-dir", metavar="DIR", help="The cluster's folder.")
@click.option("--name", default="sampan", show_default=True, help="The cluster's name.")
@click.option("--delete", is_flag=True, help="Also remove the cluster's data.")
def command(data_dir: str | None, name: str, delete: bool) -> None:
    """Stop a cluster; its data stay unless told otherwise."""
    where = cluster_dir(data_dir, name)
    stopped = stop(where)
    if left := end_left_nodes(where):
        click.echo(f"{name}: what {', '.join(left)} had left running is ended")
    if delete and where.path.exists():
        if not where.is_one:
            raise CliError(f"--data-dir: {where.path} does not look like a cluster's folder; nothing is removed")
        shutil.rmtree(where.path)
        click.echo(f"{name}: stopped, data removed" if stopped else f"{name}: data removed")
    else:
        click.echo(f"{name}: stopped" if stopped else f"{name}: was not running")


def stop(where: ClusterDir) -> bool:
    """End the process that runs the cluster; False if none does."""
    if not where.path.exists():
        return False
    lock = where.lock()
    if lock.acquire():
        where.remove_note()
        lock.release()
        return False
    note = where.read_note()
    if note is None:
        raise CliError(f"{where.path} is in use by a process that is only starting; try again")
    with suppress(ProcessLookupError):
        os.kill(note.pid, signal.SIGTERM)
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if lock.acquire():
            lock.release()
            return True
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.kill(note.pid, signal.SIGKILL)
    return True
