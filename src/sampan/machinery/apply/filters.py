"""Fields that a path does not let its clients change: they are never owned through it."""

from typing import Protocol

from sampan.machinery.apply import sets
from sampan.machinery.apply.elements import SELF
from sampan.machinery.apply.sets import Fields, is_member, node

ANY = "*"
"""Matches every element in a pattern."""


class Filter(Protocol):
    def kept(self, fields: Fields) -> Fields:
        """Return the fields that may be owned."""


class Everything:
    def kept(self, fields: Fields) -> Fields:
        return fields


class Except:
    """All but these fields and everything below them."""

    def __init__(self, *paths: str) -> None:
        """`paths` are written like `metadata.labels`."""
        self._reset = sets.of(*(tuple(f"f:{name}" for name in path.split(".")) for path in paths))

    def kept(self, fields: Fields) -> Fields:
        return sets.recursive_difference(fields, self._reset)


class Only:
    """These fields with everything below and above them."""

    def __init__(self, *paths: str) -> None:
        """`paths` are written like `spec.containers.*.resources`."""
        steps = (path.split(".") for path in paths)
        self._pattern = sets.of(*(tuple(name if name == ANY else f"f:{name}" for name in path) for path in steps))

    def kept(self, fields: Fields) -> Fields:
        return _matching(fields, self._pattern)


def _matching(fields: Fields, pattern: Fields) -> Fields:
    if not pattern:
        return fields
    out: Fields = {}
    for element, below in fields.items():
        deeper = pattern.get(element, pattern.get(ANY))
        if deeper is None or element == SELF:
            continue
        children = _matching({key: value for key, value in below.items() if key != SELF}, deeper)
        if children or is_member(below):
            out[element] = node(children, is_member=is_member(below))
    return out
