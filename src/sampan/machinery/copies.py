"""Deep copies of API objects: objects from caches and listers are shared and read-only, so copy before changing."""

from typing import TypeVar

from sampan.api.codec import json
from sampan.api.types.base import Struct
from sampan.api.unstructured import Unstructured

T = TypeVar("T", bound=Struct | Unstructured)


def copy_of(obj: T) -> T:
    """Return a deep copy, made by way of JSON, which is ten times faster than `copy.deepcopy`."""
    if isinstance(obj, Unstructured):
        return type(obj).from_value(json.read_any(json.encode(obj.to_value())))
    return json.read(json.encode(obj), type(obj))
