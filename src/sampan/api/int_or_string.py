"""Values that are a number or a text: ports by number or name, counts or percentages of a total."""

import re
from typing import Final

from sampan.api import gotext

IntOrString = int | str

MAX_INT32: Final = 2**31 - 1
MIN_INT32: Final = -(2**31)
_MAX_INT64: Final = 2**63 - 1

_is_integer = re.compile(r"[+-]?[0-9]{1,4000}").fullmatch


class IntOrStringError(ValueError):
    """A value that cannot be scaled; the message is the API server's."""


def parse(text: str) -> IntOrString:
    """A number if the text is one of 32 bits, otherwise the text."""
    if _is_integer(text) and MIN_INT32 <= (number := int(text)) <= MAX_INT32:
        return number
    return text


def int_value(value: IntOrString) -> int:
    """The number, or the number that the text is, or 0."""
    if isinstance(value, int):
        return value
    if not _is_integer(value):
        return 0
    return max(-_MAX_INT64 - 1, min(int(value), _MAX_INT64))


def percent_of(value: IntOrString) -> int | None:
    """The number before the percent sign, None for a value that is no percentage."""
    if isinstance(value, str) and value.endswith("%") and _is_integer(value[:-1]):
        return int(value[:-1])
    return None


def scaled(value: IntOrString, total: int, *, round_up: bool) -> int:
    """A number as it is; a percentage of `total`, rounded up or down. `IntOrStringError` for any other text."""
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
