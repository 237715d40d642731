"""The path elements of items in an associative list, and the equality of JSON values in structured merge, for which 1
and 1.0 are equal, and 1 and true are not."""

from typing import Any

import msgspec

from sampan.machinery.apply import elements
from sampan.machinery.apply.atoms import MISSING, Atom

_encode = msgspec.json.Encoder().encode


def are_equal(left: Any, right: Any) -> bool:
    return left is right or (left == right and (_encode(left) == _encode(right) or _agree(left, right)))


def _agree(left: Any, right: Any) -> bool:
    """Whether values that are equal in Python do not mix booleans and numbers."""
    if isinstance(left, dict):
        return all(_agree(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return all(map(_agree, left, right))
    return (type(left) is bool) is (type(right) is bool)


class SchemaMismatch(ValueError):
    """The value does not match its schema; the message is that of structured-merge-diff."""


def element(item: Any, atom: Atom) -> str:
    """Return the path element of an item; `atom` is that of the list. Raise Misfit."""
    if not atom.keys:
        return _encode_set_item(item)
    if not isinstance(item, dict):
        kind = "a null element" if item is None else "non-map elements"
        raise SchemaMismatch(f"associative list with keys may not have {kind}")
    parts = [
        (name, part)
        for name, default in atom.keys
        if (part := item.get(name, default)) is not MISSING and (part is not None or name in item)
    ]
    if not parts:
        names = " ".join(f'"{name}"' for name, _ in atom.keys)
        raise SchemaMismatch(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return elements.key(parts)


def _encode_set_item(item: Any) -> str:
    if isinstance(item, dict):
        raise SchemaMismatch("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise SchemaMismatch("not supported: associative list with lists as elements")
    if item is None:
        raise SchemaMismatch("associative list without keys has an element that's an explicit null")
    return elements.value(item)


def group_by_element(items: list[Any], atom: Atom) -> dict[str, list[Any]]:
    """Return the items by their elements; several items of one element are duplicates."""
    out: dict[str, list[Any]] = {}
    for index, item in enumerate(items):
        try:
            key = element(item, atom)
        except SchemaMismatch as misfit:
            raise SchemaMismatch(f"element {index}: {misfit}") from None
        out.setdefault(key, []).append(item)
    return out
