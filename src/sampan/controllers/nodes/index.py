"""Finding pods by their node."""

from collections.abc import Hashable, Iterable
from typing import Any


def by_node(pod: Any) -> Iterable[Hashable]:
    """The node's name; none for pods that have no node."""
    name = pod.spec.nodeName
    return (name,) if name else ()


def node_name(node: Any) -> Iterable[Hashable]:
    return (node.metadata.name,)


__all__ = ["by_node", "node_name"]
