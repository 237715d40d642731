"""Validation rules: evaluation, messages, old values and budgets."""

from typing import Any

from sampan.api.schema.tree import from_openapi
from sampan.apiserver.customresources.objects.rules import RuleValidator
from sampan.apiserver.customresources.objects.value_checks import UNCORRELATED


def _messages(schema: dict[str, Any], value: Any, old: Any = UNCORRELATED) -> list[str]:
    validator = RuleValidator(from_openapi(schema), is_resource=False)
    return [str(error) for error in validator.validate(value, old).errors]


def _number(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"n": {"type": "integer", "x-kubernetes-validations": [*rules]}}}


def test_a_rule_that_does_not_hold_is_an_error() -> None:
    schema = _number(
        {"rule": "self > 1"}, {"rule": "self < 9", "message": "too large", "reason": "FieldValueForbidden"}
    )
    assert _messages(schema, {"n": 5}) == []
    assert _messages(schema, {"n": 1}) == ["n: Invalid value: 1: failed rule: self > 1"]
    assert _messages(schema, {"n": 10}) == ["n: Forbidden: too large"]
    assert _messages(schema, {}) == []


def test_error_uses_message_expression_and_field_path_of_rule() -> None:
    rule = {"rule": "self.a < self.b", "messageExpression": "self.name + ' is wrong'", "fieldPath": ".a"}
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "name": {"type": "string", "maxLength": 9}},
        "x-kubernetes-validations": [rule],
    }
    assert _messages(schema, {"a": 2, "b": 1, "name": "it"}) == ["a: Invalid value: it is wrong"]


def test_transition_rules_require_an_old_value_unless_optional() -> None:
    schema = _number({"rule": "self >= oldSelf", "message": "may only grow"})
    assert _messages(schema, {"n": 1}) == []
    assert _messages(schema, {"n": 1}, {}) == []
    assert _messages(schema, {"n": 1}, {"n": 2}) == ["n: Invalid value: 1: may only grow"]
    optional = _number({"rule": "oldSelf.orValue(0) <= self", "optionalOldSelf": True})
    assert _messages(optional, {"n": -1}) == ["n: Invalid value: -1: failed rule: oldSelf.orValue(0) <= self"]
    assert _messages(optional, {"n": 1}, {"n": 2}) != []


def test_an_unchanged_value_may_break_a_rule() -> None:
    schema = _number({"rule": "self > 1"})
    assert _messages(schema, {"n": 0}, {"n": 0}) == []
    assert _messages(schema, {"n": 0}, {"n": 1}) != []


def test_fields_of_an_atomic_map_have_old_values() -> None:
    schema = {**_number({"rule": "self == oldSelf", "message": "immutable"}), "x-kubernetes-map-type": "atomic"}
    assert _messages(schema, {"n": 2}, {"n": 1}) == ["n: Invalid value: 2: immutable"]
    assert _messages(schema, {"n": 1}, {"n": 1}) == []


def test_entries_of_map_lists_are_compared_by_key() -> None:
    items = {
        "type": "object",
        "required": ["k"],
        "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "shrinks"}],
    }
    schema = {
        "type": "object",
        "properties": {
            "l": {
                "type": "array",
                "items": items,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
            }
        },
    }
    old = {"l": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}
    assert _messages(schema, {"l": [{"k": "b", "v": 1}, {"k": "a", "v": 1}]}, old) == ["l[0]: Invalid value: shrinks"]


def test_date_time_and_duration_formats_become_cel_values() -> None:
    schema = {
        "type": "object",
        "properties": {"t": {"type": "string", "format": "date-time"}, "d": {"type": "string", "format": "duration"}},
        "x-kubernetes-validations": [{"rule": "self.t + self.d < timestamp('2021-01-01T00:00:00Z')"}],
    }
    assert _messages(schema, {"t": "2020-12-31T23:00:00Z", "d": "30m"}) == []
    assert _messages(schema, {"t": "2020-12-31T23:00:00Z", "d": "2h"}) != []


def test_validation_stops_at_the_cost_limit() -> None:
    schema = {
        "type": "object",
        "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c > 0)))"}],
    }
    (message,) = _messages(schema, {"l": list(range(1, 300))})
    assert "no further validation rules will be run due to call cost exceeds limit" in message


def test_sets_and_map_lists_are_equal_in_any_order() -> None:
    tags = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    item = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}
    ports = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    rule = {"rule": "self.tags == oldSelf.tags && self.ports == oldSelf.ports", "message": "changed"}
    schema = {
        "type": "object",
        "properties": {"tags": tags, "ports": ports},
        "x-kubernetes-validations": [rule, {"rule": "size(self.tags + ['a']) == 2"}],
    }
    old = {"tags": ["a", "b"], "ports": [{"k": "x", "v": 1}, {"k": "y", "v": 2}]}
    moved = {"tags": ["b", "a"], "ports": [{"k": "y", "v": 2}, {"k": "x", "v": 1}]}
    assert _messages(schema, moved, old) == []
    changed = {"tags": ["b", "a"], "ports": [{"k": "y", "v": 3}, {"k": "x", "v": 1}]}
    assert _messages(schema, changed, old) == ["<nil>: Invalid value: changed"]
