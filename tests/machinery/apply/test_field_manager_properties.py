"""Properties of field managers for any sequence of writes, and a comparison with a simple model.

The model covers objects that are flat maps: it holds the value and the owners of each key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.meta_v1 import ManagedFieldsEntry
from sampan.machinery import errors
from sampan.machinery.apply import sets
from sampan.machinery.apply.elements import SELF
from sampan.machinery.apply.field_sets import claim_fields, collect_fields
from tests.machinery.apply.widgets import ATOM, NOW, make_field_manager, widget, with_spec

texts = st.sampled_from(["x", "y", "z"])
names = st.sampled_from(["a", "b", "c", "d"])
numbers = st.integers(0, 3)


def leaves(fields: sets.Fields) -> sets.Fields:
    """Return the members that have no members below them."""
    return {element: leaves(below) for element, below in fields.items() if element != SELF}


def unique_lists(items: st.SearchStrategy[Any], *keys: str) -> st.SearchStrategy[list[Any]]:
    return st.lists(items, max_size=4, unique_by=lambda item: tuple(item[key] for key in keys) if keys else item)


free = st.recursive(
    st.one_of(texts, numbers, st.booleans()),
    lambda inner: st.one_of(st.dictionaries(names, inner, max_size=3), st.lists(inner, max_size=2)),
    max_leaves=5,
)
ports = st.fixed_dictionaries({"port": numbers, "protocol": st.sampled_from(["TCP", "UDP"])})
specs = st.fixed_dictionaries(
    {},
    optional={
        "text": texts,
        "number": numbers,
        "plain": st.lists(texts, max_size=2),
        "set": unique_lists(names),
        "named": unique_lists(
            st.fixed_dictionaries({"name": names}, optional={"value": numbers, "note": texts}),
            "name",
        ),
        "ports": unique_lists(
            st.fixed_dictionaries({"port": numbers, "protocol": st.sampled_from(["TCP", "UDP"])}), "port", "protocol"
        ),
        "record": st.fixed_dictionaries({}, optional={"a": texts, "b": numbers}),
        "whole": st.fixed_dictionaries({}, optional={"a": texts, "b": numbers}),
        "map": st.dictionaries(names, texts, max_size=3),
        "free": st.dictionaries(names, free, max_size=3),
    },
)
objects = specs.map(lambda spec: with_spec(**spec))

Entries = list[ManagedFieldsEntry]
FIELDS = make_field_manager()


def apply(live: Any, value: Any, kept: Entries, manager: str, *, force: bool = True) -> tuple[Any, Entries]:
    after, entries = FIELDS.apply(live, value, kept, manager=manager, force=force, now=NOW)
    return live if after is None else after, entries


def tidy(value: Any) -> Any:
    """Return the value without nulls, empty maps and empty lists, which typed objects do not encode."""
    if isinstance(value, dict):
        return {key: kept for key, part in value.items() if (kept := tidy(part)) not in (None, {}, [])}
    return [tidy(part) for part in value] if isinstance(value, list) else value


@given(live=objects, applied=objects)
def test_apply_is_idempotent(live: Any, applied: Any) -> None:
    kept = FIELDS.create(live, [], manager="creator", now=NOW)
    once, entries = apply(live, applied, kept, "one")
    value, again = FIELDS.apply(once, applied, entries, manager="one", force=False, now="2031-01-01T00:00:00Z")
    assert value is None
    assert again == entries


@given(live=objects, applied=objects)
def test_applied_fields_are_present_and_owned(live: Any, applied: Any) -> None:
    value, entries = apply(live, applied, FIELDS.create(live, [], manager="creator", now=NOW), "one")
    owned: Any = next((msgspec.json.decode(e.fieldsV1) for e in entries if e.manager == "one"), {})
    claims = sets.difference(claim_fields(applied, ATOM), sets.from_paths(*IDENTITY))
    assert owned == claims
    existing = collect_fields(value, ATOM)
    assert not sets.difference(leaves(claims), existing)


IDENTITY = [("f:apiVersion",), ("f:kind",), ("f:metadata",), ("f:metadata", "f:name")]


@given(live=objects, applied=objects)
def test_applying_no_fields_restores_the_previous_object(live: Any, applied: Any) -> None:
    kept = FIELDS.create(live, [], manager="creator", now=NOW)
    try:
        value, entries = apply(live, applied, kept, "one", force=False)
    except errors.ApiError:
        return
    restored, after = apply(value, widget(metadata={"name": "w"}), entries, "one")
    assert {entry.manager for entry in after} <= {"creator"}
    assert _sort_lists(tidy(restored)) == _sort_lists(tidy(live))


def _sort_lists(value: Any) -> Any:
    """Return the value with sorted lists: lists of type map or set may come back in another order."""
    if isinstance(value, dict):
        return {key: _sort_lists(part) for key, part in value.items()}
    return sorted(map(_sort_lists, value), key=repr) if isinstance(value, list) else value


@given(objects)
def test_creator_owns_every_leaf(value: Any) -> None:
    entries = FIELDS.create(value, [], manager="creator", now=NOW)
    expected = sets.difference(collect_fields(value, ATOM), sets.from_paths(*IDENTITY))
    expected = {key: below for key, below in expected.items() if key != "."}
    fields = msgspec.json.decode(entries[0].fieldsV1) if entries else {}
    assert not sets.difference(leaves(expected), fields)


@given(st.lists(st.tuples(objects, st.sampled_from(["m1", "m2", "m3"]), st.booleans()), min_size=1, max_size=6))
def test_managers_own_only_existing_fields(writes: list[tuple[Any, str, bool]]) -> None:
    live, kept = writes[0][0], FIELDS.create(writes[0][0], [], manager=writes[0][1], now=NOW)
    for value, manager, is_apply in writes[1:]:
        if is_apply:
            live, kept = apply(live, value, kept, manager)
        else:
            kept = FIELDS.update(live, value, kept, [], is_reset=False, manager=manager, now=NOW)
            live = value
        existing = collect_fields(live, ATOM)
        for entry in kept:
            fields = msgspec.json.decode(entry.fieldsV1)
            assert sets.encode(sets.decode(bytes(entry.fieldsV1))) == bytes(entry.fieldsV1)
            assert fields
            owned_leaves = leaves(fields)
            missing = sets.difference(owned_leaves, existing)
            assert entry.operation == "Apply" or not missing


# -- a model of flat maps ----------------------------------------------------------------------------------------------


@dataclass
class Model:
    values: dict[str, str] = field(default_factory=dict)
    owners: dict[str, set[tuple[str, str]]] = field(default_factory=dict)

    def update(self, labels: dict[str, str], manager: str) -> None:
        for key in {*self.values, *labels}:
            if self.values.get(key) != labels.get(key):
                self.owners[key] = {(manager, "Update")} if key in labels else set()
        self.values = dict(labels)

    def conflicts(self, labels: dict[str, str], manager: str) -> set[str]:
        changed = {key for key, text in labels.items() if key in self.values and self.values[key] != text}
        return {key for key in changed if self.owners.get(key, set()) - {(manager, "Apply")}}

    def apply(self, labels: dict[str, str], manager: str) -> None:
        owner = (manager, "Apply")
        for key in [key for key, owners in self.owners.items() if owner in owners and key not in labels]:
            self.owners[key].discard(owner)
            if not self.owners[key]:
                self.values.pop(key, None)
        for key, text in labels.items():
            same = self.values.get(key) == text
            self.owners[key] = {owner} | (self.owners.get(key, set()) if same else set())
            self.values[key] = text


labels = st.dictionaries(names, texts, max_size=4)
writes = st.tuples(st.sampled_from(["update", "apply", "force"]), labels, st.sampled_from(["m1", "m2", "m3"]))


@given(st.lists(writes, max_size=10))
def test_owners_of_labels_match_the_model(sequence: list[tuple[str, dict[str, str], str]]) -> None:
    model = Model()
    live = widget(metadata={"name": "w", "uid": "u", "labels": {"keep": "x"}})
    kept = FIELDS.create(live, [], manager="creator", now=NOW)
    model.update({"keep": "x"}, "creator")
    for kind, labels, manager in sequence:
        if kind == "update":
            labels = {"keep": "x", **labels}
            value = widget(metadata={"name": "w", "uid": "u", "labels": labels})
            kept = FIELDS.update(live, value, kept, [], is_reset=False, manager=manager, now=NOW)
            live = value
            model.update(labels, manager)
            continue
        value = widget(metadata={"name": "w", "labels": labels})
        conflicts = model.conflicts(labels, manager)
        if conflicts and kind == "apply":
            with pytest.raises(errors.ApiError) as caught:
                apply(live, value, kept, manager, force=False)
            conflicting = {cause["field"].removeprefix(".metadata.labels.") for cause in caught.value.causes}
            assert conflicting == conflicts
            continue
        live, kept = apply(live, value, kept, manager, force=kind == "force")
        model.apply(labels, manager)
        assert live["metadata"]["labels"] == model.values
    assert _owners(kept) == {key: owners for key, owners in model.owners.items() if owners}


def _owners(entries: Entries) -> dict[str, set[tuple[str, str]]]:
    out: dict[str, set[tuple[str, str]]] = {}
    for entry in entries:
        below = msgspec.json.decode(entry.fieldsV1).get("f:metadata", {}).get("f:labels", {})
        for element in below:
            if element != ".":
                out.setdefault(element.removeprefix("f:"), set()).add((entry.manager, entry.operation))
    return out
