"""Conversions between types of the language: `int("1")`, `string(1.5)`, `timestamp("2024-01-01T00:00:00Z")`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from sampan.machinery.cel.checker.declarations import Library, Overload, function
from sampan.machinery.cel.checker.estimate import MAX_COST, STRING_FACTOR, CallEstimate, CostEstimator, Operand, Range
from sampan.machinery.cel.checker.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, Type
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.runtime import operators
from sampan.machinery.cel.runtime.values import (
    NANOSECONDS,
    UINT_MAX,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    parse_duration,
    parse_timestamp,
)


def _tenth(size: int) -> int:
    return (size + 9) // 10


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
        return operators.check_int(_parse_int(value, "int"))
    return operators.check_int(int(value))


def _parse_int(text: str, kind: str) -> int:
    """Parse a decimal number with Go's syntax."""
    digits = text[1:] if text[:1] in ("-", "+") and kind == "int" else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 100:
        raise _conversion_error(kind)
    return int(text)


def _conversion_error(kind: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from 'string' to '{kind}'")


def _to_uint(value: Any) -> Uint:
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value) or not 0 <= value < 2.0**64:
            raise EvaluationError("unsigned integer overflow")
        return Uint(int(value))
    if isinstance(value, str):
        return operators.check_uint(_parse_int(value, "uint"))
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
        raise _conversion_error("double") from None


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "True", "TRUE", "t", "1"):
        return True
    if value in ("false", "False", "FALSE", "f", "0"):
        return False
    raise EvaluationError("type conversion error from 'string' to 'bool'")


def format_double(value: float) -> str:
    """Return the number like Go's `strconv.FormatFloat(value, 'f', -1, 64)`, which `string(double)` uses."""
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


def _estimate_to_bytes(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    size = operands[0].size
    return CallEstimate(size.scale(STRING_FACTOR), Range(size.min, size.max * 4 % (MAX_COST + 1)))


def _estimate_to_string(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    size = operands[0].size
    return CallEstimate(size.scale(STRING_FACTOR), Range(size.min // 4, size.max))


def _conversions(run: Callable[[Any], Any], result: Type, *sources: Type) -> list[Overload]:
    return [function(source, result=result, run=run) for source in sources]


LIBRARY = Library(
    {
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
    }
)
