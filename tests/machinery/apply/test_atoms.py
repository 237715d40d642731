"""Merge semantics of schemas, and conversion of field sets to a newer schema."""

from typing import Any

import pytest

from sampan.api.schema import schemas
from sampan.api.schema.tree import from_openapi
from sampan.machinery.apply.atoms import DEDUCED_ATOM, MISSING, UNTYPED_ATOM, Atom, build_atom
from sampan.machinery.apply.field_sets import reconcile_fields, with_named_fields
from tests.machinery.apply.widgets import SPEC, TEXT, keyed_list_schema, record


def find_atom(kind: str, path: str) -> Atom:
    """Return the atom at a path of a built-in kind; `[]` is a list item."""
    atom: Atom | None = build_atom(schemas.definition(kind))
    for step in path.split("."):
        assert atom is not None
        atom = atom.item() if step == "[]" else atom.child(step)
    assert atom is not None
    return atom


POD = "io.k8s.api.core.v1.Pod"


@pytest.mark.parametrize(
    ("kind", "path", "is_leaf", "keys"),
    [
        (POD, "spec.containers", False, ["name"]),
        (POD, "spec.containers.[].ports", False, ["containerPort", "protocol"]),
        (POD, "spec.tolerations", True, []),
        (POD, "metadata.finalizers", False, []),
        (POD, "metadata.ownerReferences", False, ["uid"]),
        (POD, "status.hostIPs", True, []),
        ("io.k8s.api.core.v1.Service", "spec.ports", False, ["port", "protocol"]),
    ],
)
def test_list_types_and_keys_of_built_in_kinds(kind: str, path: str, is_leaf: bool, keys: list[str]) -> None:
    atom = find_atom(kind, path)
    assert atom.is_list
    assert (atom.is_atomic_list, [name for name, _ in atom.keys]) == (is_leaf, keys)


def test_list_map_keys_have_the_published_defaults() -> None:
    assert dict(find_atom(POD, "spec.containers.[].ports").keys) == {"containerPort": 0, "protocol": "TCP"}
    assert dict(find_atom(POD, "spec.imagePullSecrets").keys) == {"name": ""}
    assert dict(build_atom(from_openapi(SPEC["loose"])).keys) == {"a": MISSING, "b": MISSING}


@pytest.mark.parametrize(
    ("kind", "path", "is_leaf"),
    [
        (POD, "spec.nodeSelector", True),
        (POD, "metadata.labels", False),
        ("io.k8s.api.apps.v1.Deployment", "spec.selector", True),
        ("io.k8s.api.core.v1.PersistentVolume", "spec.claimRef", False),
        ("io.k8s.api.core.v1.Pod", "spec.containers.[].env.[].valueFrom.fieldRef", True),
    ],
)
def test_map_types_of_built_in_kinds(kind: str, path: str, is_leaf: bool) -> None:
    assert find_atom(kind, path).is_atomic_map is is_leaf


def test_raw_extension_is_untyped() -> None:
    assert find_atom("io.k8s.api.apps.v1.ControllerRevision", "data") is UNTYPED_ATOM


def test_undeclared_fields_of_open_and_closed_objects() -> None:
    free = build_atom(from_openapi(SPEC["free"]))
    assert free.child("anything") is DEDUCED_ATOM
    assert build_atom(from_openapi({"x-kubernetes-preserve-unknown-fields": True})).form([1]) == "list"
    closed = build_atom(from_openapi(record(a=TEXT)))
    assert closed.child("b") is None
    opened = build_atom(from_openapi({**record(a=record(b=TEXT)), "x-kubernetes-preserve-unknown-fields": True}))
    assert (opened.child("z"), opened.declares("z")) == (DEDUCED_ATOM, False)
    inner = opened.child("a")
    assert inner is not None
    assert inner.child("z") is DEDUCED_ATOM, "fields of objects inside an open object are open too"


def test_embedded_resource_has_metadata() -> None:
    embedded = build_atom(from_openapi({"type": "object", "x-kubernetes-embedded-resource": True}))
    metadata = embedded.child("metadata")
    assert metadata is not None
    assert metadata.declares("labels")


def test_patch_strategy_applies_without_a_list_type() -> None:
    source = {"type": "array", "items": record(n=TEXT), "x-kubernetes-patch-strategy": "merge"}
    assert build_atom(from_openapi({**source, "x-kubernetes-patch-merge-key": "n"})).keys == (("n", MISSING),)
    assert not build_atom(from_openapi(source)).is_atomic_list


@pytest.mark.parametrize(
    ("value", "form"),
    [({}, "map"), ([], "list"), ("x", "scalar"), (1, "scalar"), (None, "map"), (MISSING, "map")],
)
def test_form_of_an_untyped_value_is_deduced(value: Any, form: str) -> None:
    assert DEDUCED_ATOM.form(value) == form


OLDER: dict[str, Any] = {
    "f:list": {'k:{"name":"a"}': {".": {}, "f:name": {}}},
    "f:map": {"f:x": {}},
    "f:same": {'k:{"name":"a"}': {".": {}, "f:deep": {"f:y": {}}}},
    "f:text": {},
    "f:unknown": {"f:z": {}},
}


def test_fields_below_a_newly_atomic_field_become_that_field() -> None:
    atomic = {"x-kubernetes-list-type": "atomic"}
    deep = {**record(y=TEXT), "x-kubernetes-map-type": "atomic"}
    newer = build_atom(
        from_openapi(
            record(
                list={**keyed_list_schema("name", name=TEXT), **atomic},
                map={"type": "object", "additionalProperties": record(x=TEXT), "x-kubernetes-map-type": "atomic"},
                same=keyed_list_schema("name", name=TEXT, deep=deep),
                text=TEXT,
            )
        )
    )
    assert reconcile_fields(OLDER, newer) == {
        "f:list": {},
        "f:map": {},
        "f:same": {'k:{"name":"a"}': {".": {}, "f:deep": {}}},
        "f:text": {},
        "f:unknown": {"f:z": {}},
    }


def test_field_set_that_matches_the_schema_is_returned_unchanged() -> None:
    fits = build_atom(
        from_openapi(record(list=keyed_list_schema("name", name=TEXT), map={"type": "object"}, text=TEXT))
    )
    assert reconcile_fields(OLDER, fits) is OLDER


def test_named_fields_become_members() -> None:
    atom = build_atom(
        from_openapi(record(o=record(a=TEXT), m={"type": "object", "additionalProperties": record(b=TEXT)}))
    )
    assert with_named_fields({"f:m": {"f:k": {"f:b": {}}}, "f:o": {"f:a": {}}}, atom) == {
        "f:m": {".": {}, "f:k": {"f:b": {}}},
        "f:o": {".": {}, "f:a": {}},
    }
