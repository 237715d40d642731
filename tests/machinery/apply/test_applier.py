"""Server-side apply: what it makes of an object, and what it refuses."""

from typing import Any

import pytest

from sampan.api.types.meta_v1 import ManagedFieldsEntry
from sampan.machinery import errors
from sampan.machinery.apply.field_manager import ANNOTATION
from tests.machinery.apply.widgets import BEFORE, NOW, entry, managers, owned, widget, with_spec

Entries = list[ManagedFieldsEntry]


def apply(live: Any, value: Any, kept: Entries, manager: str = "one", *, force: bool = False) -> tuple[Any, Entries]:
    return managers().apply(live, value, kept, manager=manager, force=force, now=NOW)


def refused(live: Any, value: Any, kept: Entries, manager: str = "one") -> errors.ApiError:
    with pytest.raises(errors.ApiError) as caught:
        apply(live, value, kept, manager)
    return caught.value


def applier(name: str, **spec: Any) -> ManagedFieldsEntry:
    return entry(name, {"f:spec": {f"f:{field}": below for field, below in spec.items()}}, operation="Apply")


def test_where_there_is_none_the_applied_object_is_made() -> None:
    value, entries = apply(None, with_spec(text="a", map={}), [])
    assert value == with_spec(text="a", map={})
    assert owned(entries) == {"one": {"f:spec": {"f:map": {}, "f:text": {}}}}
    assert (entries[0].operation, entries[0].time) == ("Apply", NOW)


def test_the_same_again_changes_nothing() -> None:
    live = with_spec(text="a")
    kept = [applier("one", text={})]
    assert apply(live, with_spec(text="a"), kept) == (None, kept)


def test_a_second_owner_of_the_same_value_gets_no_time_as_nothing_changes() -> None:
    value, entries = apply(with_spec(text="a"), with_spec(text="a"), [applier("one", text={})], "two")
    assert value is None
    assert [(entry.manager, entry.time) for entry in entries] == [("two", None), ("one", BEFORE)]


def test_what_is_given_up_goes_unless_somebody_else_has_it() -> None:
    live = with_spec(text="a", number=1, map={"x": "1", "y": "2"}, flag=True)
    kept = [
        applier("one", flag={}, map={"f:x": {}, "f:y": {}}, number={}, text={}),
        applier("two", number={}),
        entry("three", {"f:spec": {"f:map": {"f:y": {}}}}),
    ]
    value, entries = apply(live, with_spec(text="a"), kept)
    assert value["spec"] == {"text": "a", "number": 1, "map": {"y": "2"}}
    assert owned(entries)["one"] == {"f:spec": {"f:text": {}}}


def test_what_nobody_owns_stays() -> None:
    live = with_spec(map={"mine": "1", "also": "2", "default": "3"}, number=5)
    value, _ = apply(live, with_spec(map={"also": "2"}), [applier("one", map={"f:also": {}, "f:mine": {}})])
    assert value["spec"] == {"map": {"also": "2", "default": "3"}, "number": 5}


def test_what_nobody_owns_goes_with_the_field_that_holds_it() -> None:
    live = with_spec(map={"mine": "1", "default": "2"}, number=5)
    value, _ = apply(live, with_spec(text="a"), [applier("one", map={"f:mine": {}})])
    assert value["spec"] == {"number": 5, "text": "a"}


def test_an_item_goes_with_all_that_nobody_owns_in_it() -> None:
    live = with_spec(named=[{"name": "a", "value": 1, "note": "default"}, {"name": "b"}])
    mine: dict[str, Any] = {".": {}, "f:name": {}, "f:value": {}}
    kept = [applier("one", named={'k:{"name":"a"}': mine, 'k:{"name":"b"}': {".": {}, "f:name": {}}})]
    value, _ = apply(live, with_spec(named=[{"name": "b"}]), kept)
    assert value["spec"] == {"named": [{"name": "b"}]}


def test_an_item_stays_with_what_another_owns_in_it() -> None:
    live = with_spec(named=[{"name": "a", "value": 1, "note": "n"}])
    item = 'k:{"name":"a"}'
    kept = [
        applier("one", named={item: {".": {}, "f:name": {}, "f:value": {}}}),
        applier("two", named={item: {".": {}, "f:name": {}, "f:note": {}}}),
    ]
    value, _ = apply(live, with_spec(), kept)
    assert value["spec"] == {"named": [{"name": "a", "note": "n"}]}


def test_giving_up_everything_ends_the_manager() -> None:
    value, entries = apply(with_spec(text="a"), widget(metadata={"name": "w"}), [applier("one", text={})])
    assert not value.get("spec")
    assert entries == []


# -- conflicts ---------------------------------------------------------------------------------------------------------


