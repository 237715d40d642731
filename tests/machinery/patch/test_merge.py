from typing import Any

import pytest

from sampan.machinery import patch as p

RFC_7386 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("document", "patch", "result"), RFC_7386)
def test_rfc_7386(document: Any, patch: Any, result: Any) -> None:
    assert p.apply_merge_patch(document, patch) == result


def test_nulls_in_lists() -> None:
    """Nulls are dropped from objects in a list, unless the list replaces an object."""
    patch = {"a": [None, {"b": None}]}
    assert p.apply_merge_patch({"a": []}, patch) == {"a": [None, {}]}
    assert p.apply_merge_patch({"a": {}}, patch) == {"a": [None, {"b": None}]}


def test_unchanged_parts_are_shared() -> None:
    document = {"spec": {"deep": [1]}, "status": {}}
    assert p.apply_merge_patch(document, {"status": {"a": 1}})["spec"] is document["spec"]


def test_three_way_merge_diff() -> None:
    original = {"spec": {"a": 1, "b": {"c": 1, "d": 2}, "e": 1}}
    modified = {"spec": {"a": 2, "b": {"c": 1}, "f": {}}}
    current = {"spec": {"a": 1, "b": {"c": 1, "d": 2, "other": 3}, "e": 1}, "status": {}}
    patch = p.three_way_merge_diff(original, modified, current)
    assert patch == {"spec": {"a": 2, "b": {"d": None}, "e": None, "f": {}}}
    assert p.apply_merge_patch(current, patch) == {"spec": {"a": 2, "b": {"c": 1, "other": 3}, "f": {}}, "status": {}}


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "Invalid JSON Patch"),
        ([], "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (True, "error decoding patch: json: cannot unmarshal bool into Go value of type map[string]interface {}"),
    ],
)
def test_malformed_patches_are_rejected(patch: Any, message: str) -> None:
    with pytest.raises(p.MalformedPatch) as failure:
        p.check_merge_patch(patch)
    error = failure.value.as_api_error()
    assert (error.code, error.reason, error.message) == (400, "BadRequest", message)


def test_too_deep_nesting_is_rejected() -> None:
    patch: dict[str, Any] = {}
    for _ in range(100_000):
        patch = {"a": patch}
    with pytest.raises(p.MalformedPatch, match="exceeded max depth"):
        p.apply_merge_patch({}, patch)
    while patch:  # freed step by step, because Python would recurse
        patch = patch.pop("a")
