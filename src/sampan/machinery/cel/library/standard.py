"""Operators and functions of the language itself (cel-spec's standard definitions)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from sampan.machinery.cel.checker.declarations import Library, Overload, function, method
from sampan.machinery.cel.checker.estimate import (
    ONE,
    STRING_FACTOR,
    Estimate,
    Estimator,
    Operand,
    Range,
    search_pattern,
    traverse,
)
from sampan.machinery.cel.checker.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    parameter,
    type_of,
)
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.library.regex import matches
from sampan.machinery.cel.runtime import operators
from sampan.machinery.cel.runtime.meter import Frame, charge
from sampan.machinery.cel.runtime.operators import no_overload
from sampan.machinery.cel.runtime.values import (
    INT_MAX,
    INT_MIN,
    NANOSECONDS,
    UINT_MAX,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    parse_duration,
    parse_timestamp,
    type_name,
)

A, B = parameter("A"), parameter("B")
_NUMBERS: Final = (INT, UINT, DOUBLE)


# -- equality and order


def size_of(value: Any) -> int:
    """The size that costs count: characters, bytes, elements, entries; 1 for everything else."""
    return len(value) if isinstance(value, str | bytes | list | tuple | dict) else 1


def _tenth(size: int) -> int:
    return (size + 9) // 10


def _equality(frame: Frame, left: Any, right: Any) -> bool:
    kind = type(left)
    if kind is str and type(right) is str:
        frame[0] += (min(len(left), len(right)) + 9) // 10
        return bool(left == right)
    frame[0] += 1 if kind in _SCALAR else _tenth(min(size_of(left), size_of(right)))
    return operators.equals(frame, left, right)


_SCALAR: Final = frozenset((int, bool, float, Uint, type(None), Timestamp, Duration))


def _inequality(frame: Frame, left: Any, right: Any) -> bool:
    return not _equality(frame, left, right)


def _estimate_comparison(_: Estimator, operands: Sequence[Operand]) -> Estimate:
    most = min(operands[0].size.max, operands[1].size.max)
    return Estimate(Range(1 if most else 0, most).scaled(STRING_FACTOR))


def _comparisons(test: Callable[[Any, Any], bool], name: str) -> list[Overload]:
    rows = [
        function(one, other, result=BOOL, run=test, id=f"{name}_{one}" if one is other else f"{name}_{one}_{other}")
        for one in _NUMBERS
        for other in _NUMBERS
    ]
    rows += [
        function(
            kind,
            kind,
            result=BOOL,
            run=test,
            id=f"{name}_{kind}",
            cost=lambda left, right: _tenth(min(len(left), len(right))),
            estimate=_estimate_comparison,
        )
        for kind in (STRING, BYTES)
    ]
    return rows + [
        function(kind, kind, result=BOOL, run=test, id=f"{name}_{kind}") for kind in (BOOL, TIMESTAMP, DURATION)
    ]


# -- arithmetic


def _add_int(left: int, right: int) -> int:
    value = left + right
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def _estimate_sum(_: Estimator, operands: Sequence[Operand]) -> Estimate:
    size = operands[0].size.add(operands[1].size)
    return Estimate(size.scaled(STRING_FACTOR), size)


def _estimate_list_sum(_: Estimator, operands: Sequence[Operand]) -> Estimate:
    return Estimate(ONE, operands[0].size.add(operands[1].size))


def _arithmetic(run: Callable[..., Any], *kinds: tuple[Type, Type, Type]) -> list[Overload]:
    return [function(left, right, result=result, run=run) for left, right, result in kinds]


def _same(*kinds: Type) -> list[tuple[Type, Type, Type]]:
    return [(kind, kind, kind) for kind in kinds]


_ADDITIONS = [
    function(INT, INT, result=INT, run=_add_int, id="add_int64"),
    *(function(kind, kind, result=kind, run=operators.add, is_metered=True) for kind in (UINT, DOUBLE)),
    *(
        function(kind, kind, result=kind, run=operators.add, is_metered=True, estimate=_estimate_sum)
        for kind in (STRING, BYTES)
    ),
    function(
        list_of(A), list_of(A), result=list_of(A), run=operators.add, is_metered=True, estimate=_estimate_list_sum
    ),
    function(TIMESTAMP, DURATION, result=TIMESTAMP, run=operators.add, is_metered=True),
    function(DURATION, TIMESTAMP, result=TIMESTAMP, run=operators.add, is_metered=True),
    function(DURATION, DURATION, result=DURATION, run=operators.add, is_metered=True),
]


def _not(value: Any) -> bool:
    if type(value) is not bool:
        raise no_overload()
    return not value


# -- membership and size


def _in_list(frame: Frame, element: Any, values: Any) -> bool:
    charge(frame, len(values))
    return operators.contains(frame, element, values)


def _in_map(key: Any, values: Any) -> bool:
    return operators.has_key(values, key)


def _size(value: Any) -> int:
    return len(value)


_SIZES: Final = (STRING, BYTES, list_of(A), map_of(A, B))

# -- strings


def _contains_cost(text: str, part: str) -> int:
    return _tenth(len(text)) * _tenth(len(part))


def _estimate_contains(_: Estimator, operands: Sequence[Operand]) -> Estimate:
    text, part = (operand.size.scaled(STRING_FACTOR) for operand in operands)
    return Estimate(text.times(part))


def _target_length(text: Any, _: Any) -> int:
    return _tenth(len(text))


# -- conversions


def _to_int(value: Any) -> int:
    if isinstance(value, Timestamp):
        return value.nanoseconds // NANOSECONDS
    if isinstance(value, Duration):
        return value.nanoseconds
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value) or not -(2.0**63) < value < 2.0**63:
            raise EvaluationError("integer overflow")
        return int(value)
    if isinstance(value, str):
        return operators.checked_int(_parse_int(value, "int"))
    return operators.checked_int(int(value))


def _parse_int(text: str, kind: str) -> int:
    """A decimal number, in the form that Go reads."""
    digits = text[1:] if text[:1] in ("-", "+") and kind == "int" else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 100:
        shown = f'strconv.{"ParseInt" if kind == "int" else "ParseUint"}: parsing "{text}": invalid syntax'
        raise EvaluationError(shown)
    return int(text)


def _to_uint(value: Any) -> Uint:
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value) or not 0 <= value < 2.0**64:
            raise EvaluationError("unsigned integer overflow")
        return Uint(int(value))
    if isinstance(value, str):
        return operators.checked_uint(_parse_int(value, "uint"))
    if not 0 <= value <= UINT_MAX:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)


def _to_double(value: Any) -> float:
    if not isinstance(value, str):
        return float(value)
    try:
        if value != value.strip() or "_" in value:
            raise ValueError
        return float(value)
    except ValueError:
        raise EvaluationError(f'strconv.ParseFloat: parsing "{value}": invalid syntax') from None


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "True", "TRUE", "t", "1"):
        return True
    if value in ("false", "False", "FALSE", "f", "0"):
        return False
    raise EvaluationError(f"type conversion error from 'string' to 'bool': {value}")


def format_double(value: float) -> str:
    """As Go's `strconv.FormatFloat(value, 'f', -1, 64)`, in which `string(double)` is written."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    if "e" in text:
        from decimal import Decimal

        text = format(Decimal(text), "f")
    return text.removesuffix(".0")


