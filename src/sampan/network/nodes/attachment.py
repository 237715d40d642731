"""The attachments of the nodes of this machine to the network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sampan.api.types.core_v1 import Node
from sampan.host.linux.network_namespace import NetworkNamespace


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAttachment:
    node: str
    """The name of the node."""
    directory: Path
    """The directory with the data of the node."""
    namespace: NetworkNamespace
    """The network namespace in which all parts of the node work. Without a path it is that of this process."""
    addresses: Sequence[str]
    """The addresses of the node (InternalIP), the primary one first."""
    host_addresses: Sequence[str] = ()
    """The addresses with which processes outside of the node's namespace, such as the kubelet with its probes and the
    API server, reach the node and its pods. Empty if the node works in the namespace of this process: then these are
    addresses of the node itself."""


class NodeAttachments(Protocol):
    """Attaches the nodes of this machine to the network. `async with` removes everything at the end."""

    async def __aenter__(self) -> NodeAttachments: ...

    async def __aexit__(self, *exc: object) -> None: ...

    async def attach(self, node: str) -> NodeAttachment:
        """Attach a node. A second call for the same node returns the same addresses. Raise NodeNetworkError if the
        machine refuses a change."""

    async def detach(self, node: str) -> None:
        """Remove the links and the network namespace that `attach` created. The node keeps its addresses as long as its
        directory exists."""

    async def route(self, nodes: Iterable[Node]) -> None:
        """Route the pod CIDRs of all nodes of the cluster."""

    async def run(self) -> None:
        """Restore rules that other programs remove, until cancelled."""


class HostAttachments:
    """`NodeAttachments` for nodes that all work in the network namespace of this process."""

    def __init__(self, *, root: Path, addresses: Sequence[str]) -> None:
        self._root, self._addresses = root, addresses

    async def __aenter__(self) -> HostAttachments:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return

    async def attach(self, node: str) -> NodeAttachment:
        return NodeAttachment(
            node=node, directory=self._root / node, namespace=NetworkNamespace(), addresses=self._addresses
        )

    async def detach(self, node: str) -> None:
        return

    async def route(self, nodes: Iterable[Node]) -> None:
        return

    async def run(self) -> None:
        return
