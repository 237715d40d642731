"""In what the kinds differ that keep a number of pods."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sampan.api.labels import Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaKind:
    name: str
    """Of the controller."""
    source: str
    """Of its events."""
    object_type: type[Any]
    kind: str
    selector: Callable[[Any], Selector]
    condition: type[Any]
    """Of the conditions in its status."""
    has_terminating: bool
    """Whether the status counts pods that are being deleted."""


def wanted_replicas(owner: Any) -> int:
    """One, where nothing is said: as the server completes it."""
    replicas: int | None = owner.spec.replicas
    return 1 if replicas is None else replicas


__all__ = ["ReplicaKind", "wanted_replicas"]
