"""Values at run time are plain Python objects: bool, int, float, str, bytes, list, dict and None. This module has the
types that Python lacks or does not distinguish.

Lists may also be tuples, and maps any Mapping: the values of variables are not copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import total_ordering
from typing import Any, ClassVar, Final

from sampan.machinery.cel.errors import EvaluationError

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1
NANOSECONDS: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MIN_TIMESTAMP_S, _MAX_TIMESTAMP_S = -62135596800, 253402300799


class Uint(int):
    """An unsigned integer. Arithmetic of `int` returns `int`: operators wrap the result again."""

    __slots__ = ()


class Opaque:
    """A value of a type that a library defines, such as a quantity."""

    __slots__ = ()
    type_name: ClassVar[str] = "opaque"


class TypeValue:
    """A type as a value: the result of `type(1)` and `int`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeValue) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"TypeValue({self.name!r})"


class OptionalValue:
    """A value that may be absent: the result of `a.?b`."""

    __slots__ = ("has_value", "value")

    def __init__(self, value: Any = None, *, has_value: bool = True) -> None:
        self.value, self.has_value = value, has_value

    def __repr__(self) -> str:
        return f"optional.of({self.value!r})" if self.has_value else "optional.none()"


NONE: Final = OptionalValue(has_value=False)


class DefaultMap(dict[Any, Any]):
    """A map with a default value for missing keys."""

    __slots__ = ("default",)

    def __init__(self, values: Mapping[Any, Any], default: Any) -> None:
        super().__init__(values)
        self.default = default

    def __missing__(self, key: Any) -> Any:
        return self.default


@total_ordering
class Duration:
    """A duration in nanoseconds, which fit into 64 bits as in Go."""

    __slots__ = ("nanoseconds",)

    def __init__(self, nanoseconds: int) -> None:
        if not INT_MIN <= nanoseconds <= INT_MAX:
            raise EvaluationError("range error: duration overflow")
        self.nanoseconds = nanoseconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanoseconds == other.nanoseconds

    def __lt__(self, other: Duration) -> bool:
        return self.nanoseconds < other.nanoseconds

    def __hash__(self) -> int:
        return hash(("duration", self.nanoseconds))

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"

    def __str__(self) -> str:
        """Return the seconds with a fraction, like `string(duration)`."""
        sign = "-" if self.nanoseconds < 0 else ""
        seconds, remainder = divmod(abs(self.nanoseconds), NANOSECONDS)
        fraction = f".{remainder:09}".rstrip("0") if remainder else ""
        return f"{sign}{seconds}{fraction}s"


@total_ordering
class Timestamp:
    """A time in nanoseconds since 1970, from the year 1 to the year 9999."""

    __slots__ = ("nanoseconds",)

    def __init__(self, nanoseconds: int) -> None:
        if not _MIN_TIMESTAMP_S <= nanoseconds // NANOSECONDS <= _MAX_TIMESTAMP_S:
            raise EvaluationError("range error: timestamp overflow")
        self.nanoseconds = nanoseconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanoseconds == other.nanoseconds

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanoseconds < other.nanoseconds

    def __hash__(self) -> int:
        return hash(("timestamp", self.nanoseconds))

    def __repr__(self) -> str:
        return f"Timestamp({str(self)!r})"

    def datetime(self) -> datetime:
        """Return the time in UTC, with microsecond precision."""
        seconds, remainder = divmod(self.nanoseconds, NANOSECONDS)
        return _EPOCH + timedelta(seconds=seconds, microseconds=remainder // 1000)

    def __str__(self) -> str:
        moment, remainder = self.datetime(), self.nanoseconds % NANOSECONDS
        fraction = f".{remainder:09}".rstrip("0") if remainder else ""
        date = f"{moment.year:04}-{moment.month:02}-{moment.day:02}"
        return f"{date}T{moment.hour:02}:{moment.minute:02}:{moment.second:02}{fraction}Z"


_DURATION = re.compile(r"(?:([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h))", re.ASCII)
_UNITS: Final = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 1_000_000,
    "s": NANOSECONDS,
    "m": 60 * NANOSECONDS,
    "h": 3600 * NANOSECONDS,
}
_MAX_DURATION_LENGTH = 256
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,64}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def parse_duration(text: str) -> Duration:
    """Parse a duration in Go's format: `1h30m`, `1.5s`. Raise ValueError."""
    body = text[1:] if text[:1] in ("-", "+") else text
    if body == "0":
        return Duration(0)
    total = position = 0
    while position < len(body) and len(text) <= _MAX_DURATION_LENGTH:
        match = _DURATION.match(body, position)
        if match is None or not (match[1] or match[2]):
            break
        unit = _UNITS[match[3]]
        fraction = (match[2] or "")[:18]
        total += int(match[1] or "0") * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
        position = match.end()
    if not body or position < len(body):
        raise ValueError(f'time: invalid duration "{text}"')
    try:
        return Duration(-total if text[0] == "-" else total)
    except EvaluationError:
        raise ValueError(f'time: invalid duration "{text}"') from None