def to_string(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return format_double(value)
    if kind is bytes:
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    if kind is TypeValue:
        return str(value.name)
    return str(int(value)) if kind is Uint else str(value)


def _to_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")


def _to_timestamp(value: Any) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, str):
        try:
            return parse_timestamp(value)
        except ValueError as error:
            raise EvaluationError(str(error)) from None
    return Timestamp(value * NANOSECONDS)


def _to_duration(value: Any) -> Duration:
    if isinstance(value, Duration):
        return value
    if isinstance(value, int):
        return Duration(value)
    try:
        return parse_duration(value)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _string_cost(value: Any) -> int:
    return _tenth(len(value)) if isinstance(value, bytes) else 1


def _estimate_to_bytes(_: Estimator, operands: Sequence[Operand]) -> Estimate:
    size = operands[0].size
    return Estimate(size.scaled(STRING_FACTOR), Range(size.min, min(size.max * 4, 2**64 - 1)))


def _estimate_to_string(_: Estimator, operands: Sequence[Operand]) -> Estimate:
    size = operands[0].size
    return Estimate(size.scaled(STRING_FACTOR), Range(size.min // 4, size.max))


def _conversions(run: Callable[[Any], Any], result: Type, *sources: Type) -> list[Overload]:
    return [function(source, result=result, run=run) for source in sources]


# -- dates


def _zone(name: str) -> tzinfo:
    """A zone by its name or by its offset (`-08:00`)."""
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
        where = _zone(zone)
        try:
            return read(moment.datetime().astimezone(where))
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
        "_==_": [
            function(A, A, result=BOOL, run=_equality, is_metered=True, is_lenient=True, estimate=_estimate_comparison)
        ],
        "_!=_": [
            function(
                A, A, result=BOOL, run=_inequality, is_metered=True, is_lenient=True, estimate=_estimate_comparison
            )
        ],
        "_<_": _comparisons(operator.lt, "less"),
        "_<=_": _comparisons(operator.le, "less_equals"),
        "_>_": _comparisons(operator.gt, "greater"),
        "_>=_": _comparisons(operator.ge, "greater_equals"),
        "_+_": _ADDITIONS,
        "_-_": _arithmetic(
            operators.subtract,
            *_same(INT, UINT, DOUBLE, DURATION),
            (TIMESTAMP, TIMESTAMP, DURATION),
            (TIMESTAMP, DURATION, TIMESTAMP),
        ),
        "_*_": _arithmetic(operators.multiply, *_same(*_NUMBERS)),
        "_/_": _arithmetic(operators.divide, *_same(*_NUMBERS)),
        "_%_": _arithmetic(operators.remainder, *_same(INT, UINT)),
        "-_": [function(kind, result=kind, run=operators.negate) for kind in (INT, DOUBLE)],
        "!_": [function(BOOL, result=BOOL, run=_not)],
        "_?_:_": [function(BOOL, A, A, result=A, run=lambda *_: None)],
        "@in": [
            function(
                A,
                list_of(A),
                result=BOOL,
                run=_in_list,
                is_metered=True,
                estimate=lambda _, operands: Estimate(operands[1].size),
            ),
            function(A, map_of(A, B), result=BOOL, run=_in_map),
        ],
        "_[_]": [
            function(list_of(A), INT, result=A, run=operators.lookup),
            function(map_of(A, B), A, result=B, run=operators.lookup),
            function(optional_of(list_of(A)), INT, result=optional_of(A), run=operators.lookup),
            function(optional_of(map_of(A, B)), A, result=optional_of(B), run=operators.lookup),
        ],
        "size": [
            *(function(kind, result=INT, run=_size) for kind in _SIZES),
            *(method(kind, result=INT, run=_size) for kind in _SIZES),
        ],
        "contains": [
            method(
                STRING,
                STRING,
                result=BOOL,
                run=lambda text, part: part in text,
                cost=_contains_cost,
                estimate=_estimate_contains,
            )
        ],
        "startsWith": [
            method(STRING, STRING, result=BOOL, run=str.startswith, cost=_target_length, estimate=traverse(at=1))
        ],
        "endsWith": [
            method(STRING, STRING, result=BOOL, run=str.endswith, cost=_target_length, estimate=traverse(at=1))
        ],
        "matches": [
            method(STRING, STRING, result=BOOL, run=matches, is_metered=True, estimate=search_pattern),
            function(STRING, STRING, result=BOOL, run=matches, is_metered=True, estimate=search_pattern),
        ],
        "int": _conversions(_to_int, INT, INT, UINT, DOUBLE, STRING, TIMESTAMP, DURATION),
        "uint": _conversions(_to_uint, UINT, UINT, INT, DOUBLE, STRING),
        "double": _conversions(_to_double, DOUBLE, DOUBLE, INT, UINT, STRING),
        "bool": _conversions(_to_bool, BOOL, BOOL, STRING),
        "string": [
            *_conversions(to_string, STRING, STRING, BOOL, INT, UINT, DOUBLE, TIMESTAMP, DURATION),
            function(BYTES, result=STRING, run=to_string, cost=_string_cost, estimate=_estimate_to_string),
        ],
        "bytes": [
            function(BYTES, result=BYTES, run=_to_bytes),
            function(
                STRING, result=BYTES, run=_to_bytes, cost=lambda text: _tenth(len(text)), estimate=_estimate_to_bytes
            ),
        ],
        "timestamp": _conversions(_to_timestamp, TIMESTAMP, TIMESTAMP, STRING, INT),
        "duration": _conversions(_to_duration, DURATION, DURATION, STRING, INT),
        "type": [function(A, result=type_of(A), run=lambda value: TypeValue(type_name(value)))],
        "dyn": [function(A, result=DYN, run=lambda value: value)],
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
    },
)

__all__ = ["LIBRARY", "format_double", "size_of", "to_string"]
