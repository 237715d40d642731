"""Durations such as `1h2m3s`, in whole nanoseconds, parsed and formatted like Go's `time.Duration`."""

import re
from typing import Final

from sampan.api.values.times import quote

NANOSECOND: Final = 1
MICROSECOND: Final = 1000 * NANOSECOND
MILLISECOND: Final = 1000 * MICROSECOND
SECOND: Final = 1000 * MILLISECOND
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

_UNITS = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "\u00b5s": MICROSECOND,
    "\u03bcs": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_LIMIT = 2**63
_TERM = re.compile(r"([0-9]*)(\.[0-9]*)?([^.0-9]*)")


class DurationError(ValueError):
    """The text is not a duration; the message is that of kube-apiserver."""


def parse_duration(text: str) -> int:
    """Return the duration in nanoseconds. Raise DurationError."""
    is_negative, path, total = text.startswith("-"), int(text.startswith(("+", "-"))), 0
    if text[path:] == "0":
        return 0
    for term in _TERM.finditer(text, path):
        total += _term(text, term)
        if total > _LIMIT:
            raise _invalid(text)
        if term.end() == len(text):
            break
    if total == _LIMIT and not is_negative:
        raise _invalid(text)
    return -total if is_negative else total


def _term(text: str, term: re.Match[str]) -> int:
    whole, fraction, unit_name = term[1].lstrip("0"), (term[2] or ".")[1:], term[3]
    if not term[1] and not fraction:
        raise _invalid(text)
    number = int(whole or "0") if len(whole) < 20 else _LIMIT + 1
    if number > _LIMIT:
        raise _invalid(text)
    if not unit_name:
        raise DurationError(f"time: missing unit in duration {quote(text)}")
    unit = _UNITS.get(unit_name)
    if unit is None:
        raise DurationError(f"time: unknown unit {quote(unit_name)} in duration {quote(text)}")
    if number > _LIMIT // unit:
        raise _invalid(text)
    return number * unit + _fraction(fraction, unit)


def _fraction(digits: str, unit: int) -> int:
    """Return the fraction in nanoseconds. Like Go, it multiplies floats, with as many digits as fit in 63 bits."""
    number, scale = 0, 1.0
    for digit in digits[:20]:
        longer = number * 10 + int(digit)
        if number > (_LIMIT - 1) // 10 or longer > _LIMIT:
            break
        number, scale = longer, scale * 10
    return int(float(number) * (float(unit) / scale))


def _invalid(text: str) -> DurationError:
    return DurationError(f"time: invalid duration {quote(text)}")


def format_duration(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    sign, remainder = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if remainder < SECOND:
        return sign + _format_subsecond(remainder)
    minutes, remainder = divmod(remainder, MINUTE)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(remainder, SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def _format_subsecond(nanoseconds: int) -> str:
    if nanoseconds < MICROSECOND:
        return f"{nanoseconds}ns"
    if nanoseconds < MILLISECOND:
        return f"{_decimal(nanoseconds, MICROSECOND)}\u00b5s"
    return f"{_decimal(nanoseconds, MILLISECOND)}ms"


def _decimal(nanoseconds: int, unit: int) -> str:
    whole, fraction = divmod(nanoseconds, unit)
    digits = str(fraction).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def canonical_duration(text: str) -> str:
    return format_duration(parse_duration(text))
