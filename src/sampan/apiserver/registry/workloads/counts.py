"""Validation of the pod counts in a status."""

from collections.abc import Iterable
from typing import Any

from sampan.api.faults import FieldError
from sampan.apiserver.registry.podspec.formats import Faults, non_negative

_ABOVE_ALL = "cannot be greater than status.replicas"


def negative_counts(status: Any, fields: Iterable[str]) -> Faults:
    """Yield an error for each negative count, in the order of `fields`; unset counts are valid."""
    for field in fields:
        value: int | None = getattr(status, field)
        if value is not None and value < 0:
            yield from non_negative(value, f"status.{field}")


def counts_above_all(status: Any, fields: Iterable[str]) -> Faults:
    for field in fields:
        if (value := getattr(status, field)) > status.replicas:
            yield FieldError.invalid(f"status.{field}", value, _ABOVE_ALL)


def available_above_ready(status: Any, *, ready: str = "readyReplicas") -> Faults:
    """Yield an error if there are more available than ready pods. `ready` is the name of the field in the message."""
    if status.availableReplicas > status.readyReplicas:
        text = f"cannot be greater than {ready}"
        yield FieldError.invalid("status.availableReplicas", status.availableReplicas, text)


def fewer_collisions(new: Any, old: Any) -> Faults:
    """Yield an error if the count of hash collisions decreases."""
    before, after = old.collisionCount, new.collisionCount
    if before is not None and (after is None or after < before):
        yield FieldError.invalid("status.collisionCount", after or 0, "cannot be decremented")
