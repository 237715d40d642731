"""CEL types from schemas: fields that rules of custom resources can use, and estimated costs."""

from typing import Any

import pytest

from sampan.api.schema.schemas import definition
from sampan.api.schema.tree import from_openapi
from sampan.machinery.cel import CelError, Environment
from sampan.machinery.cel.schemas import declared_type

STRING: dict[str, Any] = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "required": ["replicas"],
            "properties": {
                "replicas": {"type": "integer"},
                "ratio": {"type": "number"},
                "name": {"type": "string", "maxLength": 10},
                "mode": {"type": "string", "enum": ["on", "off"]},
                "port": {"x-kubernetes-int-or-string": True},
                "since": {"type": "string", "format": "date-time"},
                "day": {"type": "string", "format": "date"},
                "timeout": {"type": "string", "format": "duration"},
                "data": {"type": "string", "format": "byte"},
                "names": {"type": "array", "items": STRING, "maxItems": 5},
                "all": {"type": "array", "items": STRING},
                "labels": {"type": "object", "additionalProperties": STRING, "maxProperties": 3},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "unknown": {"x-kubernetes-preserve-unknown-fields": True},
                "with-dash": STRING,
                "in": STRING,
                "template": {"type": "object", "x-kubernetes-embedded-resource": True},
            },
        },
    },
}
VALUE: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "X",
    "metadata": {"name": "a"},
    "spec": {
        "replicas": 3,
        "name": "web",
        "port": "http",
        "since": "2024-01-01T00:00:00Z",
        "day": "2024-01-02",
        "timeout": "90s",
        "data": "aGk=",
        "names": ["a", "b"],
        "labels": {"x": "y"},
        "with-dash": "d",
        "in": "i",
        "template": {"kind": "Pod"},
    },
}
_SELF = declared_type(from_openapi(SCHEMA), "self", is_resource=True)
assert _SELF is not None
ENV = Environment({"self": _SELF})


@pytest.mark.parametrize(
    "rule",
    [
        "self.spec.replicas <= 5 && self.spec.name.startsWith('w')",
        "self.metadata.name == 'a' && self.kind == 'X'",
        "self.spec.port == 'http' || self.spec.port == 80",
        "type(self.spec.port) == string",
        "self.spec.since < self.spec.day && self.spec.timeout < duration('2m')",
        "self.spec.data == b'hi'",
        "self.spec.names.all(n, n.size() == 1) && self.spec.labels.all(k, self.spec.labels[k] == 'y')",
        "self.spec.with__dash__dash == 'd'",
        "self.spec.__in__ == 'i'",
        "self.spec.template.kind == 'Pod'",
        "!has(self.spec.ratio)",
    ],
)
def test_valid_rules_evaluate_to_true(rule: str) -> None:
    assert ENV.compile(rule).evaluate({"self": VALUE}) is True


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            "self.metadata.labels.size() > 0",
            "1:14: undefined field 'labels'\n | self.metadata.labels.size() > 0\n | .............^",
        ),
        ("self.spec.b > 1", "undefined field 'b'"),
        ("self.spec.unknown.x == 1", "undefined field 'unknown'"),
        ("self.spec.open.x == 1", "undefined field 'x'"),
        ("self.spec.replicas == 'x'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.spec.names == ['a', 1]", "expected type 'string' but found 'int'"),
    ],
)
def test_invalid_rules_are_rejected(rule: str, message: str) -> None:
    with pytest.raises(CelError) as error:
        ENV.compile(rule)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("rule", "most"),
    [
        ("self.spec.name == self.spec.name", 6 + 4),
        ("self.spec.mode.contains('x')", 3 + 1),
        ("self.spec.names.all(n, true)", 3 + 1 + 5 * 3),
        ("self.spec.all.all(n, true)", 3 + 1 + 1048575 * 3),
        ("self.spec.labels.exists(k, true)", 3 + 1 + 3 * 4),
        ("self.spec.since == self.spec.since", 6 + 4),
    ],
)
def test_estimates_use_the_bounds_of_the_schema(rule: str, most: int) -> None:
    assert ENV.compile(rule).estimated_cost.max == most


def test_type_of_a_recursive_schema() -> None:
    schema = definition("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    assert schema is not None
    type_ = declared_type(schema, "schema")
    assert type_ is not None
    program = Environment({"schema": type_}).compile("schema.properties['a'].not.title == 'x'")
    assert program.evaluate({"schema": {"properties": {"a": {"not": {"title": "x"}}}}}) is True
