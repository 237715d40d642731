"""Parts of timestamps and durations: `timestamp(x).getFullYear("Europe/Berlin")`, `duration("90s").getMinutes()`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from sampan.machinery.cel.checker.declarations import Library, Overload, method
from sampan.machinery.cel.checker.types import DURATION, INT, STRING, TIMESTAMP
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.runtime.values import NANOSECONDS, Duration, Timestamp


def _zone(name: str) -> tzinfo:
    """Return a time zone by its name or by its offset (`-08:00`)."""
    if not name or name == "UTC":
        return UTC
    sign, text = (-1, name[1:]) if name[0] == "-" else (1, name.removeprefix("+"))
    hours, colon, minutes = text.partition(":")
    if colon and hours.isdigit() and minutes.isdigit() and len(hours) <= 2 and len(minutes) == 2 and int(hours) < 24:
        return timezone(sign * timedelta(hours=int(hours), minutes=int(minutes)))
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise EvaluationError(f"unknown time zone {name[:100]}") from None


def _part(read: Callable[[datetime], int]) -> list[Overload]:
    def run(moment: Timestamp, zone: str = "") -> int:
        zone_info = _zone(zone)
        try:
            return read(moment.datetime().astimezone(zone_info))
        except (OverflowError, ValueError):
            raise EvaluationError("timestamp out of range") from None

    return [method(TIMESTAMP, result=INT, run=run), method(TIMESTAMP, STRING, result=INT, run=run)]


def _span(nanoseconds: int) -> Overload:
    def run(value: Duration) -> int:
        whole = abs(value.nanoseconds) // nanoseconds
        return -whole if value.nanoseconds < 0 else whole

    return method(DURATION, result=INT, run=run)


def _milliseconds(value: Duration) -> int:
    whole = abs(value.nanoseconds) // 1_000_000
    return -whole if value.nanoseconds < 0 else whole


LIBRARY = Library(
    {
        "getFullYear": _part(lambda moment: moment.year),
        "getMonth": _part(lambda moment: moment.month - 1),
        "getDayOfYear": _part(lambda moment: moment.timetuple().tm_yday - 1),
        "getDayOfMonth": _part(lambda moment: moment.day - 1),
        "getDate": _part(lambda moment: moment.day),
        "getDayOfWeek": _part(lambda moment: moment.isoweekday() % 7),
        "getHours": [*_part(lambda moment: moment.hour), _span(3600 * NANOSECONDS)],
        "getMinutes": [*_part(lambda moment: moment.minute), _span(60 * NANOSECONDS)],
        "getSeconds": [*_part(lambda moment: moment.second), _span(NANOSECONDS)],
        "getMilliseconds": [
            *_part(lambda moment: moment.microsecond // 1000),
            method(DURATION, result=INT, run=_milliseconds),
        ],
    }
)
