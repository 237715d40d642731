"""`sampan snapshot fork`: copy a cluster under another name, and start the copy."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial

import click

from sampan.cli.local_cluster import rootless
from sampan.cli.local_cluster.cluster_dir import ClusterDir, cluster_dir, running_cluster_options, select_cluster
from sampan.cli.snapshot.restore import HOST_FLAGS, STORE_FLAGS, relocate, up_command, write_flags
from sampan.cli.snapshot.save import copy_store, describe, needs_user_namespace, require_cluster
from sampan.cluster.snapshot import copy_images, copy_keys, copy_volumes, describe_store
from sampan.machinery.cli_errors import CliError


@click.command("fork")
@click.argument("new_name", metavar="NEW")
@running_cluster_options
@click.option("--no-start", is_flag=True, help="Only copy the cluster; `sampan up --name NEW` starts it.")
def fork_command(new_name: str, data_dir: str | None, cluster: str | None, no_start: bool) -> None:
    """Copy a cluster under the name NEW, and start the copy in the background.

    The original may be running, and goes on. The fork has its objects, keys, images and volumes, a port and addresses
    of its own, and a SQLite store; pods of real nodes are restarted in it.
    """
    directory = require_cluster(select_cluster(data_dir, cluster))
    target = cluster_dir(None, new_name)
    target.check()
    if target.is_cluster:
        raise CliError(f"NEW: {new_name} exists; `sampan down --name {new_name} --delete` removes it")
    copy = partial(_fork, directory, target)
    if needs_user_namespace(directory):
        if no_start:
            raise SystemExit(rootless.run_inside(copy, has_outgoing=False))
        _run("snapshot", "fork", new_name, "--data-dir", str(directory.path), "--no-start")
    else:
        copy()
    if no_start:
        click.echo(f"  start   {up_command(target, None)}")
    else:
        _run("up", "--name", new_name, "--detach")


def _run(*words: str) -> None:
    code = subprocess.run([sys.executable, "-m", "sampan", *words]).returncode
    if code:
        raise SystemExit(code)


def _fork(directory: ClusterDir, target: ClusterDir) -> None:
    began = time.monotonic()
    undo = target.make()
    lock = target.lock()
    if not lock.acquire(makes_file=True):
        raise CliError(f"NEW: {target.path} is in use by another process")
    is_done = False
    try:
        copy_store(directory, target.database)
        store = describe_store(target.database)
        manifest = describe(directory, store)
        relocate(target.database, manifest, target, drops_other_nodes=True)
        write_flags(directory.flags, target.flags, STORE_FLAGS | HOST_FLAGS)
        images = copy_images(directory.images, target.images)
        volumes = copy_volumes(directory.volumes, target.volumes)
        copy_keys(directory.pki, target.pki)
        is_done = True
    finally:
        if not is_done:
            undo()
        lock.release()
    target.hand_over()
    took = time.monotonic() - began
    counts = f"{store.objects} objects, {len(images)} images, {len(volumes)} volumes"
    click.echo(f"forked {directory.name} to {target.name} in {took:.2f} s: {counts}")
    if store.is_encrypted:
        flag = "--encryption-provider-config"
        raise CliError(f"objects are encrypted: `sampan up --name {target.name}` needs the {flag} of the original")
