"""Sets of fields, as tries in the form that FieldsV1 has: an element leads to what lies below it, `{}` is a member with
nothing below, `"."` among the keys says that a node with something below is a member itself.

A set is never changed once it is made; the functions share what they can, and give back their first argument itself
where that is the result, so that `is` tells that nothing has changed.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from sampan.machinery.apply.elements import SELF, canonical, ordered, shown

Fields: TypeAlias = dict[str, Any]

EMPTY: Fields = {}
MEMBER: Fields = {}
"""A node that is a member with nothing below."""

Path = tuple[str, ...]


class BadFields(ValueError):
    """Bytes that are no FieldsV1."""


def decode(raw: bytes) -> Fields:
    """The set in the bytes of a FieldsV1."""
    try:
        found = msgspec.json.decode(raw)
        if not isinstance(found, dict):
            raise BadFields(f"no object: {raw[:40]!r}")
        return _read(found)[0]
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise BadFields(str(error)) from None


def encode(fields: Fields) -> bytes:
    return msgspec.json.encode(fields)


def _read(json: Any) -> tuple[Fields, bool]:
    """What lies below a node, in order and with canonical elements, and whether the node says that it is a member."""
    if not isinstance(json, dict):
        if json is None:
            return {}, True
        raise BadFields(f"no object: {json!r}")
    out: Fields = {}
    for element, below in json.items():
        if element == SELF or (known := canonical(element)) is None:
            continue
        children, is_member = _read(below)
        out[known] = node(children, is_member=is_member or not children)
    return in_order(out), SELF in json


def in_order(fields: Fields) -> Fields:
    """A level of a set with its elements in order."""
    keys = ordered(fields)
    return fields if keys == list(fields) else {key: fields[key] for key in keys}


def node(children: Fields, *, is_member: bool) -> Fields:
    """A node from what lies below it, of which there is something if it is no member."""
    return {SELF: MEMBER, **children} if is_member and children else children


def is_member(found: Fields) -> bool:
    """Whether a node that is in the set is a member, not only the way to one."""
    return not found or SELF in found


def of(*paths: Path) -> Fields:
    """The set of these paths."""
    out = EMPTY
    for path in paths:
        single: Fields = MEMBER
        for element in reversed(path):
            single = {element: single}
        out = union(out, single)
    return out


def union(left: Fields, right: Fields) -> Fields:
    out: Fields | None = None
    for element, add in right.items():
        have = left.get(element)
        if have is None:
            out = dict(left) if out is None else out
            out[element] = add
            continue
        both = _joined(have, add)
        if both is not have:
            out = dict(left) if out is None else out
            out[element] = both
    return left if out is None else in_order(out)


def _joined(left: Fields, right: Fields) -> Fields:
    if left is right:
        return left
    if not right:
        return left if is_member(left) else {SELF: MEMBER, **left}
    if not left:
        return right if SELF in right else {SELF: MEMBER, **right}
    return union(left, right)


def union_of(fields: Iterable[Fields]) -> Fields:
    """The union of any number of sets, joined pair by pair: joining one after the other to a growing set would copy
    that set once for each."""
    level = list(fields)
    while len(level) > 1:
        pairs = [union(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = pairs if len(level) % 2 == 0 else [*pairs, level[-1]]
    return level[0] if level else EMPTY


def _common(left: Fields, right: Fields) -> Iterable[str]:
    """The elements that both have, at the cost of the smaller one: many managers may each own a few of the many fields
    that somebody changes."""
    smaller, larger = (left, right) if len(left) <= len(right) else (right, left)
    return [element for element in smaller if element in larger and element != SELF]


def difference(left: Fields, right: Fields) -> Fields:
    """The members of `left` that are none of `right`; what lies below a member of `right` stays."""
    out: Fields | None = None
    for element in _common(left, right):
        have, gone = left[element], right[element]
        rest = _less(have, gone)
        if rest is not have:
            out = dict(left) if out is None else out
            if rest is None:
                del out[element]
            else:
                out[element] = rest
    return left if out is None else out


def _less(left: Fields, right: Fields) -> Fields | None:
    """A node without what is in another of the same path; None if nothing is left."""
    stays = is_member(left) and not is_member(right)
    if not left:
        return left if stays else None
    children = difference(left, right)
    has_self = SELF in children
    if has_self and not stays:
        children = {element: below for element, below in children.items() if element != SELF}
    if not children:
        return None
    return MEMBER if len(children) == 1 and SELF in children else children


def recursive_difference(left: Fields, right: Fields) -> Fields:
    """`left` without the members of `right` and everything below these."""
    out: Fields | None = None
    for element in _common(left, right):
        have, gone = left[element], right[element]
        rest = None if is_member(gone) else _deep_less(have, gone)
        if rest is not have:
            out = dict(left) if out is None else out
            if rest is None:
                del out[element]
            else:
                out[element] = rest
    return left if out is None else out


def _deep_less(left: Fields, right: Fields) -> Fields | None:
    if not left:
        return left
    rest = recursive_difference(left, right)
    if not rest:
        return None
    return MEMBER if len(rest) == 1 and SELF in rest else rest


def intersection(left: Fields, right: Fields) -> Fields:
    """The members of both."""
    out: Fields = {}
    for element in _common(left, right):
        mine, other = left[element], right[element]
        children = intersection(mine, other)
        belongs = is_member(mine) and is_member(other)
        if children or belongs:
            out[element] = node(children, is_member=belongs)
    return out


def leaves(fields: Fields) -> Fields:
    """The members that have no members below."""
    return {element: leaves(below) for element, below in fields.items() if element != SELF}


def has(fields: Fields, path: Path) -> bool:
    found: Fields | None = fields
    for element in path:
        found = found.get(element) if found is not None else None
        if found is None:
            return False
    return bool(path) and found is not None and is_member(found)


def paths(fields: Fields) -> Iterator[Path]:
    """All members: those of a level in order, then those below each."""
    for element, below in fields.items():
        if element != SELF and is_member(below):
            yield (element,)
    for element, below in fields.items():
        for path in paths(below):
            yield (element, *path)


def shown_path(path: Path) -> str:
    return "".join(map(shown, path))


__all__ = [
    "EMPTY",
    "MEMBER",
    "BadFields",
    "Fields",
    "Path",
    "decode",
    "difference",
    "encode",
    "has",
    "in_order",
    "intersection",
    "is_member",
    "leaves",
    "node",
    "of",
    "paths",
    "recursive_difference",
    "shown_path",
    "union",
    "union_of",
]
