"""Cells that several kinds share: functions of the object and the current time, for `Column.value`, and helpers for
these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sampan.api.selectors.label_grammar import SelectorError
from sampan.api.selectors.label_selector import LabelSelector, selector_of
from sampan.api.values import ages

NONE = "<none>"
UNSET = "<unset>"


def name(obj: Any, now: float) -> str:
    object_name: str = obj.metadata.name
    return object_name


def age(obj: Any, now: float) -> str:
    return ages.age(obj.metadata.creationTimestamp, now)


def created_at(obj: Any, now: float) -> str | None:
    """Return the creation timestamp, which the client converts to an age."""
    timestamp: str | None = obj.metadata.creationTimestamp or None
    return timestamp


def pairs(labels: Mapping[str, str] | None) -> str:
    """Return labels as `a=b,c=d`."""
    return ",".join([f"{key}={labels[key]}" for key in sorted(labels)]) if labels else NONE


def selector(source: LabelSelector | None) -> str:
    """Return a LabelSelector as the equivalent expression."""
    try:
        return str(selector_of(source)) or NONE if source is not None else NONE
    except SelectorError:
        return "<error>"


def container_names(containers: Iterable[Any]) -> str:
    return ",".join([container.name for container in containers])


def container_images(containers: Iterable[Any]) -> str:
    return ",".join([container.image for container in containers])
