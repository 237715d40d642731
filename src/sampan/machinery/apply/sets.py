"""Sets of fields, as tries in the form of FieldsV1: an element maps to the node below it, `{}` is a member with nothing
below, and the key `"."` marks a node with something below as a member itself.

A set is never changed once it is created. The functions share unchanged parts, and return their first argument itself
if that is the result, so that `is` tests for no change.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from sampan.machinery.apply.elements import SELF, canonical, format_element, sort_elements

Fields: TypeAlias = dict[str, Any]

EMPTY: Fields = {}
MEMBER: Fields = {}
"""A node that is a member with nothing below."""

Path = tuple[str, ...]


class BadFields(ValueError):
    """The bytes are not a FieldsV1."""


def decode(raw: bytes) -> Fields:
    """Return the set in the bytes of a FieldsV1. Raise BadFields."""
    try:
        content = msgspec.json.decode(raw)
        if not isinstance(content, dict):
            raise BadFields(f"no object: {raw[:40]!r}")
        return _read(content)[0]
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise BadFields(str(error)) from None


def encode(fields: Fields) -> bytes:
    return msgspec.json.encode(fields)


def _read(json: Any) -> tuple[Fields, bool]:
    """Return the children of a node, sorted and with canonical elements, and whether the node is marked as a member."""
    if not isinstance(json, dict):
        if json is None:
            return {}, True
        raise BadFields(f"no object: {json!r}")
    out: Fields = {}
    for element, below in json.items():
        if element == SELF or (normalized := canonical(element)) is None:
            continue
        children, is_member = _read(below)
        out[normalized] = node(children, is_member=is_member or not children)
    return sort_level(out), SELF in json


def sort_level(fields: Fields) -> Fields:
    """Return a level of a set with its elements sorted."""
    keys = sort_elements(fields)
    return fields if keys == list(fields) else {key: fields[key] for key in keys}


def node(children: Fields, *, is_member: bool) -> Fields:
    """Return a node with these children. A node without children must be a member."""
    return {SELF: MEMBER, **children} if is_member and children else children


def is_member(fields: Fields) -> bool:
    """Whether a node of the set is a member, rather than only a prefix of one."""
    return not fields or SELF in fields


def from_paths(*paths: Path) -> Fields:
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
        present = left.get(element)
        if present is None:
            out = dict(left) if out is None else out
            out[element] = add
            continue
        both = _merge_nodes(present, add)
        if both is not present:
            out = dict(left) if out is None else out
            out[element] = both
    return left if out is None else sort_level(out)


def _merge_nodes(left: Fields, right: Fields) -> Fields:
    if left is right:
        return left
    if not right:
        return left if is_member(left) else {SELF: MEMBER, **left}
    if not left:
        return right if SELF in right else {SELF: MEMBER, **right}
    return union(left, right)


def union_of(fields: Iterable[Fields]) -> Fields:
    """Return the union of any number of sets, joined pairwise: joining them one after the other to a growing set would
    copy that set each time."""
    level = list(fields)
    while len(level) > 1:
        pairs = [union(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = pairs if len(level) % 2 == 0 else [*pairs, level[-1]]
    return level[0] if level else EMPTY


def _common(left: Fields, right: Fields) -> Iterable[str]:
    """Return the elements that both sets have, in time proportional to the smaller set: many managers may each own a
    few of the many fields that a write changes."""
    smaller, larger = (left, right) if len(left) <= len(right) else (right, left)
    return [element for element in smaller if element in larger and element != SELF]


def difference(left: Fields, right: Fields) -> Fields:
    """Return the members of `left` that are not members of `right`. Members below a member of `right` are kept."""
    out: Fields | None = None
    for element in _common(left, right):
        present, removed = left[element], right[element]
        remainder = _subtract_node(present, removed)
        if remainder is not present:
            out = dict(left) if out is None else out
            if remainder is None:
                del out[element]
            else:
                out[element] = remainder
    return left if out is None else out


def _subtract_node(left: Fields, right: Fields) -> Fields | None:
    """Return a node without the members of another node of the same path; None if nothing is left."""
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
    """Return `left` without the members of `right` and everything below them."""
    out: Fields | None = None
    for element in _common(left, right):
        present, removed = left[element], right[element]
        remainder = None if is_member(removed) else _subtract_node_recursively(present, removed)
        if remainder is not present:
            out = dict(left) if out is None else out
            if remainder is None:
                del out[element]
            else:
                out[element] = remainder
    return left if out is None else out


def _subtract_node_recursively(left: Fields, right: Fields) -> Fields | None:
    if not left:
        return left
    remainder = recursive_difference(left, right)
    if not remainder:
        return None
    return MEMBER if len(remainder) == 1 and SELF in remainder else remainder


def intersection(left: Fields, right: Fields) -> Fields:
    out: Fields = {}
    for element in _common(left, right):
        left_node, right_node = left[element], right[element]
        children = intersection(left_node, right_node)
        belongs = is_member(left_node) and is_member(right_node)
        if children or belongs:
            out[element] = node(children, is_member=belongs)
    return out


def has(fields: Fields, path: Path) -> bool:
    below: Fields | None = fields
    for element in path:
        below = below.get(element) if below is not None else None
        if below is None:
            return False
    return bool(path) and below is not None and is_member(below)


def paths(fields: Fields) -> Iterator[Path]:
    """Yield the paths of all members of a set: the members of a level in order, then those below each of them."""
    for element, below in fields.items():
        if element != SELF and is_member(below):
            yield (element,)
    for element, below in fields.items():
        for path in paths(below):
            yield (element, *path)


def format_path(path: Path) -> str:
    return "".join(map(format_element, path))
