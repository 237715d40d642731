"""Server-side apply: the resulting object, its managers, conflicts, and rejected objects."""

from typing import Any

import pytest

from sampan.api.schema.tree import from_openapi
from sampan.api.types.meta_v1 import ManagedFieldsEntry
from sampan.machinery import errors
from sampan.machinery.apply.applier import remove
from sampan.machinery.apply.atoms import build_atom
from sampan.machinery.apply.field_manager import ANNOTATION
from sampan.machinery.apply.field_sets import claim_fields
from tests.machinery.apply.widgets import BEFORE, NOW, entry, make_field_manager, owned_fields, widget, with_spec

Entries = list[ManagedFieldsEntry]


def apply(live: Any, value: Any, kept: Entries, manager: str = "one", *, force: bool = False) -> tuple[Any, Entries]:
    return make_field_manager().apply(live, value, kept, manager=manager, force=force, now=NOW)


def expect_rejection(live: Any, value: Any, kept: Entries, manager: str = "one") -> errors.ApiError:
    with pytest.raises(errors.ApiError) as caught:
        apply(live, value, kept, manager)
    return caught.value


def applier_entry(name: str, **spec: Any) -> ManagedFieldsEntry:
    return entry(name, {"f:spec": {f"f:{field}": below for field, below in spec.items()}}, operation="Apply")


def test_apply_creates_a_missing_object() -> None:
    value, entries = apply(None, with_spec(text="a", map={}), [])
    assert value == with_spec(text="a", map={})
    assert owned_fields(entries) == {"one": {"f:spec": {"f:map": {}, "f:text": {}}}}
    assert (entries[0].operation, entries[0].time) == ("Apply", NOW)


def test_applying_the_same_object_again_changes_nothing() -> None:
    live = with_spec(text="a")
    kept = [applier_entry("one", text={})]
    assert apply(live, with_spec(text="a"), kept) == (None, kept)


def test_second_owner_of_the_same_value_has_no_timestamp() -> None:
    value, entries = apply(with_spec(text="a"), with_spec(text="a"), [applier_entry("one", text={})], "two")
    assert value is None
    assert [(entry.manager, entry.time) for entry in entries] == [("two", None), ("one", BEFORE)]


def test_fields_no_longer_applied_are_removed_unless_another_manager_owns_them() -> None:
    live = with_spec(text="a", number=1, map={"x": "1", "y": "2"}, flag=True)
    kept = [
        applier_entry("one", flag={}, map={"f:x": {}, "f:y": {}}, number={}, text={}),
        applier_entry("two", number={}),
        entry("three", {"f:spec": {"f:map": {"f:y": {}}}}),
    ]
    value, entries = apply(live, with_spec(text="a"), kept)
    assert value["spec"] == {"text": "a", "number": 1, "map": {"y": "2"}}
    assert owned_fields(entries)["one"] == {"f:spec": {"f:text": {}}}


def test_fields_without_an_owner_are_kept() -> None:
    live = with_spec(map={"mine": "1", "also": "2", "default": "3"}, number=5)
    value, _ = apply(live, with_spec(map={"also": "2"}), [applier_entry("one", map={"f:also": {}, "f:mine": {}})])
    assert value["spec"] == {"map": {"also": "2", "default": "3"}, "number": 5}


def test_fields_without_an_owner_are_removed_with_their_parent() -> None:
    live = with_spec(map={"mine": "1", "default": "2"}, number=5)
    value, _ = apply(live, with_spec(text="a"), [applier_entry("one", map={"f:mine": {}})])
    assert value["spec"] == {"number": 5, "text": "a"}


def test_list_item_is_removed_with_its_fields_without_an_owner() -> None:
    live = with_spec(named=[{"name": "a", "value": 1, "note": "default"}, {"name": "b"}])
    mine: dict[str, Any] = {".": {}, "f:name": {}, "f:value": {}}
    kept = [applier_entry("one", named={'k:{"name":"a"}': mine, 'k:{"name":"b"}': {".": {}, "f:name": {}}})]
    value, _ = apply(live, with_spec(named=[{"name": "b"}]), kept)
    assert value["spec"] == {"named": [{"name": "b"}]}


