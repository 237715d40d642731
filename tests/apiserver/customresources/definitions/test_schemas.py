"""Errors of schemas in CustomResourceDefinitions."""

from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.apiextensions_v1 import CustomResourceValidation
from sampan.apiserver.customresources.definitions.schemas import validate_schema

TEXT = {"type": "string"}
RULE = "x-kubernetes-validations"


def _errors(root: dict[str, Any], *, has_status: bool = False) -> list[str]:
    validation = json.from_value({"openAPIV3Schema": root}, CustomResourceValidation)
    errors = validate_schema(validation, "s", has_status=has_status)
    return [str(error).removeprefix("s.openAPIV3Schema") for error in errors]


def _field_errors(field: dict[str, Any]) -> list[str]:
    return [text.removeprefix(".properties[a]") for text in _errors({"type": "object", "properties": {"a": field}})]


@pytest.mark.parametrize(
    ("field", "errors"),
    [
        (TEXT, []),
        ({}, [".type: Required value: must not be empty for specified object fields"]),
        ({"type": "array"}, [".items: Required value: must be specified"]),
        ({"type": "string", "anyOf": [{"minLength": 1}]}, []),
        ({"type": "string", "anyOf": [TEXT]}, [".anyOf[0].type: Forbidden: must be empty to be structural"]),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, TEXT]}, []),
        ({"type": "string", "pattern": "("}, ['.pattern: Invalid value: "(": must be a valid regular expression']),
        ({"type": "integer", "default": 1, "minimum": 2}, [".default: Invalid value: 1:  in body should be greater"]),
        ({"type": "array", "items": TEXT, "x-kubernetes-list-type": "bag"}, [".x-kubernetes-list-type: Unsupported"]),
        (
            {"type": "array", "items": {**TEXT, RULE: [{"rule": "self == oldSelf"}]}, "maxItems": 1},
            [f'.items.{RULE}[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable'],
        ),
        ({**TEXT, RULE: [{"rule": "self == 1"}]}, [f".{RULE}[0].rule: Invalid value: "]),
    ],
)
def test_errors_of_schema_fields(field: dict[str, Any], errors: list[str]) -> None:
    actual = _field_errors(field)
    assert len(actual) == len(errors), actual
    for text, start in zip(actual, errors, strict=True):
        assert text.startswith(start)


def test_root_schema_must_be_an_object() -> None:
    assert _errors({"type": "string"}) == ['.type: Invalid value: "string": must be object at the root']
    assert _errors({"type": "object", "additionalProperties": TEXT}) == [
        ".additionalProperties: Forbidden: must not be used at the root"
    ]
    assert _errors({"type": "object", "anyOf": [{"required": ["a"]}]}, has_status=True)[0].startswith(": Invalid value")


def test_a_costly_rule_is_refused() -> None:
    inner = {"type": "array", "items": TEXT, RULE: [{"rule": "self.all(x, self.all(y, x != y))"}]}
    errors = _errors({"type": "object", "properties": {"a": {"type": "array", "items": inner}}})
    assert [error.partition(": ")[2][:48] for error in errors] == [
        "Forbidden: estimated rule cost exceeds budget by",
        "Forbidden: contributed to estimated rule cost to",
        "Forbidden: x-kubernetes-validations estimated ru",
    ]


def test_nesting_depth_of_schemas_is_limited() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(200):
        schema = {"type": "object", "properties": {"a": schema}}
    (error,) = _errors(schema)
    assert error == ": Forbidden: schemas must not be nested more than 100 levels deep, but are 201"
