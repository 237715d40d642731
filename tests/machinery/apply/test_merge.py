"""Merge of an applied object into a live one: values, and order of list items."""

from typing import Any

import pytest

from sampan.machinery.apply.merge import merge
from tests.machinery.apply.widgets import SPEC_ATOM


@pytest.mark.parametrize(
    ("live", "applied", "merged"),
    [
        ("a b c", "", "a b c"),
        ("", "b a", "b a"),
        ("a b", "a b c", "a b c"),
        ("a b", "c a b", "c a b"),
        ("a b", "b a", "b a"),
        ("a x b", "b a", "x b a"),
        ("x a b", "b a", "x b a"),
        ("a b x", "b a", "b x a"),
        ("x y", "a b", "x y a b"),
        ("x a y", "a b", "x a y b"),
        ("x a y b z", "b c a", "x y b z c a"),
        ("a x b y c z", "c b a", "x y c z b a"),
    ],
)
def test_order_of_merged_items(live: str, applied: str, merged: str) -> None:
    assert SPEC_ATOM is not None
    result = merge({"set": live.split()}, {"set": applied.split()}, SPEC_ATOM)
    assert " ".join(result["set"]) == merged


@pytest.mark.parametrize(
    ("live", "applied", "merged"),
    [
        ({"text": "a", "number": 1}, {"text": "b"}, {"text": "b", "number": 1}),
        ({"text": "a"}, {"text": None}, {"text": None}),
        ({"map": {"a": "1"}}, {"map": {"b": "2"}}, {"map": {"a": "1", "b": "2"}}),
        ({"map": {"a": "1"}}, {"map": None}, {"map": {"a": "1"}}),
        ({"map": {"a": "1"}}, {"map": {}}, {"map": {"a": "1"}}),
        ({"map": {}}, {"map": None}, {"map": None}),
        ({"plain": ["a"]}, {"plain": ["b"]}, {"plain": ["b"]}),
        ({"whole": {"a": "x"}}, {"whole": {"b": 1}}, {"whole": {"b": 1}}),
        (
            {"named": [{"name": "a", "value": 1}, {"name": "b"}]},
            {"named": [{"name": "a", "note": "n"}]},
            {"named": [{"name": "a", "value": 1, "note": "n"}, {"name": "b"}]},
        ),
        (
            {"ports": [{"port": 80, "protocol": "TCP", "note": "n"}]},
            {"ports": [{"port": 80}]},
            {"ports": [{"port": 80, "protocol": "TCP", "note": "n"}]},
        ),
        ({"set": ["a", "a", "b"]}, {"set": ["a"]}, {"set": ["a", "b"]}),
        ({"free": {"a": "text"}}, {"free": {"a": {"b": 1}}}, {"free": {"a": {"b": 1}}}),
        ({"free": {"a": {"b": 1}}}, {"free": {"a": None}}, {"free": {"a": {"b": 1}}}),
    ],
)
def test_merged_values(live: Any, applied: Any, merged: Any) -> None:
    assert SPEC_ATOM is not None
    assert merge(live, applied, SPEC_ATOM) == merged
