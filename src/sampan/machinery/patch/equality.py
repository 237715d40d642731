"""Strict equality of JSON values: in Python 1, 1.0 and true are equal; JSON patches distinguish them."""

from typing import Any


def same(left: Any, right: Any) -> bool:
    """Whether the values are equal, and of equal types at all levels."""
    return left is right or (left == right and _same_types(left, right))


def _same_types(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return all(_same_types(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return all(map(_same_types, left, right))
    return True
