"""Comparison of two states of an object: added, modified and removed fields."""

from typing import Any

import pytest

from sampan.machinery.apply import sets
from sampan.machinery.apply.comparison import compare
from sampan.machinery.apply.items import SchemaMismatch
from tests.machinery.apply.widgets import SPEC_ATOM

CASES: dict[str, tuple[Any, Any, dict[str, list[str]]]] = {
    "no change": ({"text": "a", "set": ["x"]}, {"text": "a", "set": ["x"]}, {}),
    "modified value": ({"text": "a"}, {"text": "b"}, {"modified": [".text"]}),
    "added value": ({}, {"text": "b"}, {"added": [".text"]}),
    "removed value": ({"text": "b"}, {}, {"removed": [".text"]}),
    "null to value": ({"text": None}, {"text": "b"}, {"modified": [".text"]}),
    "null to map": ({"map": None}, {"map": {"a": "1"}}, {"added": [".map.a"]}),
    "added map": ({}, {"map": {"a": "1"}}, {"added": [".map", ".map.a"]}),
    "emptied map": ({"map": {"a": "1"}}, {"map": {}}, {"removed": [".map.a"]}),
    "added empty map": ({}, {"map": {}}, {"added": [".map"]}),
    "empty map to null": ({"map": {}}, {"map": None}, {"modified": [".map"]}),
    "atomic list": ({"plain": ["a"]}, {"plain": ["a", "b"]}, {"modified": [".plain"]}),
    "order of atomic list": ({"plain": ["a", "b"]}, {"plain": ["b", "a"]}, {"modified": [".plain"]}),
    "set": ({"set": ["a", "b"]}, {"set": ["c", "b"]}, {"added": ['.set[="c"]'], "removed": ['.set[="a"]']}),
    "order of a set": ({"set": ["a", "b"]}, {"set": ["b", "a"]}, {}),
    "list map item": (
        {"named": [{"name": "a", "value": 1}]},
        {"named": [{"name": "b"}, {"name": "a", "value": 2}]},
        {"added": ['.named[name="b"]', '.named[name="b"].name'], "modified": ['.named[name="a"].value']},
    ),
    "list map key with default": (
        {"ports": [{"port": 80}]},
        {"ports": [{"port": 80, "protocol": "TCP"}]},
        {"added": ['.ports[port=80,protocol="TCP"].protocol']},
    ),
    "list map key missing": (
        {"loose": [{"a": "x"}]},
        {"loose": [{"a": "x", "b": 1}]},
        {
            "added": ['.loose[a="x",b=1]', '.loose[a="x",b=1].a', '.loose[a="x",b=1].b'],
            "removed": ['.loose[a="x"]', '.loose[a="x"].a'],
        },
    ),
    "duplicates added": ({"set": ["a"]}, {"set": ["a", "a"]}, {"added": ['.set[="a"]'], "removed": ['.set[="a"]']}),
    "duplicates removed": ({"set": ["a", "a"]}, {"set": ["a"]}, {"added": ['.set[="a"]'], "removed": ['.set[="a"]']}),
    "duplicates modified": (
        {"named": [{"name": "a", "value": 1}, {"name": "a"}]},
        {"named": [{"name": "a", "value": 2}, {"name": "a"}]},
        {"modified": ['.named[name="a"]']},
    ),
    "atomic map": ({"whole": {"a": "x"}}, {"whole": {"a": "x", "b": 1}}, {"modified": [".whole"]}),
    "unknown fields": (
        {"free": {"a": {"b": 1}}},
        {"free": {"a": {"c": [1]}}},
        {"added": [".free.a.c"], "removed": [".free.a.b"]},
    ),
    "changed type": (
        {"free": {"a": {"b": 1}}},
        {"free": {"a": "text"}},
        {"modified": [".free.a"], "removed": [".free.a.b"]},
    ),
    "true is not 1": (
        {"free": {"a": 1, "b": [1]}},
        {"free": {"a": True, "b": [True]}},
        {"modified": [".free.a", ".free.b"]},
    ),
    "1.0 is 1": ({"free": {"a": 1}}, {"free": {"a": 1.0}}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_compare(name: str) -> None:
    old, new, expected = CASES[name]
    assert SPEC_ATOM is not None
    comparison = compare(old, new, SPEC_ATOM)._asdict()
    paths = {
        kind: [sets.format_path(path) for path in sets.paths(fields)] for kind, fields in comparison.items() if fields
    }
    assert paths == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"named": [{"value": 1}]}, "omits all key fields"),
        ({"named": [None]}, "may not have a null element"),
        ({"set": [["a"]]}, "lists as elements"),
        ({"unknown": 1}, "field not declared in schema"),
    ],
)
def test_values_that_do_not_match_the_schema_are_rejected(value: dict[str, Any], text: str) -> None:
    assert SPEC_ATOM is not None
    with pytest.raises(SchemaMismatch, match=text):
        compare({"named": [], "set": []}, value, SPEC_ATOM)
