"""Stop the containers that the nodes of a killed cluster have left running, as part of `sampan down`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sampan.cli.cluster_dir import ClusterDir
from sampan.cli.failures import CliError

if TYPE_CHECKING:
    from sampan.cluster.node_runtime import RuntimeRecord


def stop_abandoned_nodes(where: ClusterDir) -> list[str]:
    """Return the names of the nodes of which something was stopped. Raise CliError if that fails."""
    from sampan.cluster.node_runtime import RuntimeRecord, recorded_runtime
    from sampan.runtimes.contract import RuntimeFailure
    from sampan.runtimes.names import OCI

    stopped = []
    for directory in _nodes(where.path / "nodes"):
        note = recorded_runtime(directory) or (RuntimeRecord(OCI) if _has_pods(directory) else None)
        if note is None:
            continue
        try:
            asyncio.run(_stop(directory, note, where.images))
        except (RuntimeFailure, OSError) as error:
            raise CliError(f"cannot stop the pods that node {directory.name} left running: {error}") from None
        stopped.append(directory.name)
    if os.geteuid() == 0:
        _remove_network(where.path / "nodes")
    return stopped


def _remove_network(root: Path) -> None:
    """Remove the namespaces, links and rules of the nodes from this machine."""
    from sampan.network.nodes import NodeNetworkError, remove_bridge

    try:
        remove_bridge(root)
    except NodeNetworkError as error:
        raise CliError(f"what the nodes have left in the network of this machine cannot be removed: {error}") from None


def _nodes(root: Path) -> Iterator[Path]:
    if root.is_dir() and os.geteuid() == 0:
        yield from (Path(entry.path) for entry in os.scandir(root) if entry.is_dir())


def _has_pods(directory: Path) -> bool:
    pods = directory / "oci" / "pods"
    has_monitor = (directory / "oci" / "monitor" / "monitor.sock").exists()
    return has_monitor or (pods.is_dir() and any(os.scandir(pods)))


async def _stop(directory: Path, note: RuntimeRecord, images: Path) -> None:
    """Take over the containers as the kubelet of the node would, and stop them."""
    from sampan.cluster.node_runtime import RuntimeConfig, runtime_maker
    from sampan.cluster.real_nodes import root_cgroup_of
    from sampan.kubelet.agent.housekeeping import remove_directory
    from sampan.kubelet.cgroups.hierarchy import Hierarchy
    from sampan.machinery.clock import RealClock
    from sampan.machinery.network_namespace import NetworkNamespace, is_network
    from sampan.network.nodes import namespace_file

    namespace = namespace_file(directory)
    config = RuntimeConfig(
        node=directory.name,
        directory=directory,
        images=images,
        endpoint=note.endpoint,
        namespace=NetworkNamespace(namespace if is_network(namespace) else None),
        stops_pods=True,
    )
    async with runtime_maker(note.runtime, config, RealClock())(lambda uid: None):
        pass
    await asyncio.to_thread(remove_directory, directory / "kubelet" / "pods")
    await asyncio.to_thread(Hierarchy().remove, root_cgroup_of(directory.parent, directory.name))
