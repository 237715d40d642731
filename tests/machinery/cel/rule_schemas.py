"""Generated schemas of custom resources with rules, many of them invalid."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]

_RULES = (
    *("self == self", "self == oldSelf", "true", "has(self.a)", "self.a == 'b'", "self.exists(x, x.startsWith('a'))"),
    *("self.all(x, self.all(y, x == y))", "self + 1", "self.map(x, x).size() > 0"),
)
_MESSAGES = ("'a'", "1", "string(self)", "self.map(x, string(x)).join()")
_NAMES = ("a", "b", "c", "x-y")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def schemas() -> st.SearchStrategy[Schema]:
    return st.builds(
        lambda spec, rules: {"type": "object", "properties": {"spec": spec}, **rules}, _schema(3), _rules()
    )


def _rules() -> st.SearchStrategy[Schema]:
    rule = st.fixed_dictionaries(
        {"rule": st.sampled_from(_RULES)},
        optional={"messageExpression": st.sampled_from(_MESSAGES), "optionalOldSelf": st.just(True)},
    )
    return st.one_of(
        st.just({}), st.lists(rule, min_size=1, max_size=2).map(lambda rules: {"x-kubernetes-validations": rules})
    )


def _schema(depth: int) -> st.SearchStrategy[Schema]:
    kinds = [_string(), _plain()]
    if depth:
        kinds += [_object(depth - 1), _map(depth - 1), _array(depth - 1)]
    return st.builds(lambda base, extra, rules: {**base, **extra, **rules}, st.one_of(kinds), _extras(), _rules())


def _string() -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "maxLength": st.integers(0, 50),
            "enum": st.just(["one", "three"]),
            "format": st.sampled_from(["byte", "date", "date-time", "duration", "email"]),
        },
    )


def _plain() -> st.SearchStrategy[Schema]:
    return st.one_of(
        st.sampled_from(["integer", "number", "boolean"]).map(lambda kind: {"type": kind}),
        st.just({"x-kubernetes-int-or-string": True}),
        st.just({"x-kubernetes-preserve-unknown-fields": True}),
        st.just({}),
    )


def _object(depth: int) -> st.SearchStrategy[Schema]:
    properties = st.dictionaries(st.sampled_from(_NAMES), _schema(depth), min_size=1, max_size=3)
    optional: dict[str, st.SearchStrategy[Any]] = {
        "required": st.just(["a"]),
        "x-kubernetes-map-type": st.sampled_from(["atomic", "granular"]),
    }
    return st.fixed_dictionaries({"type": st.just("object"), "properties": properties}, optional=optional)


def _map(depth: int) -> st.SearchStrategy[Schema]:
    values = st.one_of(_schema(depth), st.just(True))
    return st.fixed_dictionaries(
        {"type": st.just("object"), "additionalProperties": values}, optional={"maxProperties": st.integers(0, 9)}
    )


def _array(depth: int) -> st.SearchStrategy[Schema]:
    optional: dict[str, st.SearchStrategy[Any]] = {
        "maxItems": st.integers(0, 9),
        "x-kubernetes-list-type": st.sampled_from(["atomic", "set", "map"]),
        "x-kubernetes-list-map-keys": st.just(["a"]),
    }
    return st.fixed_dictionaries({"type": st.just("array"), "items": _schema(depth)}, optional=optional)


def _extras() -> st.SearchStrategy[Schema]:
    combinations = st.sampled_from(
        [
            {"anyOf": _INT_OR_STRING},
            {"allOf": [{"anyOf": _INT_OR_STRING}]},
            {"oneOf": [{"required": ["a"]}, {"maxLength": 3}]},
            {"anyOf": [{"type": "string"}]},
            {"not": {"description": "d"}},
            {"nullable": True},
        ]
    )
    return st.one_of(st.just({}), st.just({}), st.just({}), combinations)
