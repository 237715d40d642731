"""Validation of values against the schema of a custom resource, compiled once to closures.

The order and the messages of the errors are those of `k8s.io/kube-openapi/pkg/validation/validate`. On an update, the
errors of a part that has not changed are dropped (ratcheting).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sampan.api.field_errors import OMITTED, FieldError
from sampan.api.go_compat import gotext
from sampan.api.limits import CUSTOM_ALTERNATIVES
from sampan.apiserver.registry.custom.formats import format_check
from sampan.machinery.patterns import Pattern, PatternError, compile_pattern

Source = Mapping[str, Any]


class Errors(list[FieldError]):
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
            raise _TooManyAlternatives


class _TooManyAlternatives(Exception):
    """The value has to be checked against too many schemas."""


Check = Callable[[Any, Any, str, Errors], int]
"""Checks a value, given the value before (or `UNCORRELATED`) and its path, and adds errors. It returns how many schemas
the value was checked against, by which the best alternative of anyOf and oneOf is chosen."""
Part = Callable[[Any, str, Errors], None]
"""Checks one keyword of a value."""
UNCORRELATED: Final = object()
"""The old value of a part that did not exist before, or for which it is unknown which old part it was."""
_NO_PATH: Final = "<nil>"
_TYPES: Final[Mapping[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}


class SchemaValidator:
    """Validates objects against one schema."""

    def __init__(self, source: Source) -> None:
        self._check = _compile(source)

    def validate(self, value: Any, old: Any = UNCORRELATED, path: str = "") -> list[FieldError]:
        """Return the errors of a value; `path` is the prefix of their fields."""
        field_errors = Errors([CUSTOM_ALTERNATIVES])
        try:
            self._check(value, old, path, field_errors)
        except _TooManyAlternatives:
            text = f"must not need more than {CUSTOM_ALTERNATIVES} checks against anyOf, oneOf, allOf and not"
            return [FieldError.invalid(path or _NO_PATH, OMITTED, text)]
        return field_errors


def is_same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal, also in type: 1 is neither 1.0 nor true."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(is_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    return bool(left == right)


def _compile(source: Source) -> Check:
    types = _types(source)
    check_null, check_type = _type_checks(source, types)
    combined = _combined(source)
    by_type: dict[type, list[Part]] = {
        str: [*_string_parts(source), *_format_parts(source, types)],
        int: _number_parts(source, types),
        float: _number_parts(source, types),
    }
    enum = _enum_parts(source)
    items, sizes, members = _items(source), _item_parts(source), _members(source)

    unrestricted = _unrestricted_type(source, types) if not (combined or enum) else None

    def check(value: Any, old: Any, path: str, out: Errors) -> int:
        if type(value) is unrestricted:
            return 1
        start, matches = len(out), 1
        if value is None:
            check_null(value, path, out)
            for part in enum:
                part(value, path, out)
        else:
            check_type(value, path, out)
            for combination in combined:
                matches += combination(value, old, path, out)
            kind = type(value)
            for part in by_type.get(kind, ()):
                part(value, path, out)
            if kind is list:
                if items is not None:
                    matches += items(value, old, path, out)
                for part in sizes:
                    part(value, path, out)
            for part in enum:
                part(value, path, out)
            if kind is dict and members is not None:
                matches += members(value, old, path, out)
        if len(out) > start and old is not UNCORRELATED and is_same(value, old):
            del out[start:]
        return matches

    return check


def _unrestricted_type(source: Source, types: tuple[str, ...]) -> type | None:
    """Return the Python type of a schema of strings or booleans without further keywords, whose values need no other
    check than that of their type."""
    if types == ("boolean",):
        return bool
    is_restricted = any(source.get(key) is not None for key in ("maxLength", "minLength", "pattern", "format"))
    return str if types == ("string",) and not is_restricted else None


def _types(source: Source) -> tuple[str, ...]:
    if source.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    declared = source.get("type")
    return (declared,) if declared else ()


def _type_checks(source: Source, types: tuple[str, ...]) -> tuple[Part, Part]:
    """Return the checks of the type of null and of any other value."""
    named, declared_format = ",".join(types), source.get("format", "")
    is_nullable = bool(source.get("nullable")) or not types
    is_numeric = "integer" in types or "number" in types

    def check_null(value: Any, path: str, out: Errors) -> None:
        if not is_nullable:
            out.append(_type_error(path, named, "null"))

    def check_type(value: Any, path: str, out: Errors) -> None:
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
    return FieldError.type_invalid(path or _NO_PATH, actual, message)


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


def _invalid(path: str, value: Any, message: str) -> FieldError:
    return FieldError.invalid(path or _NO_PATH, value, f"{path} in body {message}")


def _general(message: str) -> FieldError:
    """Return an error that kube-apiserver reports without a field."""
    return FieldError.invalid(_NO_PATH, "", message)


# -- strings ---------------------------------------------------------------------------------------------------------


def _string_parts(source: Source) -> list[Part]:
    longest, shortest, pattern = source.get("maxLength"), source.get("minLength"), source.get("pattern")
    if longest is None and shortest is None and not pattern:
        return []
    compiled, why = _compiled_pattern(pattern) if pattern else (None, "")

    def check(value: str, path: str, out: Errors) -> None:
        if longest is not None and len(value) > longest:
            out.append(FieldError.too_long(path or _NO_PATH, longest))
        elif shortest is not None and len(value) < shortest:
            out.append(_invalid(path, value, f"should be at least {shortest} chars long"))
        elif why:
            out.append(_invalid(path, value, f"should match '{pattern}, but pattern is invalid: {why}'"))
        elif compiled is not None and not compiled.matches(value):
            out.append(_invalid(path, value, f"should match '{pattern}'"))

    return [check]


def _compiled_pattern(pattern: str) -> tuple[Pattern | None, str]:
    try:
        return compile_pattern(pattern), ""
    except PatternError as error:
        return None, str(error)


def _format_parts(source: Source, types: tuple[str, ...]) -> list[Part]:
    name = source.get("format", "")
    is_valid = format_check(name) if name and (not types or "string" in types) else None
    if is_valid is None:
        return []

    def check(value: str, path: str, out: Errors) -> None:
        if not is_valid(value):
            message = f"{path} in body must be of type {name}: {gotext.quote(value)}"
            out.append(FieldError.type_invalid(path or _NO_PATH, value, message))

    return [check]


# -- numbers ---------------------------------------------------------------------------------------------------------

_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "uint64": (0, 2**64 - 1)}
_INT64: Final = (-(2**63), 2**63 - 1)
_FLOAT_MAX: Final = 3.4028234663852886e38


def _number_parts(source: Source, types: tuple[str, ...]) -> list[Part]:
    declared, name = types[0] if len(types) == 1 else "", source.get("format", "")
    parts: list[Part] = []
    if declared == "integer" or (declared == "number" and name in ("float", "float32")):
        parts.append(_range_part("Checked", declared, name))
    for key, prefix, make in (
        ("multipleOf", "MultipleOf", _multiple_part),
        ("minimum", "Minimum", _minimum_part),
        ("maximum", "Maximum", _maximum_part),
    ):
        bound = source.get(key)
        if bound is None:
            continue
        if declared == "integer":
            in_range = _range_part(prefix, declared, name)
            parts.append(lambda value, path, out, bound=bound, check=in_range: check(bound, path, out))  # type: ignore[misc]
        parts.append(make(bound, source))
    return parts


def _range_part(prefix: str, declared: str, name: str) -> Part:
    detail = f"with format {name}" if name else "(default format)"
    low, high = _RANGES.get(name, _INT64)

    def check(value: float, path: str, out: Errors) -> None:
        if declared == "integer":
            is_valid = (isinstance(value, int) or value.is_integer()) and low <= value <= high
        else:
            is_valid = abs(value) <= _FLOAT_MAX
        if not is_valid:
            out.append(_general(f"{prefix} value must be of type {declared} {detail} in {path}"))

    return check


def _multiple_part(factor: float, source: Source) -> Part:
    def check(value: float, path: str, out: Errors) -> None:
        if factor <= 0:
            out.append(_invalid(path, value, f"factor MultipleOf declared for {path} must be positive: {factor}"))
            return
        if isinstance(value, int) and float(factor).is_integer():
            is_multiple = value % int(factor) == 0
        else:
            is_multiple = _is_whole(1 / factor * value if factor < 1 else value / factor)
        if not is_multiple:
            out.append(_invalid(path, value, f"should be a multiple of {gotext.value(_shown(factor))}"))

    return check


def _minimum_part(bound: float, source: Source) -> Part:
    is_exclusive = bool(source.get("exclusiveMinimum"))
    word = "greater than" if is_exclusive else "greater than or equal to"

    def check(value: float, path: str, out: Errors) -> None:
        if value < bound or (is_exclusive and value == bound):
            out.append(_invalid(path, value, f"should be {word} {gotext.value(_shown(bound))}"))

    return check


def _maximum_part(bound: float, source: Source) -> Part:
    is_exclusive = bool(source.get("exclusiveMaximum"))
    word = "less than" if is_exclusive else "less than or equal to"

    def check(value: float, path: str, out: Errors) -> None:
        if value > bound or (is_exclusive and value == bound):
            out.append(_invalid(path, value, f"should be {word} {gotext.value(_shown(bound))}"))

    return check


def _shown(bound: float) -> float | int:
    return int(bound) if isinstance(bound, float) and bound.is_integer() and abs(bound) < 1e21 else bound


# -- enums, lists and objects ----------------------------------------------------------------------------------------


def _enum_parts(source: Source) -> list[Part]:
    allowed: Sequence[Any] = source.get("enum") or ()
    if not allowed:
        return []
    shown = [value if isinstance(value, str) else gotext.json_text(value) for value in allowed]
    texts = frozenset(value for value in allowed if isinstance(value, str))

    def check(value: Any, path: str, out: Errors) -> None:
        is_allowed = value in texts if isinstance(value, str) else any(_is_equal(value, other) for other in allowed)
        if not is_allowed:
            out.append(FieldError.not_supported(path or _NO_PATH, value, shown))

    return [check]


def _is_equal(value: Any, allowed: Any) -> bool:
    """Whether a value equals one of an enum; numbers are compared by value."""
    is_number = type(value) in (int, float) and type(allowed) in (int, float)
    return bool(value == allowed) if is_number else is_same(value, allowed)


def _items(source: Source) -> Check | None:
    if not isinstance(declared := source.get("items"), Mapping):
        return None
    check_item = _compile(declared)
    keys = (
        tuple(source.get("x-kubernetes-list-map-keys") or ()) if source.get("x-kubernetes-list-type") == "map" else ()
    )

    def check(value: list[Any], old: Any, path: str, out: Errors) -> int:
        before = items_by_key(old, keys) if keys and isinstance(old, list) else None
        matches = 0
        for index, item in enumerate(value):
            old_item = UNCORRELATED if before is None else before.get(key_of_item(item, keys), UNCORRELATED)
            matches += check_item(item, old_item, f"{path}[{index}]", out)
        return matches

    return check


def items_by_key(items: list[Any], keys: tuple[str, ...]) -> dict[Any, Any]:
    """Return the items of a map list by the values of their keys."""
    return {key_of_item(item, keys): item for item in items}


def key_of_item(item: Any, keys: tuple[str, ...]) -> Any:
    """Return the values of an item's keys, as a hashable value."""
    return tuple(gotext.json_text(item.get(key)) for key in keys) if isinstance(item, dict) else None