def test_list_item_is_kept_with_the_fields_of_another_manager() -> None:
    live = with_spec(named=[{"name": "a", "value": 1, "note": "n"}])
    item = 'k:{"name":"a"}'
    kept = [
        applier_entry("one", named={item: {".": {}, "f:name": {}, "f:value": {}}}),
        applier_entry("two", named={item: {".": {}, "f:name": {}, "f:note": {}}}),
    ]
    value, _ = apply(live, with_spec(), kept)
    assert value["spec"] == {"named": [{"name": "a", "note": "n"}]}


def test_manager_without_fields_has_no_entry() -> None:
    value, entries = apply(with_spec(text="a"), widget(metadata={"name": "w"}), [applier_entry("one", text={})])
    assert not value.get("spec")
    assert entries == []


# -- conflicts ---------------------------------------------------------------------------------------------------------


def test_message_of_a_single_conflict() -> None:
    error = expect_rejection(with_spec(text="a"), with_spec(text="b"), [applier_entry("two", text={})])
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == 'Apply failed with 1 conflict: conflict with "two": .spec.text'
    assert error.causes == [{"reason": "FieldManagerConflict", "message": 'conflict with "two"', "field": ".spec.text"}]


def test_message_of_conflicts_with_several_managers() -> None:
    live = with_spec(text="a", number=1, named=[{"name": "x", "value": 1}])
    kept = [
        applier_entry("zed", named={'k:{"name":"x"}': {".": {}, "f:name": {}, "f:value": {}}}),
        entry("up", {"f:spec": {"f:number": {}, "f:text": {}}}),
        entry("part", {"f:spec": {"f:number": {}}}, subresource="status"),
    ]
    error = expect_rejection(live, with_spec(text="b", number=2, named=[{"name": "x", "value": 2}]), kept)
    assert error.message == (
        "Apply failed with 4 conflicts: "
        'conflicts with "part" with subresource "status" using example.com/v1:\n- .spec.number\n'
        'conflicts with "up" using example.com/v1:\n- .spec.number\n- .spec.text\n'
        'conflicts with "zed":\n- .spec.named[name="x"].value'
    )


def test_field_updated_under_the_same_manager_name_is_a_conflict() -> None:
    kept = [entry("one", {"f:spec": {"f:text": {}}})]
    message = expect_rejection(with_spec(text="a"), with_spec(text="b"), kept).message
    assert message.endswith('conflict with "one" using example.com/v1: .spec.text')


def test_force_takes_ownership_of_the_field() -> None:
    kept = [applier_entry("two", number={}, text={})]
    value, entries = apply(with_spec(text="a", number=1), with_spec(text="b"), kept, force=True)
    assert value["spec"] == {"text": "b", "number": 1}
    assert owned_fields(entries) == {"two": {"f:spec": {"f:number": {}}}, "one": {"f:spec": {"f:text": {}}}}


# -- rejections --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        ({}, 400, "invalid object type: /, Kind="),
        ({"apiVersion": "v1", "kind": "Pod"}, 400, "invalid object type: /v1, Kind=Pod"),
        (widget("v2"), 400, "invalid object type: example.com/v2, Kind=Widget"),
        (widget(metadata={"managedFields": []}), 400, "metadata.managedFields must be nil"),
        (
            widget(metadata={"name": "w", "namespace": "n"}, spec={"colour": 1}),
            500,
            "failed to create typed patch object (n/w; example.com/v1, Kind=Widget): "
            ".spec.colour: field not declared in schema",
        ),
    ],
)
def test_invalid_objects_cannot_be_applied(value: dict[str, Any], code: int, text: str) -> None:
    error = expect_rejection(with_spec(text="a"), value, [])
    assert (error.code, error.message) == (code, text)


def test_null_managed_fields_are_accepted() -> None:
    value, _ = apply(None, widget(metadata={"name": "w", "managedFields": None}, spec={"text": "a"}), [])
    assert value["spec"] == {"text": "a"}


# -- from client-side apply --------------------------------------------------------------------------------------------


