"""The network from the machine of `sampan up` to machines that joined its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path

from sampan.api.types.core_v1 import Node
from sampan.host.clock import Clock
from sampan.kubelet.agent.machine import find_machine_addresses
from sampan.kubelet.hollow_nodes import RUNTIME
from sampan.machinery.client import Client
from sampan.machinery.hollow import HOLLOW
from sampan.network.mesh.agent import MeshAgent
from sampan.network.mesh.config import MeshConfig


def machine_mesh(
    *, root: Path, ca: bytes, backend: str, cluster_cidrs: Sequence[str], client: Client, clock: Clock
) -> MeshAgent:
    """Return the agent that connects the real nodes of this process, whose data are in `root`, with other machines.

    It works in the namespace of the process, through which nodes with a namespace of their own reach other machines.
    """
    return MeshAgent(config=_config(root, ca, backend, cluster_cidrs), client=client, clock=clock)


def remove_machine_mesh(root: Path) -> None:
    """Remove the interfaces and routes that the agent has left on the machine."""
    from sampan.network.mesh.agent import remove_mesh

    remove_mesh(_config(root, b"", "", ()))


def _config(root: Path, ca: bytes, backend: str, cluster_cidrs: Sequence[str]) -> MeshConfig:
    return MeshConfig(
        is_own=_is_own,
        identity=str(root),
        cluster=ca,
        addresses=find_machine_addresses(),
        cluster_cidrs=[ip_network(cidr) for cidr in cluster_cidrs],
        backend=backend,
        key_file=root / "wireguard.key",
    )


def _is_own(node: Node) -> bool:
    return node.metadata.annotations.get(RUNTIME, HOLLOW) != HOLLOW
