"""`sampan leave`: undo `sampan join`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from sampan.cli.down import remove_data, stop, stop_abandoned_nodes
from sampan.cli.flags import parsers
from sampan.cli.joined_node import JoinedNode, JoinedNodeFiles
from sampan.cli.local_cluster.cluster_dir import ClusterDir, cluster_options, find_cluster
from sampan.cluster.join.departure import delete_node, drain
from sampan.cluster.join.discovery import JoinError
from sampan.cluster.join.record import JoinRecord, read_record
from sampan.host.clock import RealClock
from sampan.machinery import errors
from sampan.machinery.cli_errors import CliError
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.client.http import HttpTransport

T = TypeVar("T")

_DELETE_TIMEOUT_S = 15.0


@click.command("leave")
@click.option(
    "--drain", "is_drained", is_flag=True, help="Move the pods to other nodes first, as `kubectl drain` does."
)
@click.option("--timeout", default="5m", show_default=True, metavar="D", help="How long --drain waits for pods to end.")
@cluster_options
def command(is_drained: bool, timeout: str, data_dir: str | None, name: str) -> None:
    """Remove this machine from the cluster that it joined.

    All pods of the node are stopped, its Node object is deleted, and links, routes, rules and files are removed.
    """
    directory = find_cluster(data_dir, name)
    record = read_record(directory.join_record)
    if record is None:
        raise CliError(f"{directory.path}: this machine has not joined a cluster")
    timeout_s = parsers.positive_s("--timeout", timeout)
    if is_drained:
        _drain(directory, record, timeout_s)
    stop(directory)
    stop_abandoned_nodes(directory)
    asyncio.run(JoinedNode(directory=directory, name=name, record=record, on_ready=lambda note: None).remove_network())
    _delete_node(directory, record)
    remaining_files = remove_data(directory)
    click.echo(f"node {record.node} has left {record.server}")
    if remaining_files:
        click.echo(
            f"{directory.path} has files that are not the node's, and stays: {', '.join(remaining_files)}", err=True
        )


def _drain(directory: ClusterDir, record: JoinRecord, timeout_s: float) -> None:
    if directory.read_note_if_running() is None:
        raise CliError("--drain: the node is not running, and its pods cannot end; `sampan join -d` starts it")
    if remaining_pods := _run_with_client(
        directory, record, lambda client: drain(client, record.node, timeout_s), timeout_s + 30
    ):
        raise CliError(
            f"--drain: still running after {timeout_s:g} s: {', '.join(remaining_pods)}; the node stays cordoned"
        )


def _delete_node(directory: ClusterDir, record: JoinRecord) -> None:
    """Delete the Node object. A cluster that is gone does not keep the machine from being cleaned up."""
    try:
        _run_with_client(directory, record, lambda client: delete_node(client, record.node), _DELETE_TIMEOUT_S)
    except (errors.ApiError, ConnectionFailed, TimeoutError, JoinError) as error:
        advice = f"on the cluster: kubectl delete node {record.node}"
        click.echo(f"Warning: cannot delete the Node object ({error or 'timeout'}); {advice}", err=True)


def _run_with_client(
    directory: ClusterDir, record: JoinRecord, work: Callable[[Client], Awaitable[T]], timeout_s: float
) -> T:
    async def main() -> T:
        async with HttpTransport(JoinedNodeFiles(directory).access(record)) as transport, asyncio.timeout(timeout_s):
            return await work(Client(transport=transport, clock=RealClock(), component="sampan-leave"))

    return asyncio.run(main())
