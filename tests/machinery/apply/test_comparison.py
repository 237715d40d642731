"""What differs between two states of an object."""

from typing import Any

import pytest

from sampan.machinery.apply import sets
from sampan.machinery.apply.comparison import compare
from sampan.machinery.apply.items import Misfit
from tests.machinery.apply.widgets import SPEC_ATOM

CASES: dict[str, tuple[Any, Any, dict[str, list[str]]]] = {
    "nothing": ({"text": "a", "set": ["x"]}, {"text": "a", "set": ["x"]}, {}),
    "a value": ({"text": "a"}, {"text": "b"}, {"modified": [".text"]}),
    "a new value": ({}, {"text": "b"}, {"added": [".text"]}),
    "a value less": ({"text": "b"}, {}, {"removed": [".text"]}),
    "null is a value": ({"text": None}, {"text": "b"}, {"modified": [".text"]}),
    "a map from null": ({"map": None}, {"map": {"a": "1"}}, {"added": [".map.a"]}),
    "a new map": ({}, {"map": {"a": "1"}}, {"added": [".map", ".map.a"]}),
    "a map that is empty now": ({"map": {"a": "1"}}, {"map": {}}, {"removed": [".map.a"]}),
    "an empty map": ({}, {"map": {}}, {"added": [".map"]}),
    "empty or null": ({"map": {}}, {"map": None}, {"modified": [".map"]}),
    "a plain list": ({"plain": ["a"]}, {"plain": ["a", "b"]}, {"modified": [".plain"]}),
    "order of a plain list": ({"plain": ["a", "b"]}, {"plain": ["b", "a"]}, {"modified": [".plain"]}),
    "a set": ({"set": ["a", "b"]}, {"set": ["c", "b"]}, {"added": ['.set[="c"]'], "removed": ['.set[="a"]']}),
    "order of a set": ({"set": ["a", "b"]}, {"set": ["b", "a"]}, {}),
    "an item": (
        {"named": [{"name": "a", "value": 1}]},
        {"named": [{"name": "b"}, {"name": "a", "value": 2}]},
        {"added": ['.named[name="b"]', '.named[name="b"].name'], "modified": ['.named[name="a"].value']},
    ),
    "an item by a default": (
        {"ports": [{"port": 80}]},
        {"ports": [{"port": 80, "protocol": "TCP"}]},
        {"added": ['.ports[port=80,protocol="TCP"].protocol']},
    ),
    "an item told apart by a missing key": (
        {"loose": [{"a": "x"}]},
        {"loose": [{"a": "x", "b": 1}]},
        {
            "added": ['.loose[a="x",b=1]', '.loose[a="x",b=1].a', '.loose[a="x",b=1].b'],
            "removed": ['.loose[a="x"]', '.loose[a="x"].a'],
        },
    ),
    "duplicates appear": ({"set": ["a"]}, {"set": ["a", "a"]}, {"added": ['.set[="a"]'], "removed": ['.set[="a"]']}),
    "duplicates go": ({"set": ["a", "a"]}, {"set": ["a"]}, {"added": ['.set[="a"]'], "removed": ['.set[="a"]']}),
    "duplicates change": (
        {"named": [{"name": "a", "value": 1}, {"name": "a"}]},
        {"named": [{"name": "a", "value": 2}, {"name": "a"}]},
        {"modified": ['.named[name="a"]']},
    ),
    "an atomic record": ({"whole": {"a": "x"}}, {"whole": {"a": "x", "b": 1}}, {"modified": [".whole"]}),
    "free fields": (
        {"free": {"a": {"b": 1}}},
        {"free": {"a": {"c": [1]}}},
        {"added": [".free.a.c"], "removed": [".free.a.b"]},
    ),
    "another type": (
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
def test_differences(name: str) -> None:
    old, new, expected = CASES[name]
    assert SPEC_ATOM is not None
    comparison = compare(old, new, SPEC_ATOM)._asdict()
    shown = {
        kind: [sets.shown_path(path) for path in sets.paths(fields)] for kind, fields in comparison.items() if fields
    }
    assert shown == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"named": [{"value": 1}]}, "omits all key fields"),
        ({"named": [None]}, "may not have a null element"),
        ({"set": [["a"]]}, "lists as elements"),
        ({"unknown": 1}, "field not declared in schema"),
    ],
)
def test_what_does_not_fit(value: dict[str, Any], text: str) -> None:
    assert SPEC_ATOM is not None
    with pytest.raises(Misfit, match=text):
        compare({"named": [], "set": []}, value, SPEC_ATOM)
