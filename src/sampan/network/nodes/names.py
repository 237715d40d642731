"""Names derived from the directory with the nodes of a cluster, by which leftovers are recognized."""

from __future__ import annotations

import hashlib
from pathlib import Path

_NAMED_NAMESPACES = Path("/run/netns")
"""The directory of the namespaces that `ip netns` shows."""


def cluster_mark(root: Path) -> str:
    """Return eight hexadecimal digits that stand for the cluster whose nodes are in `root`."""
    return hashlib.blake2b(str(root).encode(), digest_size=4).hexdigest()


def bridge_of_nodes(root: Path) -> str:
    """Return the name of the bridge to which the nodes of a cluster are attached."""
    return f"sn{cluster_mark(root)[:6]}"


def table_of_nodes(bridge: str) -> str:
    return f"sampan-nodes-{bridge}"


def owner_of(root: Path) -> str:
    """Return the alias of the cluster's bridge. The kernel limits it to 255 bytes."""
    return f"sampan {root}"[:255]


def namespace_file(directory: Path) -> Path:
    """Return the file at which the network namespace of a node is mounted, in the node's directory."""
    return directory / "netns"


def named_namespace(root: Path, node: str) -> Path:
    """Return the symbolic link through which `ip netns exec` finds the namespace of a node."""
    return _NAMED_NAMESPACES / f"sampan-{cluster_mark(root)}-{node}"
