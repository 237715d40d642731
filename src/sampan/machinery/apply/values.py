"""Equality of JSON values in structured merge: 1 and 1.0 are equal, 1 and true are not."""

from typing import Any


def equal(left: Any, right: Any) -> bool:
    return left is right or (left == right and _agree(left, right))


def _agree(left: Any, right: Any) -> bool:
    """Whether values that are equal in Python do not mix booleans and numbers."""
    if isinstance(left, dict):
        return all(_agree(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return all(map(_agree, left, right))
    return (type(left) is bool) is (type(right) is bool)
