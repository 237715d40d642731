"""Checks of anyOf, oneOf, allOf and not, which count against the number of alternatives that a value may need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.apiserver.registry.custom.schema_checks import UNCORRELATED, Check, Errors, Source, general_error


def combination_checks(source: Source, compile_schema: Callable[[Source], Check]) -> list[Check]:
    """Return the checks of allOf, anyOf, oneOf and not in a schema."""
    checks: list[Check] = []
    if alternatives := source.get("anyOf"):
        checks.append(_any_of([compile_schema(part) for part in alternatives]))
    if alternatives := source.get("oneOf"):
        checks.append(_one_of([compile_schema(part) for part in alternatives]))
    if parts := source.get("allOf"):
        checks.append(_all_of([compile_schema(part) for part in parts]))
    if isinstance(source.get("not"), Mapping):
        checks.append(_not(compile_schema(source["not"])))
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
            out.append(general_error(f"{gotext.quote(path)} must validate at least one schema (anyOf)"))
            out.extend(errors)
        return matches

    return check


def _one_of(alternatives: Sequence[Check]) -> Check:
    def check(value: Any, old: Any, path: str, out: Errors) -> int:
        valid, errors, matches = _best(alternatives, value, old, path, out, stops=False)
        if valid != 1:
            detail = f"Found {valid} valid alternatives" if valid else "Found none valid"
            out.append(general_error(f"{gotext.quote(path)} must validate one and only one schema (oneOf). {detail}"))
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
            out.append(general_error(f"{gotext.quote(path)} must validate all the schemas (allOf){detail}"))
        return matches

    return check


def _not(inner: Check) -> Check:
    def check(value: Any, old: Any, path: str, out: Errors) -> int:
        out.spend()
        own = Errors(out.budget)
        inner(value, UNCORRELATED, path, own)
        if not own:
            out.append(general_error(f"{gotext.quote(path)} must not validate the schema (not)"))
        return 0

    return check
