"""What controllers with one key per namespace share."""

from collections.abc import Hashable, Iterable
from typing import Any

ACTIVE, TERMINATING = "Active", "Terminating"
TERMINATING_CAUSE = "NamespaceTerminating"
"""The cause in the answer to a create in a namespace that is being deleted."""


def namespace_name(namespace: Any) -> Iterable[Hashable]:
    """A namespace's own key."""
    return (namespace.metadata.name,)


def namespace_of(obj: Any) -> Iterable[Hashable]:
    """The key of the namespace that an object is in."""
    return (obj.metadata.namespace,)