def _item_parts(source: Source) -> list[Part]:
    least, most = source.get("minItems"), source.get("maxItems")
    if least is None and most is None:
        return []

    def check(value: list[Any], path: str, out: Errors) -> None:
        if least is not None and len(value) < least:
            out.append(_invalid(path, len(value), f"should have at least {least} items"))
        if most is not None and len(value) > most:
            out.append(FieldError.too_many(path or _NO_PATH, len(value), most))

    return [check]


def _members(source: Source) -> Check | None:
    properties = {name: _compile(child) for name, child in (source.get("properties") or {}).items()}
    additional = source.get("additionalProperties")
    check_other = _compile(additional) if isinstance(additional, Mapping) else None
    required = tuple(source.get("required") or ())
    least, most = source.get("minProperties"), source.get("maxProperties")
    if not (properties or check_other or required or least is not None or most is not None or additional is False):
        return None

    def check(value: dict[str, Any], old: Any, path: str, out: Errors) -> int:
        size, matches = len(value), 0
        if least is not None and size < least:
            out.append(_invalid(path, size, f"should have at least {least} properties"))
            return matches
        if most is not None and size > most:
            out.append(FieldError.too_many(path or _NO_PATH, size, most))
            return matches
        before = old if isinstance(old, dict) else _NOTHING
        prefix = f"{path}." if path else ""
        for name, member in value.items():
            check_member = properties.get(name) or check_other
            if check_member is not None:
                matches += check_member(member, before.get(name, UNCORRELATED), prefix + name, out)
            elif additional is False and name not in properties:
                out.append(_general(f"{path}.{name} in body is a forbidden property"))
        for name in required:
            if name not in value:
                out.append(FieldError.required(prefix + name))
        return matches

    return check


