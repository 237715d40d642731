"""Decoding, pruning and defaulting of custom objects by their schema."""

from typing import Any

import pytest

from sampan.api.codec import custom
from sampan.api.codec.custom import apply_defaults, drop_nulls, prune
from sampan.api.codec.errors import DecodeError
from sampan.api.schema.tree import from_openapi

SCHEMA = from_openapi(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "default": 3},
                    "name": {"type": "string", "nullable": True, "default": "x"},
                    "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                    "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"k": {}}}},
                    "free": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}},
                    },
                    "pod": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {}}},
                    "deep": {"type": "object", "default": {}, "properties": {"n": {"type": "integer", "default": 1}}},
                },
            }
        },
    }
)

NOT_A_STRING = "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"


def test_unknown_fields_are_named_in_order_and_removed() -> None:
    value: dict[str, Any] = {
        "kind": "Thing",
        "metadata": {"name": "a"},
        "zz": 1,
        "spec": {
            "bad": 1,
            "list": [{"a": "x", "b": 1}],
            "map": {"m": {"k": 1, "l": 2}},
            "free": {"any": {"thing": 1}, "known": {"a": "x", "b": 1}},
            "pod": {"kind": "Pod", "metadata": {}, "spec": 1, "extra": 1},
        },
    }
    unknown = ["spec.bad", "spec.free.known.b", "spec.list[0].b", "spec.map.m.l", "spec.pod.extra", "zz"]
    assert prune(value, SCHEMA) == unknown
    assert prune(value, SCHEMA) == []
    assert value["spec"]["free"] == {"any": {"thing": 1}, "known": {"a": "x"}}


def test_defaults_replace_missing_and_non_nullable_null_values() -> None:
    value: dict[str, Any] = {"spec": {"size": None, "name": None}}
    apply_defaults(value, SCHEMA)
    assert value == {"spec": {"size": 3, "name": None, "deep": {"n": 1}}}
    apply_defaults(value, SCHEMA)
    assert value["spec"]["deep"] == {"n": 1}


def test_defaults_are_copies() -> None:
    first: dict[str, Any] = {"spec": {}}
    second: dict[str, Any] = {"spec": {}}
    apply_defaults(first, SCHEMA)
    first["spec"]["deep"]["n"] = 5
    apply_defaults(second, SCHEMA)
    assert second["spec"]["deep"] == {"n": 1}


def test_nulls_are_dropped_unless_nullable_or_defaulted() -> None:
    value: dict[str, Any] = {"spec": {"size": None, "name": None, "list": None, "map": {"m": None}}}
    drop_nulls(value, SCHEMA)
    assert value == {"spec": {"size": None, "name": None, "map": {}}}


def test_decode_reports_strict_errors() -> None:
    body = b'{"metadata":{"name":"a","owner":1},"spec":{"size":1,"size":2,"pod":{"metadata":{"colour":1}}},"extra":1}'
    value, strict = custom.decode(body, SCHEMA)
    assert strict == [
        'duplicate field "spec.size"',
        'unknown field "metadata.owner"',
        'unknown field "extra"',
        'unknown field "spec.pod.metadata.colour"',
    ]
    assert value == {"metadata": {"name": "a"}, "spec": {"size": 2, "pod": {"metadata": {}}}}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"metadata":{"labels":{"a":1}}}', NOT_A_STRING),
        (
            b'{"spec":{"pod":{"metadata":{"labels":{"a":1}}}}}',
            f'spec.pod.metadata: Invalid value: {{"labels":{{"a":1}}}}: {NOT_A_STRING}',
        ),
        (b'{"spec":{"pod":{"kind":1}}}', "spec.pod.kind: Invalid value: 1: must be a string"),
    ],
)
def test_invalid_metadata_is_rejected(body: bytes, message: str) -> None:
    with pytest.raises(DecodeError) as raised:
        custom.decode(body, SCHEMA)
    assert str(raised.value) == message
