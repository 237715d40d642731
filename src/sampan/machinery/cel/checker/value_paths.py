"""Paths from a variable to a value below it, through which the cost estimation finds the bounds that a schema sets.

CustomResourceDefinitions are accepted or refused by estimates, which therefore have to be those of a real server. There
paths share memory, so that an extension of one path may change another, and values that come from no variable are
looked up in the schema as if they were fields of `self`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from sampan.machinery.cel.checker.types import ObjectType, Type

ITEMS: Final = "@items"
VALUES: Final = "@values"
KEYS: Final = "@keys"
INDICES: Final = "@indices"
_SIZED: Final = frozenset(("string", "bytes", "list", "map", "dyn", "any"))


class ValuePath:
    """A path in an array with room for further names. An extension writes its name into the array if there is room,
    even over that of an earlier extension, and copies the array otherwise."""

    __slots__ = ("_length", "_names")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self._length = len(self._names)

    def __iter__(self) -> Iterator[str]:
        return islice(self._names, self._length)

    def append(self, name: str) -> ValuePath:
        """Return the path extended by a name."""
        if self._length == len(self._names):
            extended = ValuePath([*self._names, name, *[""] * (self._length - 1)])
        else:
            self._names[self._length] = name
            extended = ValuePath(())
            extended._names = self._names
        extended._length = self._length + 1
        return extended

    def element(self) -> ValuePath:
        """Return the path of the elements of a list, which shares nothing with this path."""
        return ValuePath([*self, ITEMS])


def extend(path: ValuePath | None, name: str) -> ValuePath:
    """Return the extension of a path, or the path that consists of the name."""
    return ValuePath((name,)) if path is None else path.append(name)


def declared_type(path: ValuePath, variables: Mapping[str, Type]) -> Type | None:
    """Return the type that the variables declare for the value at a path; None if they declare none."""
    names = iter(path)
    root = next(names)
    declared = variables.get(root, variables.get("self"))
    if declared is not None and declared.is_optional:
        declared = declared.parameters[0]
    for name in names:
        if declared is None:
            break
        declared = _type_below(declared, name)
    return declared


def _type_below(declared: Type, name: str) -> Type | None:
    if name in (ITEMS, VALUES):
        return declared.parameters[-1] if declared.kind in ("list", "map") else None
    if name == KEYS:
        return declared.parameters[0] if declared.kind == "map" else None
    if isinstance(declared, ObjectType):
        field = declared.fields.get(name)
        return None if field is None else field.type
    if declared.kind == "map" and declared.parameters[1].kind == "any":
        return declared.parameters[1]  # the attributes of a device, whatever their names
    return None


def max_size(declared: Type) -> int | None:
    """Return the maximum size of the values of a type, None if it has no bound. Values without a size, such as numbers
    and objects, have the size 0."""
    if declared.max_size is None and declared.kind in _SIZED:
        return None
    return declared.max_size or 0