_NOTHING: Final[dict[str, Any]] = {}

# -- combinations ----------------------------------------------------------------------------------------------------


def _combined(source: Source) -> list[Check]:
    checks: list[Check] = []
    if alternatives := source.get("anyOf"):
        checks.append(_any_of([_compile(part) for part in alternatives]))
    if alternatives := source.get("oneOf"):
        checks.append(_one_of([_compile(part) for part in alternatives]))
    if parts := source.get("allOf"):
        checks.append(_all_of([_compile(part) for part in parts]))
    if isinstance(source.get("not"), Mapping):
        checks.append(_not(_compile(source["not"])))
    return checks


def _best(
    alternatives: Sequence[Check], value: Any, old: Any, path: str, out: Errors, *, stops: bool
) -> tuple[int, Sequence[FieldError], int]:
    """Return how many alternatives are valid, the errors of the one that was closest, and its matches."""
    valid, matches = 0, -1
    errors: Sequence[FieldError] = ()
    for check in alternatives:
        out.spend()
        own = Errors(out.budget)
        count = check(value, old, path, own)
        if not own:
            valid += 1
            if stops:
                break
        elif not valid and count > matches:
            errors, matches = own, count
    return valid, () if valid else errors, max(matches, 0)


def _any_of(alternatives: Sequence[Check]) -> Check:
    def check(value: Any, old: Any, path: str, out: Errors) -> int:
        valid, errors, matches = _best(alternatives, value, old, path, out, stops=True)
        if not valid:
            out.append(_general(f"{gotext.quote(path)} must validate at least one schema (anyOf)"))
            out.extend(errors)
        return matches

    return check


