"""Constants and key functions of the controllers that have one key per namespace."""

from collections.abc import Hashable, Iterable
from typing import Any

ACTIVE, TERMINATING = "Active", "Terminating"
TERMINATING_CAUSE = "NamespaceTerminating"
"""The status cause with which the API server rejects a create in a terminating namespace."""


def namespace_name(namespace: Any) -> Iterable[Hashable]:
    """Return the key of a namespace object."""
    return (namespace.metadata.name,)


def namespace_of(obj: Any) -> Iterable[Hashable]:
    """Return the key of the namespace that contains the object."""
    return (obj.metadata.namespace,)
