"""The differences between ReplicaSet and ReplicationController."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sampan.api.labels import Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaKind:
    name: str
    """The name of the controller."""
    source: str
    """The source of its events."""
    object_type: type[Any]
    kind: str
    selector: Callable[[Any], Selector]
    condition: type[Any]
    """The type of the conditions in the status."""
    has_terminating: bool
    """Whether the status counts terminating pods."""


def wanted_replicas(owner: Any) -> int:
    """Return the desired number of pods; 1 if unset, which is the API default."""
    replicas: int | None = owner.spec.replicas
    return 1 if replicas is None else replicas