def _one_of(alternatives: Sequence[Check]) -> Check:
    def check(value: Any, old: Any, path: str, out: Errors) -> int:
        valid, errors, matches = _best(alternatives, value, old, path, out, stops=False)
        if valid != 1:
            detail = f"Found {valid} valid alternatives" if valid else "Found none valid"
            out.append(_general(f"{gotext.quote(path)} must validate one and only one schema (oneOf). {detail}"))
            out.extend(errors)
        return matches

    return check


def _all_of(parts: Sequence[Check]) -> Check:
    def check(value: Any, old: Any, path: str, out: Errors) -> int:
        valid = matches = 0
        for part in parts:
            out.spend()
            start = len(out)
            matches += part(value, old, path, out)
            valid += len(out) == start
        if valid < len(parts):
            detail = "" if valid else ". None validated"
            out.append(_general(f"{gotext.quote(path)} must validate all the schemas (allOf){detail}"))
        return matches

    return check


def _not(inner: Check) -> Check:
    def check(value: Any, old: Any, path: str, out: Errors) -> int:
        out.spend()
        own = Errors(out.budget)
        inner(value, UNCORRELATED, path, own)
        if not own:
            out.append(_general(f"{gotext.quote(path)} must not validate the schema (not)"))
        return 0

    return check
