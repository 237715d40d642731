"""Numbers as Go's JSON encoder writes them back: a float that is a whole number has no fraction, and every number that
does not fit into 64 bits is a float."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

from sampan.api.values.integers import MAX_INT64, MIN_INT64

_EXPONENT_FROM: Final = 1e21
"""The size of a float from which on it is written with an exponent."""
_EXACT_BELOW: Final = 2**53
_LONG_NUMBER: Final = re.compile(rb"\d{19}")


def from_float(value: float) -> int | float:
    """Return the number to store for a float. The digits of a whole number are the fewest that identify the float."""
    if not value.is_integer() or abs(value) >= _EXPONENT_FROM:
        return float(value)
    return int(value) if abs(value) < _EXACT_BELOW else int(Decimal(repr(float(value))))


def normalize_decoded(body: bytes, value: Any) -> Any:
    """Return the value of a JSON text with its numbers as they come back: only long integers differ once decoded."""
    return value if _LONG_NUMBER.search(body) is None else normalize(value)


def normalize(value: Any) -> Any:
    """Return a JSON value with its numbers as they come back."""
    kind = type(value)
    if kind is float:
        return from_float(value)
    if kind is int:
        return value if MIN_INT64 <= value <= MAX_INT64 else from_float(float(value))
    if kind is dict:
        return {key: normalize(item) for key, item in value.items()}
    return [normalize(item) for item in value] if kind is list else value
