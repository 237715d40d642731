"""IntOrString values: ports by number or name, counts or percentages of a total."""

import re
from typing import Final

from sampan.api.go_compat import gotext

IntOrString = int | str

MAX_INT32: Final = 2**31 - 1
MIN_INT32: Final = -(2**31)
_MAX_INT64: Final = 2**63 - 1

_is_integer = re.compile(r"[+-]?[0-9]{1,4000}").fullmatch


class IntOrStringError(ValueError):
    """The value cannot be scaled; the message is that of kube-apiserver."""


def parse(text: str) -> IntOrString:
    """Return a number if the text is a 32-bit integer, otherwise the text."""
    if _is_integer(text) and MIN_INT32 <= (number := int(text)) <= MAX_INT32:
        return number
    return text


def int_value(value: IntOrString) -> int:
    """Return the number, or the integer in the text, or 0."""
    if isinstance(value, int):
        return value
    if not _is_integer(value):
        return 0
    return max(-_MAX_INT64 - 1, min(int(value), _MAX_INT64))


def percent_of(value: IntOrString) -> int | None:
    """Return the number before the percent sign, or None if the value is not a percentage."""
    if isinstance(value, str) and value.endswith("%") and _is_integer(value[:-1]):
        return int(value[:-1])
    return None


def scale_int_or_percent(value: IntOrString, total: int, *, round_up: bool) -> int:
    """Return a number unchanged, or a percentage of `total`, rounded up or down. Raise IntOrStringError for any other
    text."""
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise IntOrStringError("invalid value for IntOrString: invalid type: string is not a percentage")
    percent = percent_of(value)
    if percent is None or not -_MAX_INT64 - 1 <= percent <= _MAX_INT64:
        reason = "invalid syntax" if percent is None else "value out of range"
        cause = f"strconv.Atoi: parsing {gotext.quote(value[:-1])}: {reason}"
        raise IntOrStringError(f"invalid value for IntOrString: invalid value {gotext.quote(value)}: {cause}")
    return -(-percent * total // 100) if round_up else percent * total // 100
