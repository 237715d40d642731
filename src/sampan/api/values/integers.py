"""Integers in text from users, nodes and images.

Python's `int` accepts non-ASCII digits, underscores and whitespace, and raises ValueError for more than 4300 digits.
Go's `strconv` does none of that; this module follows Go.
"""

from __future__ import annotations

import re
from typing import Final

MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)
_DIGITS: Final = 19
"""The number of digits of the largest 64-bit integer."""

_match = re.compile(r"([+-]?)0*+([0-9]*+)", re.ASCII).fullmatch


def is_integer(text: str) -> bool:
    """Whether the text has the syntax of a decimal integer, of any size."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isascii() and digits.isdigit()


def parse_int64(text: str) -> int | None:
    """Return the number, or None for other text and for numbers of more than 64 bits."""
    if not is_integer(text):
        return None
    parts = _match(text)
    if parts is None or len(parts[2]) > _DIGITS:
        return None
    number = int(parts[1] + (parts[2] or "0"))
    return number if MIN_INT64 <= number <= MAX_INT64 else None


def parse_port(text: str) -> int | None:
    """Return the number of a TCP or UDP port, or None for other text."""
    number = parse_int64(text) if text.isdigit() else None
    return number if number is not None and 0 < number < 1 << 16 else None
