"""The syntax of CronJob schedules, as in `github.com/robfig/cron`.

Five fields (minute, hour, day of month, month, day of week) of numbers, ranges, steps and lists, or a macro like
`@daily`, or `@every` with a duration. The errors are those of kube-apiserver.
"""

import re
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Final

from sampan.api import durations, time_zones
from sampan.api.cron import Every, Schedule, Times
from sampan.api.go_compat import gotext

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WORDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_ZONES = ("TZ=", "CRON_TZ=")
_MAX_INT64 = 2**63 - 1
_is_number = re.compile(r"[+-]?[0-9]+").fullmatch
_SPACE = re.compile(r"[\t\n\v\f\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")


class ScheduleError(ValueError):
    """The schedule is invalid."""


@dataclass(frozen=True, slots=True)
class Bounds:
    least: int
    most: int
    names: tuple[str, ...] = ()
    """Names of the numbers, from `least` on."""


_BOUNDS = (Bounds(0, 59), Bounds(0, 23), Bounds(1, 31), Bounds(1, 12, _MONTHS), Bounds(0, 6, _DAYS))


def parse(text: str) -> Schedule:
    """Parse a schedule. Raise ScheduleError."""
    if not text:
        raise ScheduleError("empty spec string")
    zone, rest = _zone(text)
    if not rest.startswith("@"):
        return _times(rest, zone)
    if rest in _WORDS:
        return _times(_WORDS[rest], zone)
    if rest.startswith(_EVERY):
        return _every(rest)
    raise ScheduleError(f"unrecognized descriptor: {rest}")


def _zone(text: str) -> tuple[tzinfo | None, str]:
    """Return the time zone prefix and the rest of the schedule."""
    if not text.startswith(_ZONES):
        return None, text
    start, end = text.index("=") + 1, text.find(" ")
    if end < 0:
        raise ScheduleError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
    name = text[start:end]
    try:
        zone = UTC if name in ("", "UTC", "Local") else time_zones.zone(name)
    except time_zones.UnknownTimeZone as error:
        raise ScheduleError(f"provided bad location {name}: {error}") from None
    return zone, text[end:].strip()


def _every(text: str) -> Every:
    try:
        nanoseconds = durations.parse_duration(text[len(_EVERY) :])
    except durations.DurationError as error:
        raise ScheduleError(f"failed to parse duration {text}: {error}") from None
    return Every(max(nanoseconds // 10**9, 1))


def _times(text: str, zone: tzinfo | None) -> Times:
    fields = [field for field in _SPACE.split(text) if field]
    if len(fields) != len(_BOUNDS):
        raise ScheduleError(
            f"expected exactly {len(_BOUNDS)} fields, found {len(fields)}: {gotext.value(list(fields))}"
        )
    (minutes, _), (hours, _), (days, any_day), (months, _), (weekdays, any_weekday) = (
        _field(field, bounds) for field, bounds in zip(fields, _BOUNDS, strict=True)
    )
    return Times(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=weekdays,
        any_day=any_day or any_weekday,
        zone=zone,
    )


def _field(text: str, bounds: Bounds) -> tuple[frozenset[int], bool]:
    """Return the numbers that the field matches, and whether it is a wildcard."""
    values: set[int] = set()
    is_open = False
    for part in filter(None, text.split(",")):
        numbers, is_star = _range(part, bounds)
        values.update(numbers)
        is_open = is_open or is_star
    return frozenset(values), is_open


def _range(text: str, bounds: Bounds) -> tuple[range, bool]:
    span, *steps = text.split("/")
    low, *high = span.split("-")
    is_star = low in ("*", "?")
    start, end = (bounds.least, bounds.most) if is_star else _ends(low, high, bounds, text)
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {text}")
    step = _number(steps[0]) if steps else 1
    if steps and not high:
        end = bounds.most
    _check_range(start, end, step, bounds, text)
    return range(start, end + 1, step), is_star and step == 1


def _ends(low: str, high: list[str], bounds: Bounds, text: str) -> tuple[int, int]:
    start = _named_number(low, bounds)
    if len(high) > 1:
        raise ScheduleError(f"too many hyphens: {text}")
    return start, _named_number(high[0], bounds) if high else start


def _check_range(start: int, end: int, step: int, bounds: Bounds, text: str) -> None:
    if start < bounds.least:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({bounds.least}): {text}")
    if end > bounds.most:
        raise ScheduleError(f"end of range ({end}) above maximum ({bounds.most}): {text}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")


def _named_number(text: str, bounds: Bounds) -> int:
    lower = text.lower()
    return bounds.least + bounds.names.index(lower) if lower in bounds.names else _number(text)


def _number(text: str) -> int:
    if not (text.isascii() and _is_number(text)):
        raise ScheduleError(
            f"failed to parse int from {text}: strconv.Atoi: parsing {gotext.quote(text)}: invalid syntax"
        )
    number = int(text) if len(text) < 32 else _MAX_INT64 + 1
    if abs(number) > _MAX_INT64:
        reason = "value out of range"
        raise ScheduleError(f"failed to parse int from {text}: strconv.Atoi: parsing {gotext.quote(text)}: {reason}")
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number
