"""What holds for any writes, and a model so plain that it cannot be wrong in the same way.

The model is for objects that are flat maps: of each key it knows the value and who owns it.
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
from sampan.machinery.apply.field_sets import claimed, whole
from tests.machinery.apply.widgets import ATOM, NOW, managers, widget, with_spec

texts = st.sampled_from(["x", "y", "z"])
names = st.sampled_from(["a", "b", "c", "d"])
numbers = st.integers(0, 3)


def leaves(fields: sets.Fields) -> sets.Fields:
    """The members that have no members below."""
    return {element: leaves(below) for element, below in fields.items() if element != SELF}


def unique(items: st.SearchStrategy[Any], *keys: str) -> st.SearchStrategy[list[Any]]:
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
        "set": unique(names),
        "named": unique(
            st.fixed_dictionaries({"name": names}, optional={"value": numbers, "note": texts}),
            "name",
        ),
        "ports": unique(
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
FIELDS = managers()


def apply(live: Any, value: Any, kept: Entries, manager: str, *, force: bool = True) -> tuple[Any, Entries]:
    after, entries = FIELDS.apply(live, value, kept, manager=manager, force=force, now=NOW)
    return live if after is None else after, entries


def tidy(value: Any) -> Any:
    """Without nulls and empty maps and lists, which a typed object does not print."""
    if isinstance(value, dict):
        return {key: kept for key, part in value.items() if (kept := tidy(part)) not in (None, {}, [])}
    return [tidy(part) for part in value] if isinstance(value, list) else value


@given(live=objects, applied=objects)
def test_applying_twice_is_applying_once(live: Any, applied: Any) -> None:
    kept = FIELDS.create(live, [], manager="maker", now=NOW)
    once, entries = apply(live, applied, kept, "one")
    value, again = FIELDS.apply(once, applied, entries, manager="one", force=False, now="2031-01-01T00:00:00Z")
    assert value is None
    assert again == entries


@given(live=objects, applied=objects)
def test_what_was_applied_is_there(live: Any, applied: Any) -> None:
    value, entries = apply(live, applied, FIELDS.create(live, [], manager="maker", now=NOW), "one")
    mine: Any = next((msgspec.json.decode(e.fieldsV1) for e in entries if e.manager == "one"), {})
    claims = sets.difference(claimed(applied, ATOM), sets.of(*IDENTITY))
    assert mine == claims
    there = whole(value, ATOM)
    assert not sets.difference(leaves(claims), there)


IDENTITY = [("f:apiVersion",), ("f:kind",), ("f:metadata",), ("f:metadata", "f:name")]


@given(live=objects, applied=objects)
def test_giving_up_what_was_new_returns_to_the_base(live: Any, applied: Any) -> None:
    kept = FIELDS.create(live, [], manager="maker", now=NOW)
    try:
        value, entries = apply(live, applied, kept, "one", force=False)
    except errors.ApiError:
        return
    back, after = apply(value, widget(metadata={"name": "w"}), entries, "one")
    assert {entry.manager for entry in after} <= {"maker"}
    assert _unordered(tidy(back)) == _unordered(tidy(live))


def _unordered(value: Any) -> Any:
    """Lists that are maps or sets come back in another order."""
    if isinstance(value, dict):
        return {key: _unordered(part) for key, part in value.items()}
    return sorted(map(_unordered, value), key=repr) if isinstance(value, list) else value


@given(objects)
def test_the_maker_owns_every_leaf(value: Any) -> None:
    entries = FIELDS.create(value, [], manager="maker", now=NOW)
    expected = sets.difference(whole(value, ATOM), sets.of(*IDENTITY))
    expected = {key: below for key, below in expected.items() if key != "."}
    fields = msgspec.json.decode(entries[0].fieldsV1) if entries else {}
    assert not sets.difference(leaves(expected), fields)


@given(st.lists(st.tuples(objects, st.sampled_from(["m1", "m2", "m3"]), st.booleans()), min_size=1, max_size=6))
def test_managers_own_only_what_is_there(writes: list[tuple[Any, str, bool]]) -> None:
    live, kept = writes[0][0], FIELDS.create(writes[0][0], [], manager=writes[0][1], now=NOW)
    for value, manager, is_apply in writes[1:]:
        if is_apply:
            live, kept = apply(live, value, kept, manager)
        else:
            kept = FIELDS.update(live, value, kept, [], is_reset=False, manager=manager, now=NOW)
            live = value
        there = whole(live, ATOM)
        for entry in kept:
            fields = msgspec.json.decode(entry.fieldsV1)
            assert sets.encode(sets.decode(bytes(entry.fieldsV1))) == bytes(entry.fieldsV1)
            assert fields
            owned_leaves = leaves(fields)
            gone = sets.difference(owned_leaves, there)
            assert entry.operation == "Apply" or not gone


# -- a model of flat maps ----------------------------------------------------------------------------------------------


@dataclass
class Model:
    values: dict[str, str] = field(default_factory=dict)
    owners: dict[str, set[tuple[str, str]]] = field(default_factory=dict)

    def update(self, labels: dict[str, str], who: str) -> None:
        for key in {*self.values, *labels}:
            if self.values.get(key) != labels.get(key):
                self.owners[key] = {(who, "Update")} if key in labels else set()
        self.values = dict(labels)

    def conflicts(self, labels: dict[str, str], who: str) -> set[str]:
        changed = {key for key, text in labels.items() if key in self.values and self.values[key] != text}
        return {key for key in changed if self.owners.get(key, set()) - {(who, "Apply")}}

    def apply(self, labels: dict[str, str], who: str) -> None:
        me = (who, "Apply")
        for key in [key for key, owners in self.owners.items() if me in owners and key not in labels]:
            self.owners[key].discard(me)
            if not self.owners[key]:
                self.values.pop(key, None)
        for key, text in labels.items():
            same = self.values.get(key) == text
            self.owners[key] = {me} | (self.owners.get(key, set()) if same else set())
            self.values[key] = text


labels = st.dictionaries(names, texts, max_size=4)
writes = st.tuples(st.sampled_from(["update", "apply", "force"]), labels, st.sampled_from(["m1", "m2", "m3"]))


@given(st.lists(writes, max_size=10))
def test_labels_as_the_model_has_them(sequence: list[tuple[str, dict[str, str], str]]) -> None:
    model = Model()
    live = widget(metadata={"name": "w", "uid": "u", "labels": {"keep": "x"}})
    kept = FIELDS.create(live, [], manager="maker", now=NOW)
    model.update({"keep": "x"}, "maker")
    for kind, labels, who in sequence:
        if kind == "update":
            labels = {"keep": "x", **labels}
            value = widget(metadata={"name": "w", "uid": "u", "labels": labels})
            kept = FIELDS.update(live, value, kept, [], is_reset=False, manager=who, now=NOW)
            live = value
            model.update(labels, who)
            continue
        value = widget(metadata={"name": "w", "labels": labels})
        conflicts = model.conflicts(labels, who)
        if conflicts and kind == "apply":
            with pytest.raises(errors.ApiError) as caught:
                apply(live, value, kept, who, force=False)
            conflicting = {cause["field"].removeprefix(".metadata.labels.") for cause in caught.value.causes}
            assert conflicting == conflicts
            continue
        live, kept = apply(live, value, kept, who, force=kind == "force")
        model.apply(labels, who)
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