def test_one_conflict() -> None:
    error = refused(with_spec(text="a"), with_spec(text="b"), [applier("two", text={})])
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == 'Apply failed with 1 conflict: conflict with "two": .spec.text'
    assert error.causes == [{"reason": "FieldManagerConflict", "message": 'conflict with "two"', "field": ".spec.text"}]


def test_conflicts_with_several() -> None:
    live = with_spec(text="a", number=1, named=[{"name": "x", "value": 1}])
    kept = [
        applier("zed", named={'k:{"name":"x"}': {".": {}, "f:name": {}, "f:value": {}}}),
        entry("up", {"f:spec": {"f:number": {}, "f:text": {}}}),
        entry("part", {"f:spec": {"f:number": {}}}, subresource="status"),
    ]
    error = refused(live, with_spec(text="b", number=2, named=[{"name": "x", "value": 2}]), kept)
    assert error.message == (
        "Apply failed with 4 conflicts: "
        'conflicts with "part" with subresource "status" using example.com/v1:\n- .spec.number\n'
        'conflicts with "up" using example.com/v1:\n- .spec.number\n- .spec.text\n'
        'conflicts with "zed":\n- .spec.named[name="x"].value'
    )


def test_the_same_name_is_another_manager_where_it_updates() -> None:
    kept = [entry("one", {"f:spec": {"f:text": {}}})]
    message = refused(with_spec(text="a"), with_spec(text="b"), kept).message
    assert message.endswith('conflict with "one" using example.com/v1: .spec.text')


def test_force_takes_the_field() -> None:
    kept = [applier("two", number={}, text={})]
    value, entries = apply(with_spec(text="a", number=1), with_spec(text="b"), kept, force=True)
    assert value["spec"] == {"text": "b", "number": 1}
    assert owned(entries) == {"two": {"f:spec": {"f:number": {}}}, "one": {"f:spec": {"f:text": {}}}}


# -- refusals ----------------------------------------------------------------------------------------------------------


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
def test_what_cannot_be_applied(value: dict[str, Any], code: int, text: str) -> None:
    error = refused(with_spec(text="a"), value, [])
    assert (error.code, error.message) == (code, text)


def test_null_managers_are_none() -> None:
    value, _ = apply(None, widget(metadata={"name": "w", "managedFields": None}, spec={"text": "a"}), [])
    assert value["spec"] == {"text": "a"}


# -- from client-side apply --------------------------------------------------------------------------------------------


def client_side(**spec: Any) -> tuple[dict[str, Any], Entries]:
    """An object as client-side apply leaves it."""
    text = '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"number":1,"text":"a"}}\n'
    live = widget(metadata={"name": "w", "annotations": {ANNOTATION: text}}, spec={"number": 1, "text": "a", **spec})
    fields = {"f:metadata": {"f:annotations": {f"f:{ANNOTATION}": {}}}, "f:spec": {"f:number": {}, "f:text": {}}}
    return live, [entry("kubectl-client-side-apply", fields)]


def test_kubectl_takes_over_what_it_applied_from_the_client() -> None:
    live, kept = client_side()
    value, entries = apply(live, with_spec(text="b", number=2), kept, "kubectl")
    assert value["spec"] == {"text": "b", "number": 2}
    assert owned(entries)["kubectl"] == {"f:spec": {"f:number": {}, "f:text": {}}}
    assert value["metadata"]["annotations"][ANNOTATION] == (
        '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"number":2,"text":"b"}}\n'
    )


def test_what_was_changed_since_is_a_conflict_still() -> None:
    live, kept = client_side(text="changed")
    message = refused(live, with_spec(text="b", number=2), kept, "kubectl").message
    assert message == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using example.com/v1: .spec.text'
    )


def test_another_name_takes_nothing_over() -> None:
    live, kept = client_side()
    assert "2 conflicts" in refused(live, with_spec(text="b", number=2), kept, "other").message
    value, _ = apply(live, with_spec(flag=True), kept, "other")
    assert value["metadata"] == live["metadata"]


def test_the_annotation_is_renewed_even_if_nothing_else_changes() -> None:
    live, kept = client_side()
    value, _ = apply(live, with_spec(text="a"), kept, "kubectl")
    assert value["spec"] == live["spec"]
    assert '"number"' not in value["metadata"]["annotations"][ANNOTATION]


def test_too_large_an_annotation_goes() -> None:
    live, kept = client_side()
    value, _ = apply(live, with_spec(text="x" * 300_000), kept, "kubectl", force=True)
    assert value["metadata"]["annotations"] == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"apiVersion":"v1"}', '{"apiVersion":"example.com/v1","x":1}'])
def test_an_annotation_that_makes_no_sense_allows_nothing(text: str) -> None:
    live, kept = client_side()
    live["metadata"]["annotations"][ANNOTATION] = text
    assert refused(live, with_spec(text="b"), kept, "kubectl").code == 409
