"""Copies of API objects to change: what caches and listers give out is shared and read-only."""

from typing import TypeVar

from sampan.api.codec import json
from sampan.api.types.base import Struct
from sampan.api.unstructured import Unstructured

T = TypeVar("T", bound=Struct | Unstructured)


def copy_of(obj: T) -> T:
    """A copy that shares nothing with the object; by way of its JSON, which is ten times quicker than deepcopy."""
    if isinstance(obj, Unstructured):
        return type(obj).from_value(json.read_any(json.encode(obj.to_value())))
    return json.read(json.encode(obj), type(obj))


__all__ = ["copy_of"]
