"""Timestamps of the API: Time (whole seconds) and MicroTime (six digits), both RFC 3339 in UTC.

Parsing is as lenient as in Kubernetes, and the errors have the same messages; inside Sampan a time is a float of
seconds since the epoch. Durations (`1h2m3s`) are in `durations`.
"""

import re
from datetime import date
from typing import Final, NamedTuple

from sampan.host.bounded_cache import BoundedCache

LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_LAST_DAY = date.max.toordinal()
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097

_DAY = (
    r"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_SECOND = rf"[0-9]{{4}}-{_DAY}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_is_plain = re.compile(rf"{_SECOND}Z").fullmatch
_is_plain_micro = re.compile(rf"{_SECOND}\.[0-9]{{6}}Z").fullmatch


class TimeError(ValueError):
    """The text is not a time; the message is that of kube-apiserver."""


class Moment(NamedTuple):
    """A point in time with full precision."""

    second: int
    """Seconds since the epoch, rounded down."""
    nanosecond: int

    @property
    def epoch(self) -> float:
        return self.second + self.nanosecond / 1e9


def canonical_time(text: str) -> str:
    """Return a Time as the API server writes it. Raise TimeError."""
    return text if _is_plain(text) else _seconds[_parse(text, LAYOUT).second]


def canonical_micro_time(text: str) -> str:
    """Return a MicroTime as the API server writes it. The fraction must have exactly six digits. Raise TimeError."""
    if _is_plain_micro(text):
        return text
    moment = _parse(text, MICRO_LAYOUT)
    return f"{_seconds[moment.second][:-1]}.{moment.nanosecond // 1000:06d}Z"


def format_time(epoch: float) -> str:
    return _seconds[int(epoch // 1)]


def format_micro_time(epoch: float) -> str:
    second, micro = divmod(round(epoch * 1e6), 1_000_000)
    return f"{_seconds[second][:-1]}.{micro:06d}Z"


def parse_time(text: str) -> float:
    """Return the seconds since the epoch of a Time or MicroTime. Raise TimeError."""
    return parse_moment(text).epoch


def parse_moment(text: str) -> Moment:
    return _parse(text, LAYOUT)


def _format_seconds(second: int) -> str:
    days, remainder = divmod(second, 86_400)
    minutes, seconds = divmod(remainder, 60)
    ordinal, years = days + _EPOCH_DAY, 0
    if ordinal < 1:
        ordinal, years = ordinal + _CYCLE_DAYS, -_CYCLE_YEARS
    elif ordinal > _LAST_DAY:
        ordinal, years = ordinal - _CYCLE_DAYS, _CYCLE_YEARS
    day = date.fromordinal(ordinal)
    year = day.year + years
    sign = "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{day.month:02d}-{day.day:02d}T{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}Z"


_seconds = BoundedCache(_format_seconds, max_entries=1024)


def _parse(text: str, layout: str) -> Moment:
    return _moments[text, layout]


def _read(text_and_layout: tuple[str, str]) -> Moment:
    text, layout = text_and_layout
    return _Reader(text=text, layout=layout).read()


_moments = BoundedCache(_read, max_entries=4096, max_entry_bytes=512)
"""Times by their text and layout."""


def quote(text: str) -> str:
    """Return the text in double quotes, as in the messages of Go's time package: unlike `%q` byte by byte, and without
    names for control characters."""
    return _quote_bytes(_bytewise(text))


def _bytewise(text: str) -> str:
    """Return one character per byte of UTF-8, because messages and lengths count bytes."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("latin-1")


def _quote_bytes(text: str) -> str:
    escaped = (f"\\x{ord(c):02x}" if c >= "\x80" or c < " " else "\\" + c if c in '"\\' else c for c in text)
    return f'"{"".join(escaped)}"'


class _Reader:
    """Parses one text, element by element of the layout, and reports where it fails."""

    def __init__(self, *, text: str, layout: str) -> None:
        self._text, self._layout = text, layout
        self._rest = _bytewise(text)

    def read(self) -> Moment:
        year = self._year()
        self._skip("-")
        month = self._two_digits("01", 1, 12, "month")
        self._skip("-")
        day = self._two_digits("02", 0, 99, "day")
        self._skip("T")
        hour = self._hour()
        self._skip(":")
        minute = self._two_digits("04", 0, 59, "minute")
        self._skip(":")
        second = self._two_digits("05", 0, 59, "second")
        nanosecond = self._micros() if self._layout == MICRO_LAYOUT else self._any_fraction()
        offset = self._zone()
        if self._rest:
            raise self._error(f"extra text: {_quote_bytes(self._rest)}")
        days = self._days(year, month, day)
        return Moment(days * 86_400 + hour * 3600 + minute * 60 + second - offset, nanosecond)

    def _error(self, message: str) -> TimeError:
        return TimeError(f"parsing time {quote(self._text)}: {message}")

    def _mismatch(self, element: str) -> TimeError:
        remainder = _quote_bytes(self._rest)
        return TimeError(
            f'parsing time {quote(self._text)} as "{self._layout}": cannot parse {remainder} as "{element}"'
        )

    def _take(self, count: int) -> str:
        prefix, self._rest = self._rest[:count], self._rest[count:]
        return prefix

    def _skip(self, mark: str) -> None:
        if not self._rest.startswith(mark):
            raise self._mismatch(mark)
        self._take(1)

    def _year(self) -> int:
        if not _is_digits(self._rest[:4], 4):
            raise self._mismatch("2006")
        return int(self._take(4))

    def _two_digits(self, element: str, low: int, high: int, name: str) -> int:
        if not _is_digits(self._rest[:2], 2):
            raise self._mismatch(element)
        number = int(self._take(2))
        if not low <= number <= high:
            raise self._error(f"{name} out of range")
        return number

    def _hour(self) -> int:
        """Parse the hour, which may have a single digit."""
        if not _is_digits(self._rest[:1], 1):
            raise self._mismatch("15")
        number = int(self._take(2 if _is_digits(self._rest[:2], 2) else 1))
        if number > 23:
            raise self._error("hour out of range")
        return number

    def _any_fraction(self) -> int:
        match = re.match(r"[.,]([0-9]+)", self._rest)
        if match is None:
            return 0
        self._take(match.end())
        return int(match[1][:9].ljust(9, "0"))

    def _micros(self) -> int:
        match = re.fullmatch(r"[.,]([+-]?)([0-9]{5,6})", self._rest[:7])
        if match is None or match.end() != 7:
            raise self._mismatch(".000000")
        self._take(7)
        if match[1] == "-" and int(match[2]):
            raise self._error("fractional second out of range")
        return int(match[2]) * 1000

    def _zone(self) -> int:
        """Return the offset in seconds east of UTC."""
        if self._rest.startswith("Z"):
            self._take(1)
            return 0
        remainder = self._rest[:6]
        if len(remainder) < 6 or remainder[3] != ":":
            raise self._mismatch("Z07:00")
        hours = int(remainder[1:3]) if _is_digits(remainder[1:3], 2) else -1
        minutes = int(remainder[4:6]) if hours >= 0 and _is_digits(remainder[4:6], 2) else -1
        if minutes > 60 or hours > 24:
            raise self._error(f"time zone offset {'minute' if minutes > 60 else 'hour'} out of range")
        if minutes < 0 or remainder[0] not in "+-":
            raise self._mismatch("Z07:00")
        self._take(6)
        return (hours * 3600 + minutes * 60) * (-1 if remainder[0] == "-" else 1)

    def _days(self, year: int, month: int, day: int) -> int:
        """Return the days since the epoch. Python's dates lack the year 0, which has the same calendar as the year
        400."""
        shift = _CYCLE_YEARS if year == 0 else 0
        try:
            ordinal = date(year + shift, month, day).toordinal()
        except ValueError:
            raise self._error("day out of range") from None
        return ordinal - (_CYCLE_DAYS if shift else 0) - _EPOCH_DAY


def _is_digits(text: str, count: int) -> bool:
    return len(text) == count and text.isascii() and text.isdigit()
