"""The values of a template as Go sees them, and their default text.

JSON values are Python values: an integer is Go's int64, a dict is map[string]interface {}. Integers that the template
itself produces (constants, lengths, indexes) are `Int`, Go's int. A value that was read from a map or list has the
static type interface {}, which appears in error messages. It is wrapped in `InterfaceValue` until a pipeline unwraps
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


class TemplateError(ValueError):
    """The template cannot be parsed or executed. The text is that of Go's text/template; `output` is what the template
    wrote before the error."""

    def __init__(self, message: str, *, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class CallError(ValueError):
    """A function of a template failed."""


class Int(int):
    """A value of Go's type int."""


class Byte(int):
    """A value of Go's type uint8: an element of a string."""


class Rune(int):
    """A value of Go's type int32."""


@dataclass(frozen=True, slots=True)
class InterfaceValue:
    """A value whose static type is interface {}."""

    value: Any


class _Invalid:
    """The absence of a value: a missing key, or the content of a nil interface."""


INVALID = _Invalid()
EMPTY_INTERFACE = "interface {}"


def unwrap(value: Any) -> Any:
    """Return the concrete value inside an interface, or INVALID for a nil interface."""
    if isinstance(value, InterfaceValue):
        return INVALID if value.value is None else value.value
    return INVALID if value is None else value


def type_name(value: Any) -> str:
    """Return the name of the Go type of a value."""
    match value:
        case InterfaceValue():
            return EMPTY_INTERFACE
        case bool():
            return "bool"
        case Int():
            return "int"
        case Byte():
            return "uint8"
        case Rune():
            return "int32"
        case int():
            return "int64"
        case float():
            return "float64"
        case complex():
            return "complex128"
        case str():
            return "string"
        case bytes():
            return "[]uint8"
        case list():
            return "[]interface {}"
        case dict():
            return "map[string]interface {}"
        case _:
            return "<nil>"


def is_true(value: Any) -> bool:
    """Whether a value is not the zero value of its type: the truth of `if`, `and`, `or` and `not`."""
    value = unwrap(value)
    return False if value is INVALID else bool(value)


def default_text(value: Any) -> str:
    """Return the text of a value as Go's %v prints it."""
    value = unwrap(value)
    match value:
        case _Invalid():
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case float():
            return float_text(value, "g", -1)
        case complex():
            imaginary = float_text(value.imag, "g", -1)
            sign = "" if imaginary[:1] in "+-" else "+"
            return f"({float_text(value.real, 'g', -1)}{sign}{imaginary}i)"
        case dict():
            return "map[" + " ".join(f"{key}:{default_text(value[key])}" for key in sorted(value)) + "]"
        case list():
            return "[" + " ".join(default_text(item) for item in value) + "]"
        case _:
            return str(value)


def float_text(value: float, verb: str, precision: int) -> str:
    """Format a number as Go's strconv.FormatFloat does; precision -1 means the shortest text that reads back."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if verb in "eE":
        text = f"{value:.{precision}e}" if precision >= 0 else _shortest_exponent(value)
        return text.upper() if verb == "E" else text
    if verb in "fF":
        return f"{value:.{precision}f}" if precision >= 0 else _shortest_decimal(value)
    if precision < 0:
        shortest = _shortest_exponent(value)
        exponent = int(shortest.partition("e")[2])
        text = shortest if exponent < -4 or exponent >= 6 else _shortest_decimal(value)
    else:
        text = f"{value:.{max(precision, 1)}g}"
    return text.upper() if verb == "G" else text


def _shortest_exponent(value: float) -> str:
    from decimal import Decimal

    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    exponent += len(text) - 1
    if value == 0:
        return ("-" if sign else "") + "0e+00"
    text = text.rstrip("0") or "0"
    mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _shortest_decimal(value: float) -> str:
    from decimal import Decimal

    text = f"{Decimal(repr(value)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
