"""Phases of namespaces, errors of creates in terminating ones, and keys of controllers with one key per namespace."""

from collections.abc import Hashable, Iterable
from typing import Any

from sampan.machinery import errors

ACTIVE, TERMINATING = "Active", "Terminating"
TERMINATING_CAUSE = "NamespaceTerminating"
"""The status cause with which the API server rejects a create in a terminating namespace."""


def namespace_name(namespace: Any) -> Iterable[Hashable]:
    """Return the key of a namespace object."""
    return (namespace.metadata.name,)


def namespace_of(obj: Any) -> Iterable[Hashable]:
    """Return the key of the namespace that contains the object."""
    return (obj.metadata.namespace,)


def is_namespace_terminating(error: BaseException) -> bool:
    """Whether the create was rejected because the namespace is terminating, which is not reported as an event."""
    return isinstance(error, errors.ApiError) and error.has_cause(TERMINATING_CAUSE)