def client_side_object(**spec: Any) -> tuple[dict[str, Any], Entries]:
    """Return an object as client-side apply leaves it, and its managed fields."""
    text = '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"number":1,"text":"a"}}\n'
    live = widget(metadata={"name": "w", "annotations": {ANNOTATION: text}}, spec={"number": 1, "text": "a", **spec})
    fields = {"f:metadata": {"f:annotations": {f"f:{ANNOTATION}": {}}}, "f:spec": {"f:number": {}, "f:text": {}}}
    return live, [entry("kubectl-client-side-apply", fields)]


def test_kubectl_takes_ownership_of_client_side_applied_fields() -> None:
    live, kept = client_side_object()
    value, entries = apply(live, with_spec(text="b", number=2), kept, "kubectl")
    assert value["spec"] == {"text": "b", "number": 2}
    assert owned_fields(entries)["kubectl"] == {"f:spec": {"f:number": {}, "f:text": {}}}
    assert value["metadata"]["annotations"][ANNOTATION] == (
        '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"number":2,"text":"b"}}\n'
    )


def test_field_changed_since_client_side_apply_is_a_conflict() -> None:
    live, kept = client_side_object(text="changed")
    message = expect_rejection(live, with_spec(text="b", number=2), kept, "kubectl").message
    assert message == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using example.com/v1: .spec.text'
    )


def test_other_managers_do_not_take_client_side_applied_fields() -> None:
    live, kept = client_side_object()
    assert "2 conflicts" in expect_rejection(live, with_spec(text="b", number=2), kept, "other").message
    value, _ = apply(live, with_spec(flag=True), kept, "other")
    assert value["metadata"] == live["metadata"]


def test_last_applied_annotation_is_updated_without_other_changes() -> None:
    live, kept = client_side_object()
    value, _ = apply(live, with_spec(text="a"), kept, "kubectl")
    assert value["spec"] == live["spec"]
    assert '"number"' not in value["metadata"]["annotations"][ANNOTATION]


def test_oversized_last_applied_annotation_is_removed() -> None:
    live, kept = client_side_object()
    value, _ = apply(live, with_spec(text="x" * 300_000), kept, "kubectl", force=True)
    assert value["metadata"]["annotations"] == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"apiVersion":"v1"}', '{"apiVersion":"example.com/v1","x":1}'])
def test_malformed_last_applied_annotation_is_ignored(text: str) -> None:
    live, kept = client_side_object()
    live["metadata"]["annotations"][ANNOTATION] = text
    assert expect_rejection(live, with_spec(text="b"), kept, "kubectl").code == 409


MAP = {"type": "object", "additionalProperties": {"type": "string"}}
LIST = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}


@pytest.mark.parametrize(
    ("schema", "value", "removed", "result"),
    [
        pytest.param(MAP, {"a": "1", "b": "2"}, {"a": "1"}, {"b": "2"}, id="field of a map"),
        pytest.param(MAP, {"a": "1"}, {"a": "1"}, None, id="last field of a map"),
        pytest.param(MAP, {"a": "1"}, {}, {"a": "1"}, id="nothing"),
        pytest.param(MAP, None, {"a": "1"}, None, id="field of a map that is null now"),
        pytest.param(LIST, ["a", "b"], ["a"], ["b"], id="item of a set"),
        pytest.param(LIST, None, ["a"], None, id="item of a set that is null now"),
        pytest.param(
            MAP | {"x-kubernetes-map-type": "atomic"},
            {"a": "1"},
            {"a": "1"},
            None,
            id="field of a map that is atomic now",
        ),
        pytest.param(
            LIST | {"x-kubernetes-list-type": "atomic"}, ["a", "b"], ["a"], None, id="item of a set that is atomic now"
        ),
        pytest.param({"type": "string"}, "text", {"a": "1"}, "text", id="field of a map that is a string now"),
    ],
)
def test_fields_are_removed_from_values(schema: Any, value: Any, removed: Any, result: Any) -> None:
    former = build_atom(from_openapi(LIST if isinstance(removed, list) else MAP))
    fields = claim_fields(removed, former) if removed else {}
    assert remove(value, fields, build_atom(from_openapi(schema))) == result
