"""Stop the containers that the nodes of a killed cluster have left running, as part of `sampan down`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

from sampan.cli.failures import CliError
from sampan.cli.local_cluster.cluster_dir import ClusterDir


def stop_abandoned_nodes(where: ClusterDir) -> list[str]:
    """Return the names of the nodes of which something was stopped. Raise CliError if that fails."""
    from sampan.cluster.nodes.abandoned_node import abandoned_runtime, stop_abandoned_node
    from sampan.runtimes.contract import RuntimeFailure

    stopped = []
    for directory in _nodes(where.path / "nodes"):
        record = abandoned_runtime(directory)
        if record is None:
            continue
        try:
            asyncio.run(stop_abandoned_node(directory, record, where.images))
        except (RuntimeFailure, OSError) as error:
            raise CliError(f"cannot stop the pods that node {directory.name} left running: {error}") from None
        stopped.append(directory.name)
    if os.geteuid() == 0:
        _remove_network(where.path / "nodes")
    return stopped


def _remove_network(root: Path) -> None:
    """Remove the namespaces, links and rules of the nodes from this machine, and those of clusters that are gone."""
    from sampan.cluster.machine.host_locks import held_bridges
    from sampan.network.leftovers import remove_leftovers
    from sampan.network.nodes import NodeNetworkError, remove_bridge

    try:
        remove_bridge(root)
    except NodeNetworkError as error:
        raise CliError(f"what the nodes have left in the network of this machine cannot be removed: {error}") from None
    remove_leftovers(held_bridges())


def _nodes(root: Path) -> Iterator[Path]:
    if root.is_dir() and os.geteuid() == 0:
        yield from (Path(entry.path) for entry in os.scandir(root) if entry.is_dir())
