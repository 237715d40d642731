"""Validation of the pod counts in a status."""

from collections.abc import Iterable
from typing import Any

from sampan.api.faults import FieldError
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_non_negative

_ABOVE_ALL = "cannot be greater than status.replicas"


def validate_non_negative_counts(status: Any, fields: Iterable[str]) -> FieldErrors:
    """Yield an error for each negative count, in the order of `fields`; unset counts are valid."""
    for field in fields:
        value: int | None = getattr(status, field)
        if value is not None and value < 0:
            yield from validate_non_negative(value, f"status.{field}")


def validate_counts_at_most_replicas(status: Any, fields: Iterable[str]) -> FieldErrors:
    for field in fields:
        if (value := getattr(status, field)) > status.replicas:
            yield FieldError.invalid(f"status.{field}", value, _ABOVE_ALL)


def validate_available_at_most_ready(status: Any, *, ready: str = "readyReplicas") -> FieldErrors:
    """Yield an error if there are more available than ready pods. `ready` is the name of the field in the message."""
    if status.availableReplicas > status.readyReplicas:
        text = f"cannot be greater than {ready}"
        yield FieldError.invalid("status.availableReplicas", status.availableReplicas, text)


def validate_collision_count(new: Any, old: Any) -> FieldErrors:
    """Yield an error if the count of hash collisions decreases."""
    before, after = old.collisionCount, new.collisionCount
    if before is not None and (after is None or after < before):
        yield FieldError.invalid("status.collisionCount", after or 0, "cannot be decremented")
