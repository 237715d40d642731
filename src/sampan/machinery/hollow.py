"""How hollow nodes are distinguished from real ones. Their pods run nowhere, and the addresses of the nodes and pods
are made up: another machine in the network may have them, so no component may connect to them."""

from __future__ import annotations

import ipaddress
from typing import Final

from sampan.api.types.core_v1 import Node

RUNTIME_ANNOTATION: Final = "sampan.dev/runtime"
HOLLOW: Final = "hollow"
NODE_RANGE: Final = "100.64.0.0/10"
"""The address range of hollow nodes."""
_VERSION_PREFIX: Final = f"{HOLLOW}://"
_NODE_NETWORK: Final = ipaddress.ip_network(NODE_RANGE)


def is_hollow_node(node: Node) -> bool:
    """Whether the node is hollow, according to its annotation or to the container runtime that its kubelet reports.

    A simulator in another process marks its nodes in the same way.
    """
    if node.metadata.annotations.get(RUNTIME_ANNOTATION) == HOLLOW:
        return True
    return node.status.nodeInfo.containerRuntimeVersion.startswith(_VERSION_PREFIX)


def is_hollow_address(address: str) -> bool:
    """Whether the address may belong to a hollow node. This works for nodes that are already deleted, but real nodes
    may have such addresses, too."""
    try:
        return ipaddress.ip_address(address) in _NODE_NETWORK
    except ValueError:
        return False
