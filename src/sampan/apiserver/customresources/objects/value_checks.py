"""Checks of the keywords for single values: types, strings, formats, numbers and enums.

Each function returns the checks that a schema needs, which are none for most keywords.

The signature of all checks, the errors that they collect and the equality of JSON values are here too;
`schema_validator` has the checks of lists, objects, anyOf, oneOf, allOf and not, and compiles them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final

from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.apiserver.customresources.objects.formats import format_check
from sampan.machinery.patterns import Pattern, PatternError, compile_pattern

_TYPES: Final[Mapping[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}
Source = Mapping[str, Any]


class _Correlation(Enum):
    UNCORRELATED = auto()


UNCORRELATED: Final = _Correlation.UNCORRELATED
"""The old value of a part that did not exist before, or for which it is unknown which old part it was."""
NO_PATH: Final = "<nil>"
"""The path of an error that is about no field."""


def unrestricted_type(source: Source, types: tuple[str, ...]) -> type | None:
    """Return the Python type of a schema of strings or booleans without further keywords, whose values need no other
    check than that of their type."""
    if types == ("boolean",):
        return bool
    is_restricted = any(source.get(key) is not None for key in ("maxLength", "minLength", "pattern", "format"))
    return str if types == ("string",) and not is_restricted else None


def types_of(source: Source) -> tuple[str, ...]:
    if source.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    declared = source.get("type")
    return (declared,) if declared else ()


def type_checks(source: Source, types: tuple[str, ...]) -> tuple[Part, Part]:
    """Return the checks of the type of null and of any other value."""
    named, declared_format = ",".join(types), source.get("format", "")
    is_nullable = bool(source.get("nullable")) or not types
    is_numeric = "integer" in types or "number" in types

    def check_null(value: Any, path: str, out: SchemaErrors) -> None:
        if not is_nullable:
            out.append(_type_error(path, named, "null"))

    def check_type(value: Any, path: str, out: SchemaErrors) -> None:
        actual = _TYPES[type(value)]
        if actual in types or not types or (declared_format and not is_numeric and actual in ("string", "array")):
            return
        if actual == "integer" and "number" in types:
            return
        if actual == "number" and "integer" in types and _is_whole(value):
            return
        out.append(_type_error(path, named, actual))

    return check_null, check_type


def _type_error(path: str, expected: str, actual: str) -> FieldError:
    message = f"{path} in body must be of type {expected}: {gotext.quote(actual)}"
    return FieldError.type_invalid(path or NO_PATH, actual, message)


def _is_whole(value: float) -> bool:
    """Whether a float stands for an integer, with the tolerance of the Go library."""
    if value != value or value in (float("inf"), float("-inf")) or abs(value) > 2**53 - 1:
        return False
    nearest = float(int(value))
    if value == nearest:
        return True
    difference = abs(value - nearest)
    if nearest == 0:
        return difference < 1e-9 * 2.2250738585072014e-308
    return difference / (abs(value) + abs(nearest)) < 1e-9


# -- strings ---------------------------------------------------------------------------------------------------------


def string_checks(source: Source) -> list[Part]:
    longest, shortest, pattern = source.get("maxLength"), source.get("minLength"), source.get("pattern")
    if longest is None and shortest is None and not pattern:
        return []
    compiled, why = _try_compile_pattern(pattern) if pattern else (None, "")

    def check(value: str, path: str, out: SchemaErrors) -> None:
        if longest is not None and len(value) > longest:
            out.append(FieldError.too_long(path or NO_PATH, longest))
        elif shortest is not None and len(value) < shortest:
            out.append(invalid_error(path, value, f"should be at least {shortest} chars long"))
        elif why:
            out.append(invalid_error(path, value, f"should match '{pattern}, but pattern is invalid: {why}'"))
        elif compiled is not None and not compiled.matches(value):
            out.append(invalid_error(path, value, f"should match '{pattern}'"))

    return [check]


def _try_compile_pattern(pattern: str) -> tuple[Pattern | None, str]:
    try:
        return compile_pattern(pattern), ""
    except PatternError as error:
        return None, str(error)


def format_checks(source: Source, types: tuple[str, ...]) -> list[Part]:
    name = source.get("format", "")
    is_valid = format_check(name) if name and (not types or "string" in types) else None
    if is_valid is None:
        return []

    def check(value: str, path: str, out: SchemaErrors) -> None:
        if not is_valid(value):
            message = f"{path} in body must be of type {name}: {gotext.quote(value)}"
            out.append(FieldError.type_invalid(path or NO_PATH, value, message))

    return [check]


# -- numbers ---------------------------------------------------------------------------------------------------------

_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "uint64": (0, 2**64 - 1)}
_INT64: Final = (-(2**63), 2**63 - 1)
_FLOAT_MAX: Final = 3.4028234663852886e38


def number_checks(source: Source, types: tuple[str, ...]) -> list[Part]:
    declared, name = types[0] if len(types) == 1 else "", source.get("format", "")
    parts: list[Part] = []
    if declared == "integer" or (declared == "number" and name in ("float", "float32")):
        parts.append(_range_check("Checked", declared, name))
    for key, prefix, make in (
        ("multipleOf", "MultipleOf", _multiple_check),
        ("minimum", "Minimum", _minimum_check),
        ("maximum", "Maximum", _maximum_check),
    ):
        bound = source.get(key)
        if bound is None:
            continue
        if declared == "integer":
            in_range = _range_check(prefix, declared, name)
            parts.append(lambda value, path, out, bound=bound, check=in_range: check(bound, path, out))  # type: ignore[misc]
        parts.append(make(bound, source))
    return parts


def _range_check(prefix: str, declared: str, name: str) -> Part:
    detail = f"with format {name}" if name else "(default format)"
    low, high = _RANGES.get(name, _INT64)

    def check(value: float, path: str, out: SchemaErrors) -> None:
        if declared == "integer":
            is_valid = (isinstance(value, int) or value.is_integer()) and low <= value <= high
        else:
            is_valid = abs(value) <= _FLOAT_MAX
        if not is_valid:
            out.append(general_error(f"{prefix} value must be of type {declared} {detail} in {path}"))

    return check


def _multiple_check(factor: float, source: Source) -> Part:
    def check(value: float, path: str, out: SchemaErrors) -> None:
        if factor <= 0:
            out.append(invalid_error(path, value, f"factor MultipleOf declared for {path} must be positive: {factor}"))
            return
        if isinstance(value, int) and float(factor).is_integer():
            is_multiple = value % int(factor) == 0
        else:
            is_multiple = _is_whole(1 / factor * value if factor < 1 else value / factor)
        if not is_multiple:
            out.append(invalid_error(path, value, f"should be a multiple of {gotext.value(_to_int_if_whole(factor))}"))

    return check


def _minimum_check(bound: float, source: Source) -> Part:
    is_exclusive = bool(source.get("exclusiveMinimum"))
    word = "greater than" if is_exclusive else "greater than or equal to"

    def check(value: float, path: str, out: SchemaErrors) -> None:
        if value < bound or (is_exclusive and value == bound):
            out.append(invalid_error(path, value, f"should be {word} {gotext.value(_to_int_if_whole(bound))}"))

    return check


def _maximum_check(bound: float, source: Source) -> Part:
    is_exclusive = bool(source.get("exclusiveMaximum"))
    word = "less than" if is_exclusive else "less than or equal to"

    def check(value: float, path: str, out: SchemaErrors) -> None:
        if value > bound or (is_exclusive and value == bound):
            out.append(invalid_error(path, value, f"should be {word} {gotext.value(_to_int_if_whole(bound))}"))

    return check


def _to_int_if_whole(bound: float) -> float | int:
    return int(bound) if isinstance(bound, float) and bound.is_integer() and abs(bound) < 1e21 else bound


# -- enums -----------------------------------------------------------------------------------------------------------


def enum_checks(source: Source) -> list[Part]:
    allowed: Sequence[Any] = source.get("enum") or ()
    if not allowed:
        return []
    shown = [value if isinstance(value, str) else gotext.json_text(value) for value in allowed]
    texts = frozenset(value for value in allowed if isinstance(value, str))

    def check(value: Any, path: str, out: SchemaErrors) -> None:
        is_allowed = value in texts if isinstance(value, str) else any(_is_equal(value, other) for other in allowed)
        if not is_allowed:
            out.append(FieldError.not_supported(path or NO_PATH, value, shown))

    return [check]


def _is_equal(value: Any, allowed: Any) -> bool:
    """Whether a value equals one of an enum; numbers are compared by value."""
    is_number = type(value) in (int, float) and type(allowed) in (int, float)
    return bool(value == allowed) if is_number else is_same(value, allowed)


class SchemaErrors(list[FieldError]):
    """The errors of one value, and how many alternatives of combinations may still be checked."""

    __slots__ = ("budget",)

    def __init__(self, budget: list[int]) -> None:
        super().__init__()
        self.budget = budget

    def spend(self) -> None:
        """Count one alternative. Only combinations can take longer than the size of an object allows for, because each
        value is checked against all of them."""
        self.budget[0] -= 1
        if self.budget[0] < 0:
            raise TooManyAlternatives


class TooManyAlternatives(Exception):
    """The value has to be checked against too many schemas."""


Check = Callable[[Any, Any, str, SchemaErrors], int]
"""Checks a value, given the value before (or `UNCORRELATED`) and its path, and adds errors. It returns how many schemas
the value was checked against, by which the best alternative of anyOf and oneOf is chosen."""
Part = Callable[[Any, str, SchemaErrors], None]
"""Checks one keyword of a value."""


def is_same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal, also in type: 1 is neither 1.0 nor true."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(is_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    return bool(left == right)


def invalid_error(path: str, value: Any, message: str) -> FieldError:
    return FieldError.invalid(path or NO_PATH, value, f"{path} in body {message}")


def general_error(message: str) -> FieldError:
    """Return an error that kube-apiserver reports without a field."""
    return FieldError.invalid(NO_PATH, "", message)