def parse_timestamp(text: str) -> Timestamp:
    """Parse a time in RFC 3339 format. Raise ValueError."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(f'parsing time "{text}" as RFC 3339')
    year, month, day, hour, minute, second = (int(match[group]) for group in range(1, 7))
    zone = match[8]
    offset = 0
    if zone not in ("Z", "z"):
        hours, minutes = int(zone[1:3]), int(zone[4:])
        if hours > 24 or minutes > 60:
            raise ValueError(f'parsing time "{text}": time zone offset out of range')
        offset = (hours * 60 + minutes) * (-60 if zone[0] == "-" else 60)
    moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC) - _EPOCH
    nanoseconds = int((match[7] or "0")[:9].ljust(9, "0"))
    try:
        return Timestamp((moment.days * 86400 + moment.seconds - offset) * NANOSECONDS + nanoseconds)
    except EvaluationError:
        raise ValueError(f'parsing time "{text}": out of range') from None


class UnorderedList(list[Any]):
    """A list of the type `set` or `map`: equality ignores the order of its entries, and a sum has each entry once.

    `keys` are the fields that identify an entry of a map list; an entry of a set identifies itself.
    """

    __slots__ = ("keys",)

    def __init__(self, items: Iterable[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def identity(self, item: Any) -> Any:
        """Return a hashable value by which entries are compared."""
        if not isinstance(item, dict):
            return repr(item)
        return repr([item.get(key) for key in self.keys] if self.keys else sorted(item.items()))

    def union(self, other: Iterable[Any]) -> UnorderedList:
        """Return the entries of both lists; those of `other` replace entries with the same identity."""
        entries = {self.identity(item): item for item in self}
        entries.update({self.identity(item): item for item in other})
        return UnorderedList(entries.values(), self.keys)


_LISTS: Final = (list, tuple)
_NO_MAPS: Final = frozenset((bool, int, float, str, bytes, list, tuple, type(None)))
"""Frequent types that need no slow check against the abstract Mapping."""


def is_list(value: Any) -> bool:
    return isinstance(value, _LISTS)


def is_map(value: Any) -> bool:
    return isinstance(value, dict) or (type(value) not in _NO_MAPS and isinstance(value, Mapping))


_TYPE_NAMES: Final[Mapping[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    UnorderedList: "list",
    tuple: "list",
    dict: "map",
    DefaultMap: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeValue: "type",
    OptionalValue: "optional_type",
}


def type_name(value: Any) -> str:
    """Return the name of a value's type, like `type(value)`."""
    name = _TYPE_NAMES.get(type(value))
    if name is not None:
        return name
    if isinstance(value, Opaque):
        return value.type_name
    return "map" if is_map(value) else "list" if is_list(value) else "unknown"


__all__ = ["INT_MAX", "INT_MIN", "NANOSECONDS", "NONE", "UINT_MAX", "DefaultMap", "Duration", "Opaque", "OptionalValue"]
__all__ += ["Timestamp", "TypeValue", "Uint", "is_list", "is_map", "parse_duration", "parse_timestamp", "type_name"]
