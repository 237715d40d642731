"""Validation of values against the schema of a custom resource, compiled once to closures.

The order and the messages of the errors are those of `k8s.io/kube-openapi/pkg/validation/validate`. On an update, the
errors of a part that has not changed are dropped (ratcheting).

The checks of anyOf, oneOf, allOf and not count against the number of alternatives that a value may need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sampan.api.field_errors import OMITTED, FieldError
from sampan.api.go_compat import gotext
from sampan.api.limits import CUSTOM_ALTERNATIVES
from sampan.apiserver.customresources.objects.value_checks import (
    NO_PATH,
    UNCORRELATED,
    Check,
    Part,
    SchemaErrors,
    Source,
    TooManyAlternatives,
    enum_checks,
    format_checks,
    general_error,
    invalid_error,
    is_same,
    number_checks,
    string_checks,
    type_checks,
    types_of,
    unrestricted_type,
)


class SchemaValidator:
    """Validates objects against one schema."""

    def __init__(self, source: Source) -> None:
        self._check = _compile(source)

    def validate(self, value: Any, old: Any = UNCORRELATED, path: str = "") -> list[FieldError]:
        """Return the errors of a value; `path` is the prefix of their fields."""
        field_errors = SchemaErrors([CUSTOM_ALTERNATIVES])
        try:
            self._check(value, old, path, field_errors)
        except TooManyAlternatives:
            text = f"must not need more than {CUSTOM_ALTERNATIVES} checks against anyOf, oneOf, allOf and not"
            return [FieldError.invalid(path or NO_PATH, OMITTED, text)]
        return field_errors


def _compile(source: Source) -> Check:
    types = types_of(source)
    check_null, check_type = type_checks(source, types)
    combined = combination_checks(source, _compile)
    by_type: dict[type, list[Part]] = {
        str: [*string_checks(source), *format_checks(source, types)],
        int: number_checks(source, types),
        float: number_checks(source, types),
    }
    enum = enum_checks(source)
    items, sizes, members = _items(source), _item_parts(source), _members(source)

    unrestricted = unrestricted_type(source, types) if not (combined or enum) else None

    def check(value: Any, old: Any, path: str, out: SchemaErrors) -> int:
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


# -- lists and objects -----------------------------------------------------------------------------------------------


def _items(source: Source) -> Check | None:
    if not isinstance(declared := source.get("items"), Mapping):
        return None
    check_item = _compile(declared)
    keys = (
        tuple(source.get("x-kubernetes-list-map-keys") or ()) if source.get("x-kubernetes-list-type") == "map" else ()
    )

    def check(value: list[Any], old: Any, path: str, out: SchemaErrors) -> int:
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
    minimum, maximum = source.get("minItems"), source.get("maxItems")
    if minimum is None and maximum is None:
        return []

    def check(value: list[Any], path: str, out: SchemaErrors) -> None:
        if minimum is not None and len(value) < minimum:
            out.append(invalid_error(path, len(value), f"should have at least {minimum} items"))
        if maximum is not None and len(value) > maximum:
            out.append(FieldError.too_many(path or NO_PATH, len(value), maximum))

    return [check]


def _members(source: Source) -> Check | None:
    properties = {name: _compile(child) for name, child in (source.get("properties") or {}).items()}
    additional = source.get("additionalProperties")
    check_other = _compile(additional) if isinstance(additional, Mapping) else None
    required = tuple(source.get("required") or ())
    minimum, maximum = source.get("minProperties"), source.get("maxProperties")
    if not (properties or check_other or required or minimum is not None or maximum is not None or additional is False):
        return None

    def check(value: dict[str, Any], old: Any, path: str, out: SchemaErrors) -> int:
        size, matches = len(value), 0
        if minimum is not None and size < minimum:
            out.append(invalid_error(path, size, f"should have at least {minimum} properties"))
            return matches
        if maximum is not None and size > maximum:
            out.append(FieldError.too_many(path or NO_PATH, size, maximum))
            return matches
        before = old if isinstance(old, dict) else _EMPTY_OBJECT
        prefix = f"{path}." if path else ""
        for name, member in value.items():
            check_member = properties.get(name) or check_other
            if check_member is not None:
                matches += check_member(member, before.get(name, UNCORRELATED), prefix + name, out)
            elif additional is False and name not in properties:
                out.append(general_error(f"{path}.{name} in body is a forbidden property"))
        for name in required:
            if name not in value:
                out.append(FieldError.required(prefix + name))
        return matches

    return check


_EMPTY_OBJECT: Final[dict[str, Any]] = {}


def combination_checks(source: Source, compile_schema: Callable[[Source], Check]) -> list[Check]:
    """Return the checks of allOf, anyOf, oneOf and not in a schema."""
    checks: list[Check] = []
    if alternatives := source.get("anyOf"):
        checks.append(_make_any_of_check([compile_schema(part) for part in alternatives]))
    if alternatives := source.get("oneOf"):
        checks.append(_make_one_of_check([compile_schema(part) for part in alternatives]))
    if parts := source.get("allOf"):
        checks.append(_make_all_of_check([compile_schema(part) for part in parts]))
    if isinstance(source.get("not"), Mapping):
        checks.append(_make_not_check(compile_schema(source["not"])))
    return checks


def _try_alternatives(
    alternatives: Sequence[Check], value: Any, old: Any, path: str, out: SchemaErrors, *, stops: bool
) -> tuple[int, Sequence[FieldError], int]:
    """Return how many alternatives are valid. If none is, also return the errors and the number of matches of the
    alternative with the most matches."""
    valid, matches = 0, -1
    errors: Sequence[FieldError] = ()
    for check in alternatives:
        out.spend()
        own = SchemaErrors(out.budget)
        count = check(value, old, path, own)
        if not own:
            valid += 1
            if stops:
                break
        elif not valid and count > matches:
            errors, matches = own, count
    return valid, () if valid else errors, max(matches, 0)


def _make_any_of_check(alternatives: Sequence[Check]) -> Check:
    def check(value: Any, old: Any, path: str, out: SchemaErrors) -> int:
        valid, errors, matches = _try_alternatives(alternatives, value, old, path, out, stops=True)
        if not valid:
            out.append(general_error(f"{gotext.quote(path)} must validate at least one schema (anyOf)"))
            out.extend(errors)
        return matches

    return check


def _make_one_of_check(alternatives: Sequence[Check]) -> Check:
    def check(value: Any, old: Any, path: str, out: SchemaErrors) -> int:
        valid, errors, matches = _try_alternatives(alternatives, value, old, path, out, stops=False)
        if valid != 1:
            detail = f"Found {valid} valid alternatives" if valid else "Found none valid"
            out.append(general_error(f"{gotext.quote(path)} must validate one and only one schema (oneOf). {detail}"))
            out.extend(errors)
        return matches

    return check


def _make_all_of_check(parts: Sequence[Check]) -> Check:
    def check(value: Any, old: Any, path: str, out: SchemaErrors) -> int:
        valid = matches = 0
        for part in parts:
            out.spend()
            start = len(out)
            matches += part(value, old, path, out)
            valid += len(out) == start
        if valid < len(parts):
            detail = "" if valid else ". None validated"
            out.append(general_error(f"{gotext.quote(path)} must validate all the schemas (allOf){detail}"))
        return matches

    return check


def _make_not_check(inner: Check) -> Check:
    def check(value: Any, old: Any, path: str, out: SchemaErrors) -> int:
        out.spend()
        own = SchemaErrors(out.budget)
        inner(value, UNCORRELATED, path, own)
        if not own:
            out.append(general_error(f"{gotext.quote(path)} must not validate the schema (not)"))
        return 0

    return check
