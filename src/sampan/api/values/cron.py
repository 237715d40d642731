"""Schedules of CronJobs: their syntax, their time zones, and when they are due, as in `github.com/robfig/cron`.

Five fields (minute, hour, day of month, month, day of week) of numbers, ranges, steps and lists, or a macro like
`@daily`, or `@every` with a duration. The errors are those of kube-apiserver.
"""

import re
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from sampan.api.go_compat import gotext
from sampan.api.values import durations
from sampan.host.bounded_cache import BoundedCache

_MAX_YEARS_AHEAD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarSchedule:
    """A schedule of calendar times: the minutes, hours, days and months that it matches."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """Days of the week; Sunday is 0."""
    any_day: bool
    """Whether day of month or day of week is a wildcard: then both must match, otherwise one of them."""
    zone: tzinfo | None = None
    """The time zone in the schedule itself."""

    def next_after(self, moment: float, zone: tzinfo = UTC) -> float | None:
        """Return the first time after `moment` (in seconds since the epoch) that is due; None if there is none within
        five years."""
        if not (self.minutes and self.hours):  # or every minute of five years would be tried
            return None
        zone = self.zone or zone
        start = datetime.fromtimestamp(int(moment) // 60 * 60 + 60, zone)
        day, last = start.replace(hour=0, minute=0), start.year + _MAX_YEARS_AHEAD
        while day.year <= last:
            if self._is_due_on(day) and (due := self._find_first_due(day, start)) is not None:
                return due
            day = self._next_day(day)
        return None

    def _next_day(self, day: datetime) -> datetime:
        if day.month in self.months:
            return (day.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=day.tzinfo)
        year, month = divmod(day.year * 12 + day.month, 12)
        return datetime(year, month + 1, 1, tzinfo=day.tzinfo)

    def _is_due_on(self, day: datetime) -> bool:
        fits, fits_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (fits and fits_week if self.any_day else fits or fits_week)

    def _find_first_due(self, day: datetime, start: datetime) -> float | None:
        """Return the first due time on the day, or None. It follows elapsed time: an hour that the clock skips is not
        due, one that it repeats is due twice."""
        minimum = start.timestamp()
        moment = max(day.astimezone(UTC).timestamp(), minimum)
        while True:
            now = datetime.fromtimestamp(moment, day.tzinfo)
            if (now.year, now.month, now.day) != (day.year, day.month, day.day):
                return None
            if now.hour in self.hours:
                if now.minute in self.minutes:
                    return moment
                moment += 60
            else:
                moment += 3600 - now.minute * 60 - now.second


@dataclass(frozen=True, slots=True)
class IntervalSchedule:
    """A fixed interval (`@every`)."""

    seconds: int

    def next_after(self, moment: float, zone: tzinfo = UTC) -> float | None:
        return int(moment) + self.seconds


Schedule = CalendarSchedule | IntervalSchedule


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
class FieldBounds:
    least: int
    most: int
    names: tuple[str, ...] = ()
    """The names of the numbers that a field of a schedule allows, from `least` on."""


_BOUNDS = (
    FieldBounds(0, 59),
    FieldBounds(0, 23),
    FieldBounds(1, 31),
    FieldBounds(1, 12, _MONTHS),
    FieldBounds(0, 6, _DAYS),
)


def parse_schedule(text: str) -> Schedule:
    """Parse a schedule. Raise ScheduleError."""
    if not text:
        raise ScheduleError("empty spec string")
    zone, remainder = _zone(text)
    if not remainder.startswith("@"):
        return _parse_calendar_schedule(remainder, zone)
    if remainder in _WORDS:
        return _parse_calendar_schedule(_WORDS[remainder], zone)
    if remainder.startswith(_EVERY):
        return _parse_every(remainder)
    raise ScheduleError(f"unrecognized descriptor: {remainder}")


def _zone(text: str) -> tuple[tzinfo | None, str]:
    """Return the time zone prefix and the rest of the schedule."""
    if not text.startswith(_ZONES):
        return None, text
    start, end = text.index("=") + 1, text.find(" ")
    if end < 0:
        raise ScheduleError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
    name = text[start:end]
    try:
        zone = UTC if name in ("", "UTC", "Local") else time_zone(name)
    except UnknownTimeZone as error:
        raise ScheduleError(f"provided bad location {name}: {error}") from None
    return zone, text[end:].strip()


def _parse_every(text: str) -> IntervalSchedule:
    try:
        nanoseconds = durations.parse_duration(text[len(_EVERY) :])
    except durations.DurationError as error:
        raise ScheduleError(f"failed to parse duration {text}: {error}") from None
    return IntervalSchedule(max(nanoseconds // 10**9, 1))


def _parse_calendar_schedule(text: str, zone: tzinfo | None) -> CalendarSchedule:
    fields = [field for field in _SPACE.split(text) if field]
    if len(fields) != len(_BOUNDS):
        raise ScheduleError(
            f"expected exactly {len(_BOUNDS)} fields, found {len(fields)}: {gotext.value(list(fields))}"
        )
    (minutes, _), (hours, _), (days, any_day), (months, _), (weekdays, any_weekday) = (
        _field(field, bounds) for field, bounds in zip(fields, _BOUNDS, strict=True)
    )
    return CalendarSchedule(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=weekdays,
        any_day=any_day or any_weekday,
        zone=zone,
    )


def _field(text: str, bounds: FieldBounds) -> tuple[frozenset[int], bool]:
    """Return the numbers that the field matches, and whether it is a wildcard."""
    values: set[int] = set()
    is_open = False
    for part in filter(None, text.split(",")):
        numbers, is_star = _range(part, bounds)
        values.update(numbers)
        is_open = is_open or is_star
    return frozenset(values), is_open


def _range(text: str, bounds: FieldBounds) -> tuple[range, bool]:
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


def _ends(low: str, high: list[str], bounds: FieldBounds, text: str) -> tuple[int, int]:
    start = _parse_name_or_number(low, bounds)
    if len(high) > 1:
        raise ScheduleError(f"too many hyphens: {text}")
    return start, _parse_name_or_number(high[0], bounds) if high else start


def _check_range(start: int, end: int, step: int, bounds: FieldBounds, text: str) -> None:
    if start < bounds.least:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({bounds.least}): {text}")
    if end > bounds.most:
        raise ScheduleError(f"end of range ({end}) above maximum ({bounds.most}): {text}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")


def _parse_name_or_number(text: str, bounds: FieldBounds) -> int:
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


_is_part = re.compile(r"[A-Za-z._0-9+][A-Za-z._0-9+-]{0,13}").fullmatch


class UnknownTimeZone(ValueError):
    """There is no such time zone; the message is that of kube-apiserver."""


def time_zone(name: str) -> ZoneInfo:
    """Return the time zone with exactly this IANA name. Raise UnknownTimeZone."""
    if not all(_is_part(part) and part not in (".", "..") for part in name.split("/")):
        raise UnknownTimeZone(f"unknown time zone {name}")
    return _zones[name]


def _load_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError):
        raise UnknownTimeZone(f"unknown time zone {name}") from None
    except ValueError:
        raise UnknownTimeZone("malformed time zone information") from None


_zones = BoundedCache(_load_zone, max_entries=1024)
