"""Conditions in the status of any kind (`k8s.io/apimachinery/pkg/api/meta/conditions.go`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
READY = "Ready"


class AnyCondition(Protocol):
    """The fields that conditions of all kinds have."""

    type: str
    status: str


class TimedCondition(AnyCondition, Protocol):
    lastTransitionTime: str | None


C = TypeVar("C", bound=AnyCondition)
T = TypeVar("T", bound=TimedCondition)


def find_condition(conditions: Iterable[C], type: str) -> C | None:
    for condition in conditions:
        if condition.type == type:
            return condition
    return None


def condition_status(conditions: Iterable[AnyCondition], type: str) -> str:
    """Return the status of the condition, or an empty string if there is no such condition."""
    condition = find_condition(conditions, type)
    return condition.status if condition is not None else ""


def is_true(conditions: Iterable[AnyCondition], type: str) -> bool:
    """Whether there is a condition of this type with status True."""
    return condition_status(conditions, type) == TRUE


def without_condition(conditions: Iterable[C], *types: str) -> list[C]:
    return [condition for condition in conditions if condition.type not in types]


def keep_transition_time(old: TimedCondition | None, new: T) -> T:
    """Give the new condition the lastTransitionTime of the old one if the status is the same, and return it."""
    if old is not None and old.status == new.status:
        new.lastTransitionTime = old.lastTransitionTime
    return new


def with_condition(conditions: Sequence[T], new: T) -> list[T]:
    """Return the conditions with the new condition in place of the one of the same type, or appended if there is none.
    The lastTransitionTime of the new condition must be the present time; it is replaced by the old time if the status
    has not changed."""
    old = find_condition(conditions, new.type)
    new = keep_transition_time(old, new)
    if old is None:
        return [*conditions, new]
    return [new if condition is old else condition for condition in conditions]
