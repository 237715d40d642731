"""Deprecated node labels, which are kept equal to their replacements."""

from collections.abc import Mapping
from typing import Final

from sampan.api.types.core_v1 import Node

_OLD_NAMES: Final[Mapping[str, str]] = {
    "kubernetes.io/os": "beta.kubernetes.io/os",
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
}


def missing_labels(node: Node) -> dict[str, str]:
    """Return the deprecated labels that are absent or differ."""
    present = node.metadata.labels
    return {old: present[new] for new, old in _OLD_NAMES.items() if new in present and present.get(old) != present[new]}
