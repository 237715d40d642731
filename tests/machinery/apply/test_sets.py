"""Field sets, compared with a Python set of paths as the model."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.machinery.apply import sets
from sampan.machinery.apply.sets import BadFields, Fields, Path

ELEMENTS = ["f:a", "f:b", 'k:{"n":2}', 'k:{"n":10}', 'v:"x"', "i:1"]
paths = st.frozensets(st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=4).map(tuple), max_size=12)


def fields_of(paths: frozenset[Path]) -> Fields:
    return sets.from_paths(*sorted(paths))


def members(fields: Fields) -> frozenset[Path]:
    paths = list(sets.paths(fields))
    assert len(set(paths)) == len(paths)
    return frozenset(paths)


@given(paths)
def test_field_set_contains_its_paths(paths_: frozenset[Path]) -> None:
    fields = fields_of(paths_)
    assert members(fields) == paths_
    assert all(sets.has(fields, path) for path in paths_)
    assert not sets.has(fields, ())
    assert not sets.has(fields, ("f:none",))


@given(paths)
def test_encode_and_decode_round_trip(paths_: frozenset[Path]) -> None:
    fields = fields_of(paths_)
    raw = sets.encode(fields)
    assert sets.decode(raw) == fields
    assert sets.encode(sets.decode(raw)) == raw
    assert [*_keys(msgspec.json.decode(raw))] == [*_keys(fields)]


def _keys(fields: Any) -> Any:
    for key, below in fields.items():
        yield key
        yield from _keys(below)


OPERATIONS: dict[str, tuple[Callable[[Fields, Fields], Fields], Callable[[Any, Any], Any]]] = {
    "union": (sets.union, lambda left, other: left | other),
    "difference": (sets.difference, lambda left, other: left - other),
    "intersection": (sets.intersection, lambda left, other: left & other),
    "recursive difference": (
        sets.recursive_difference,
        lambda left, other: {path for path in left if not any(path[: len(gone)] == gone for gone in other)},
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
@given(first=paths, other=paths)
def test_set_operations_match_the_model(name: str, first: frozenset[Path], other: frozenset[Path]) -> None:
    operate, model = OPERATIONS[name]
    left, right = fields_of(first), fields_of(other)
    before = sets.encode(left), sets.encode(right)
    result = operate(left, right)
    assert members(result) == model(first, other)
    assert sets.decode(sets.encode(result)) == result, "ordered, and without empty nodes"
    assert (sets.encode(left), sets.encode(right)) == before


@given(first=paths, other=paths)
def test_operation_without_effect_returns_the_same_set(first: frozenset[Path], other: frozenset[Path]) -> None:
    left = fields_of(first)
    assert sets.union(left, fields_of(first & other)) is left
    assert sets.difference(left, fields_of(other - first)) is left


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (b"{}", {}),
        (b'{"f:b":{},"f:a":{".":{}}}', {"f:a": {}, "f:b": {}}),
        (b'{"f:a":{".":{},"f:b":null}}', {"f:a": {".": {}, "f:b": {}}}),
        (b'{"x:future":{"f:a":{}},"f:a":{}}', {"f:a": {}}),
        (b'{"k:{\\"b\\":1, \\"a\\":2}":{"f:c":{}}}', {'k:{"a":2,"b":1}': {"f:c": {}}}),
    ],
)
def test_decode_normalizes_fields(raw: bytes, kept: Fields) -> None:
    assert sets.decode(raw) == kept
    assert list(sets.decode(raw)) == list(kept)


@pytest.mark.parametrize("raw", [b"", b"[]", b"1", b"{", b'{"bad":{}}', b'{"f:a":1}', b'{"f:a":[]}', b'{"k:x":{}}'])
def test_malformed_fields_are_rejected(raw: bytes) -> None:
    with pytest.raises(BadFields):
        sets.decode(raw)


def test_paths_of_a_level_precede_deeper_paths() -> None:
    fields = sets.from_paths(("f:a",), ("f:a", "f:x"), ("f:b", "f:y"), ("f:c",))
    assert [sets.format_path(path) for path in sets.paths(fields)] == [".a", ".c", ".a.x", ".b.y"]
