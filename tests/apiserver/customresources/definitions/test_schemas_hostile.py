"""Schemas and rules that are costly to evaluate are rejected, and accepted schemas are cheap to validate.

CPU time is measured, with a bound far above what is needed, and far below what a search without bounds would take.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from sampan.api.codec import json
from sampan.api.limits import CEL_SOURCE_CHARACTERS, CUSTOM_ALTERNATIVES, CUSTOM_SCHEMA_DEPTH
from sampan.api.types.apiextensions_v1 import CustomResourceValidation
from sampan.apiserver.customresources.definitions.schemas import validate_schema
from sampan.apiserver.customresources.objects.schema_validator import SchemaValidator
from tests.input_cost import is_cpu_time_within

MAX_CPU_S = 5.0
T = TypeVar("T")
RULES = "x-kubernetes-validations"


def _run_in_bounded_time(work: Callable[[], T]) -> T:
    start = time.process_time()
    result = work()
    assert is_cpu_time_within(time.process_time() - start, MAX_CPU_S)
    return result


def _errors(field: dict[str, Any]) -> list[str]:
    root = {"type": "object", "properties": {"a": field}}
    validation = json.from_value({"openAPIV3Schema": root}, CustomResourceValidation)
    return [
        str(error) for error in _run_in_bounded_time(lambda: list(validate_schema(validation, "s", has_status=False)))
    ]


def _build_nested_schema(key: str, depth: int, *, width: int = 1) -> dict[str, Any]:
    """Return schemas that are nested in one keyword, `width` in each of the levels."""
    schema: dict[str, Any] = {"minimum": 0}
    for _ in range(depth):
        schema = {key: [schema] * width} if key.endswith("Of") else {key: schema}
    return schema


@pytest.mark.parametrize("key", ["not", "oneOf", "anyOf", "allOf"])
def test_deep_schemas_are_refused(key: str) -> None:
    (text,) = _errors({"type": "integer", **_build_nested_schema(key, CUSTOM_SCHEMA_DEPTH + 1)})
    assert f"must not be nested more than {CUSTOM_SCHEMA_DEPTH} levels deep" in text


def test_deep_lists_are_refused() -> None:
    field: dict[str, Any] = {"type": "string"}
    for _ in range(CUSTOM_SCHEMA_DEPTH + 1):
        field = {"type": "array", "items": field}
    (text,) = _errors(field)
    assert "levels deep" in text


@pytest.mark.parametrize("key", ["oneOf", "allOf"])
def test_a_value_that_needs_too_many_alternatives_is_refused(key: str) -> None:
    """All alternatives of oneOf and allOf have to be checked: 1092 for each item."""
    check = SchemaValidator({"type": "array", "items": {"type": "integer", **_build_nested_schema(key, 6, width=3)}})
    (error,) = _run_in_bounded_time(lambda: check.validate([1] * 1000))
    assert f"must not need more than {CUSTOM_ALTERNATIVES} checks" in str(error)


def test_alternatives_of_all_items_count_together() -> None:
    item = {"type": "integer", "oneOf": [{"minimum": number} for number in range(100)]}
    check = SchemaValidator({"type": "array", "items": item})
    (error,) = _run_in_bounded_time(lambda: check.validate(list(range(100_000))))
    assert "must not need more than" in str(error)


def test_validation_against_large_enum_is_fast() -> None:
    values = [f"value-{number}" for number in range(100_000)]
    field = {"type": "string", "enum": values}
    assert _errors(field) == []
    check = SchemaValidator({"type": "array", "items": field})
    assert _run_in_bounded_time(lambda: check.validate(values)) == []


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "^(.*)*b$", "(x+x+)+y"])
def test_patterns_take_linear_time(pattern: str) -> None:
    field = {"type": "string", "pattern": pattern}
    assert _errors(field) == []
    check = SchemaValidator(field)
    assert _run_in_bounded_time(lambda: check.validate("a" * 50_000 + "x" * 50_000 + "!"))


@pytest.mark.parametrize("pattern", ["(a{1000}){1000}", "((((a{100}){100}){100}){100})"])
def test_patterns_that_are_too_large_are_refused(pattern: str) -> None:
    (text,) = _errors({"type": "string", "pattern": pattern})
    assert "must be a valid regular expression" in text


COSTLY: dict[str, dict[str, Any]] = {
    "a loop in a loop": {
        "type": "array",
        "items": {"type": "string"},
        RULES: [{"rule": "self.all(a, self.all(b, a == b))"}],
    },
    "a rule of every item of a list in a list": {
        "type": "array",
        "items": {
            "type": "array",
            "items": {"type": "array", "items": {"type": "string", RULES: [{"rule": "self.contains('a')"}]}},
        },
    },
    "a pattern on a text of any length in a list": {
        "type": "array",
        "items": {"type": "string"},
        RULES: [{"rule": "self.all(a, a.matches('^(a+)+$'))"}],
    },
    "texts that are joined": {
        "type": "array",
        "items": {"type": "string"},
        RULES: [{"rule": "self.map(a, self.map(b, a + b)).size() < 5"}],
    },
}


@pytest.mark.parametrize("case", COSTLY)
def test_rules_on_values_without_bounds_are_refused(case: str) -> None:
    assert any("exceeds budget by factor" in text for text in _errors(COSTLY[case]))


def test_rule_of_the_largest_size_is_validated_quickly() -> None:
    alternatives = (CEL_SOURCE_CHARACTERS - len("self == 'a'")) // len(" || self == 'b'")
    rule = "self == 'a'" + " || self == 'b'" * alternatives
    assert _errors({"type": "string", "maxLength": 5, RULES: [{"rule": rule}]}) == []
    (text,) = _errors({"type": "string", "maxLength": 5, RULES: [{"rule": f"{rule} || self == 'c'"}]})
    assert "expression code point size exceeds limit" in text


def test_total_cost_of_many_rules_is_limited() -> None:
    rules = [{"rule": f"self.all(a, a != 'x{number}')"} for number in range(300)]
    field = {"type": "array", "maxItems": 100_000, "items": {"type": "string", "maxLength": 100}, RULES: rules}
    assert any("for entire OpenAPIv3 schema" in text for text in _errors(field))
