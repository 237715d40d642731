"""`sampan down`: stop a cluster and containers that a killed one has left running, and delete its data on request."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import click

from sampan.cli.local_cluster.cluster_dir import (
    ClusterDir,
    cluster_options,
    find_cluster,
    list_clusters_of_name,
)
from sampan.cli.local_cluster.cluster_registry import unregister_cluster
from sampan.cli.local_cluster.owner_process import watched_exit
from sampan.cluster import kubeconfig
from sampan.machinery.cli_errors import CliError
from sampan.runtimes.names import OCI

_STOP_TIMEOUT_S = 120
"""How long to wait for the process of the cluster to exit before it is killed, in seconds. Stopping many pods takes a
while."""
_EXIT_TIMEOUT_S = 10


@click.command("down")
@cluster_options
@click.option("--delete", is_flag=True, help="Delete the data of the cluster after it has stopped.")
def command(data_dir: str | None, name: str, delete: bool) -> None:
    """Stop a cluster.

    The data of the cluster are kept, so that `sampan up` starts it again, unless --delete is given. The exit code is 0
    if the cluster was stopped already, and 1 if there is no such cluster.
    """
    directory = find_cluster(data_dir, name)
    if delete and os.path.exists(directory.path):
        directory.check()
    _check_exists(directory, data_dir, name)
    name = directory.name
    if delete and data_dir is None and len(list_clusters_of_name(name)) > 1:
        raise CliError(f"--delete: several clusters have the name {name}; choose one with --data-dir")
    if delete and directory.is_joined:
        raise CliError(f"--delete: {directory.path} is that of a node that joined a cluster; `sampan leave` removes it")
    if delete:
        _check_owner(directory)
    note = directory.read_note() if directory.is_cluster else None
    stopped = stop(directory)
    if note is not None and note.merged_kubeconfig:  # a process that was killed has left its context in the kubeconfig
        kubeconfig.unmerge(Path(note.merged_kubeconfig), note.name)
    if os.geteuid() != 0 and _has_containers(directory):
        from sampan.cli.local_cluster import rootless

        if rootless.is_possible():  # some files belong to other users of the user namespace
            call = partial(_finish, directory, name, delete=delete, stopped=stopped)
            raise SystemExit(rootless.run_inside(call, has_outgoing=False))
    _finish(directory, name, delete=delete, stopped=stopped)


def _check_exists(directory: ClusterDir, data_dir: str | None, name: str) -> None:
    if directory.is_cluster or os.path.lexists(directory.path / "lock"):
        return
    if os.path.exists(directory.path) and directory.is_unreadable:
        raise CliError(f"--data-dir: cannot read {directory.path}: Permission denied{_other_users_hint()}")
    place = (
        f"--name: there is no cluster {name!r}" if data_dir is None else f"--data-dir: {directory.path} has no cluster"
    )
    raise CliError(f"{place}; `sampan status` lists the clusters{_other_users_hint()}")


def _check_owner(directory: ClusterDir) -> None:
    """Raise CliError if root has run nodes of the cluster, whose data only root can remove."""
    owners = {os.lstat(path).st_uid for path in (directory.pki, directory.path / "nodes") if os.path.lexists(path)}
    if os.geteuid() != 0 and 0 in owners:
        raise CliError(f"--delete: root has run {directory.name}; `sudo sampan down --delete` removes its data")


def _has_containers(directory: ClusterDir) -> bool:
    """Whether the nodes of the cluster have run containers with the runtime `oci`."""
    return any((directory.path / "nodes").glob(f"*/{OCI}"))


def _finish(directory: ClusterDir, name: str, *, delete: bool, stopped: bool) -> None:
    """Stop the pods and remove the network that a killed process of the cluster has left. With `delete`, remove the
    data."""
    if directory.is_cluster and (nodes := stop_abandoned_nodes(directory)):
        click.echo(f"{name}: stopped the pods that {', '.join(nodes)} had left running")
    if directory.is_cluster and os.geteuid() == 0:
        _remove_mesh(directory)
    if not (delete and os.path.exists(directory.path)):
        click.echo(f"{name}: stopped" if stopped else f"{name}: was not running{_other_users_hint()}")
        return
    remaining_files = remove_data(directory)
    click.echo(f"{name}: stopped, data removed" if stopped else f"{name}: data removed")
    if remaining_files:
        click.echo(
            f"{name}: {directory.path} is kept: it has files that are not the cluster's: {', '.join(remaining_files)}",
            err=True,
        )


def _other_users_hint() -> str:
    """Return a hint that `sudo` is needed to stop a cluster that root has started; empty if the user is root."""
    return "" if os.geteuid() == 0 else " (`sudo sampan down` stops a cluster that root has started)"


def _remove_mesh(directory: ClusterDir) -> None:
    """Remove the routes and tunnels to other machines that a killed process of the cluster has left on this machine."""
    if not directory.is_joined:
        from sampan.cluster.machine.machine_mesh import remove_machine_mesh

        remove_machine_mesh(directory.path / "nodes")
        return
    import asyncio

    from sampan.cli.joined_node import JoinedNode
    from sampan.cluster.join.record import read_record

    if (record := read_record(directory.join_record)) is not None:
        node = JoinedNode(directory=directory, name=directory.name, record=record, on_ready=lambda note: None)
        asyncio.run(node.remove_network())


def remove_data(directory: ClusterDir) -> list[str]:
    """Delete the data of the cluster while holding its lock, so that it cannot be started at the same time."""
    lock = directory.lock()
    if not lock.acquire():
        raise CliError(f"--data-dir: {directory.path} is in use by a process that has just started")
    try:
        remaining = directory.remove()
        unregister_cluster(directory.path)
        return remaining
    finally:
        lock.release()


def stop(directory: ClusterDir) -> bool:
    """Stop the process that runs the cluster. Return False if there is none."""
    lock = directory.lock()
    if lock.acquire():
        if directory.is_cluster:
            directory.remove_note()
        lock.release()
        return False
    note = directory.read_note()
    if note is None:
        raise CliError(f"{directory.path} is in use by a process that is still starting; try again")
    with watched_exit(note.pid) as wait_for_exit:
        _signal(directory, note.pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while time.monotonic() < deadline:
            if lock.acquire():
                lock.release()
                wait_for_exit(_EXIT_TIMEOUT_S)  # until then its ports are in use
                return True
            time.sleep(0.02)
        _signal(directory, note.pid, signal.SIGKILL)
        wait_for_exit(_EXIT_TIMEOUT_S)
    return True


def _signal(directory: ClusterDir, pid: int, number: int) -> None:
    try:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    except PermissionError:
        raise CliError(
            f"{directory.name} is run by process {pid} of another user; `sudo sampan down` stops a cluster of root"
        ) from None


def stop_abandoned_nodes(cluster_directory: ClusterDir) -> list[str]:
    """Stop the pods that killed nodes have left running. Return the names of these nodes. Raise CliError if a pod
    cannot be stopped."""
    from sampan.cluster.nodes.abandoned_node import abandoned_runtime, stop_abandoned_node
    from sampan.runtimes.contract import RuntimeFailure

    stopped = []
    for directory in _nodes(cluster_directory.path / "nodes"):
        record = abandoned_runtime(directory)
        if record is None:
            continue
        try:
            asyncio.run(stop_abandoned_node(directory, record, cluster_directory.images))
        except (RuntimeFailure, OSError) as error:
            raise CliError(f"cannot stop the pods that node {directory.name} left running: {error}") from None
        stopped.append(directory.name)
    if os.geteuid() == 0:
        _remove_network(cluster_directory.path / "nodes")
    return stopped


def _remove_network(root: Path) -> None:
    """Remove the network namespaces, links and rules of the cluster's nodes from this machine, and those of clusters
    that no longer exist."""
    from sampan.network.leftovers import remove_leftovers
    from sampan.network.nodes import NodeNetworkError, remove_bridge

    try:
        remove_bridge(root)
    except NodeNetworkError as error:
        raise CliError(f"what the nodes have left in the network of this machine cannot be removed: {error}") from None
    remove_leftovers()


def _nodes(root: Path) -> Iterator[Path]:
    if root.is_dir() and os.geteuid() == 0:
        yield from (Path(entry.path) for entry in os.scandir(root) if entry.is_dir())
