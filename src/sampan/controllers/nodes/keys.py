"""Index functions and keys by node name."""

from collections.abc import Hashable, Iterable
from typing import Any


def by_node(pod: Any) -> Iterable[Hashable]:
    """Return the name of the node that the pod is bound to; empty for unbound pods."""
    name = pod.spec.nodeName
    return (name,) if name else ()


def node_name(node: Any) -> Iterable[Hashable]:
    return (node.metadata.name,)
