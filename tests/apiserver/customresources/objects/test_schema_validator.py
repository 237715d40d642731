"""Values against schemas: messages, paths and ratcheting."""

from typing import Any

import pytest

from sampan.apiserver.customresources.objects.schema_validator import SchemaValidator

PORT = {"type": "integer", "minimum": 1, "maximum": 65535}


@pytest.mark.parametrize(
    ("schema", "value", "messages"),
    [
        ({"type": "string"}, "a", []),
        ({"type": "string"}, 1, ['x: Invalid value: "integer": x in body must be of type string: "integer"']),
        ({"type": "integer"}, 1.0, []),
        ({"type": "number"}, 1, []),
        ({"type": "boolean"}, 1, ['x: Invalid value: "integer": x in body must be of type boolean: "integer"']),
        ({"type": "string"}, None, ['x: Invalid value: "null": x in body must be of type string: "null"']),
        ({"type": "string", "nullable": True}, None, []),
        (PORT, 0, ["x: Invalid value: 0: x in body should be greater than or equal to 1"]),
        (PORT, 70000, ["x: Invalid value: 70000: x in body should be less than or equal to 65535"]),
        ({"type": "string", "maxLength": 2}, "äöü", ["x: Too long: may not be more than 2 bytes"]),
        ({"enum": [1, "a", {"b": 2}]}, {"b": 2}, []),
        ({"enum": [1, "a"]}, True, ['x: Unsupported value: true: supported values: "1", "a"']),
        (
            {"type": "array", "items": PORT},
            [1, 0],
            ["x[1]: Invalid value: 0: x[1] in body should be greater than or equal to 1"],
        ),
        ({"type": "object", "required": ["a"]}, {}, ["x.a: Required value"]),
        (
            {"type": "object", "minProperties": 1},
            {},
            ["x: Invalid value: 0: x in body should have at least 1 properties"],
        ),
        (
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            1.5,
            [
                '<nil>: Invalid value: "": "x" must validate at least one schema (anyOf)',
                'x: Invalid value: "number": x in body must be of type integer: "number"',
                '<nil>: Invalid value: "": Checked value must be of type integer (default format) in x',
            ],
        ),
        ({"not": {"type": "string"}}, "a", ['<nil>: Invalid value: "": "x" must not validate the schema (not)']),
        (
            {"type": "string", "pattern": "^(a+)+$"},
            "a" * 40 + "b",
            [f"x: Invalid value: \"{'a' * 40}b\": x in body should match '^(a+)+$'"],
        ),
    ],
)
def test_errors(schema: dict[str, Any], value: Any, messages: list[str]) -> None:
    assert [str(error) for error in SchemaValidator(schema).validate(value, path="x")] == messages


def test_unchanged_invalid_values_are_accepted_on_update() -> None:
    items = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "port": PORT}}
    ports = {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    validator = SchemaValidator({"type": "object", "properties": {"ports": ports, "port": PORT}})
    old = {"port": 0, "ports": [{"name": "a", "port": 0}, {"name": "b", "port": 1}]}
    assert validator.validate({**old, "other": 1}, old) == []
    moved = {"port": 0, "ports": [{"name": "b", "port": 2}, {"name": "a", "port": 0}]}
    assert validator.validate(moved, old) == []
    changed = {"port": -1, "ports": [{"name": "a", "port": -1}]}
    assert [error.field for error in validator.validate(changed, old)] == ["port", "ports[0].port"]


def test_number_of_any_of_checks_is_limited() -> None:
    alternatives = [{"minLength": length} for length in range(100, 200)]
    schema = {"type": "array", "items": {"type": "string", "anyOf": alternatives}}
    (error,) = SchemaValidator(schema).validate(["a"] * 10_000)
    assert "must not need more than 250000 checks" in str(error)
