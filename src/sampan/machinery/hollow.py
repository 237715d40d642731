"""How hollow nodes are told from real ones. Their pods run nowhere, and the addresses of nodes and pods are made up:
another machine of the network may have them, so nobody may connect to them."""

from __future__ import annotations

import ipaddress
from typing import Final

from sampan.api.types.core_v1 import Node

RUNTIME_ANNOTATION: Final = "sampan.dev/runtime"
HOLLOW: Final = "hollow"
NODE_RANGE: Final = "100.64.0.0/10"
"""Where hollow nodes have their addresses."""
_VERSION_PREFIX: Final = f"{HOLLOW}://"
_NODE_NETWORK: Final = ipaddress.ip_network(NODE_RANGE)


def is_hollow_node(node: Node) -> bool:
    """Return whether the node is hollow by what it was made as, or by the runtime that its kubelet reports.

    A simulator in another process marks its nodes in the same way.
    """
    if node.metadata.annotations.get(RUNTIME_ANNOTATION) == HOLLOW:
        return True
    return node.status.nodeInfo.containerRuntimeVersion.startswith(_VERSION_PREFIX)


def is_hollow_address(address: str) -> bool:
    """Return whether the address may be that of a hollow node. It is asked about nodes that are deleted already; real
    ones may have such addresses, too."""
    try:
        return ipaddress.ip_address(address) in _NODE_NETWORK
    except ValueError:
        return False


__all__ = ["HOLLOW", "NODE_RANGE", "RUNTIME_ANNOTATION", "is_hollow_address", "is_hollow_node"]
