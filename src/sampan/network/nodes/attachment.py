"""Where a node of this machine is attached to the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sampan.machinery.network_namespace import NetworkNamespace


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAttachment:
    node: str
    """The name of the node."""
    directory: Path
    """The directory with the data of the node."""
    namespace: NetworkNamespace
    """The network namespace in which everything of the node works; without a path, that of this process."""
    addresses: Sequence[str]
    """The addresses of the node (InternalIP), the primary one first."""
    host_addresses: Sequence[str] = ()
    """The addresses with which processes outside of the node's namespace, such as the kubelet with its probes and the
    API server, reach the node and its pods. Empty if the node works in the namespace of this process: then these are
    addresses of the node itself."""
