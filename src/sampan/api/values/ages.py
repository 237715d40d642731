"""Ages in the human-readable form of tables and descriptions."""

from sampan.api.values import times

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400


def age(created: str | None, now: float) -> str:
    """Return the time from a Time or MicroTime until `now`."""
    return format_age(now - times.parse_time(created)) if created else UNKNOWN


def format_age(seconds: float) -> str:
    """Return `90s`, `5m10s`, `3h20m`, `2d4h`, `400d`, `3y20d`. Times less than two seconds in the future count as now,
    because clocks differ."""
    whole = int(seconds)
    if whole < -1:
        return INVALID
    if whole < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _format_two_units(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _format_two_units(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _format_two_units(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _format_two_units(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _format_two_units(seconds: int, unit: int, letter: str, lesser: int, lesser_letter: str) -> str:
    remainder = seconds % unit // lesser
    return f"{seconds // unit}{letter}{remainder}{lesser_letter}" if remainder else f"{seconds // unit}{letter}"
