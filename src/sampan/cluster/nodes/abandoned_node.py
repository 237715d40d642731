"""Stop the containers that a killed process has left running on a node, and remove their mounts,
cgroups and network."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from sampan.cluster.nodes.node_network import remove_host_policies
from sampan.cluster.nodes.node_proxies import remove_abandoned_rules
from sampan.cluster.nodes.node_runtime import RuntimeConfig, RuntimeRecord, read_runtime_record, runtime_maker
from sampan.host.clock import RealClock
from sampan.host.linux.network_namespace import NetworkNamespace, is_network
from sampan.kubelet.agent.garbage_collection import remove_directory
from sampan.kubelet.cgroups import CgroupHierarchy
from sampan.network.nodes import cluster_mark, namespace_file
from sampan.runtimes.names import OCI


def root_cgroup_of(root: Path, name: str) -> str:
    """Return the root cgroup of a node of the cluster whose nodes are in `root`."""
    return f"/sampan-{cluster_mark(root)}-{name}"


def abandoned_runtime(directory: Path) -> RuntimeRecord | None:
    """Return the runtime in which a killed process may have left pods of a node, or None if there are none."""
    return read_runtime_record(directory) or (RuntimeRecord(OCI) if _has_pods(directory) else None)


def abandoned_network(directory: Path) -> NetworkNamespace:
    """Return the network namespace in which a killed process ran a node."""
    namespace = namespace_file(directory)
    return NetworkNamespace(namespace if is_network(namespace) else None)


async def stop_abandoned_node(directory: Path, record: RuntimeRecord, images: Path) -> None:
    """Take over the containers of an abandoned node as its kubelet would, stop them, and remove its rules, mounts and
    cgroups. Raise RuntimeFailure or OSError if that fails."""
    config = RuntimeConfig(
        node=directory.name,
        directory=directory,
        images=images,
        endpoint=record.endpoint,
        namespace=abandoned_network(directory),
        stops_pods=True,
    )
    async with runtime_maker(record.runtime, config, RealClock())(lambda uid: None):
        pass
    if config.namespace.path is None:
        await asyncio.to_thread(remove_abandoned_rules)
        await asyncio.to_thread(remove_host_policies, directory)
    await asyncio.to_thread(remove_directory, directory / "kubelet" / "pods")
    await asyncio.to_thread(CgroupHierarchy().remove, root_cgroup_of(directory.parent, directory.name))


def _has_pods(directory: Path) -> bool:
    pods = directory / "oci" / "pods"
    has_monitor = (directory / "oci" / "monitor" / "monitor.sock").exists()
    return has_monitor or (pods.is_dir() and any(os.scandir(pods)))
