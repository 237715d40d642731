"""Field managers across writes: ownership, resets, malformed entries, and the limit of entries."""

from typing import Any

import msgspec
import pytest

from sampan.api.types.meta_v1 import ManagedFieldsEntry
from sampan.machinery import errors
from sampan.machinery.apply import ExcludedFieldsFilter, IncludedFieldsFilter
from sampan.machinery.apply.managed import differ_in_time_only
from tests.machinery.apply.widgets import (
    BEFORE,
    NOW,
    SPEC,
    TEXT,
    Forms,
    entry,
    kind_schema,
    make_field_manager,
    owned_fields,
    widget,
    with_spec,
)

Entries = list[ManagedFieldsEntry]


def create(value: dict[str, Any], manager: str = "creator") -> Entries:
    return make_field_manager().create(value, [], manager=manager, now=BEFORE)


def update(live: Any, new: Any, kept: Entries, manager: str, sent: Entries | None = None, **options: Any) -> Entries:
    return make_field_manager().update(
        live, new, kept, sent or [], **{"is_reset": False, "manager": manager, "now": NOW, **options}
    )


def apply(live: Any, value: Any, kept: Entries, manager: str = "applier", force: bool = False) -> Any:
    return make_field_manager().apply(live, value, kept, manager=manager, force=force, now=NOW)


def test_creator_owns_the_fields_of_a_new_object() -> None:
    value = with_spec(map={"a": "1"}, set=["x"], ports=[{"port": 80}])
    value["metadata"].update(labels={"l": "1"}, generation=1, uid="u", resourceVersion="5")
    (entry,) = create(value)
    assert msgspec.json.decode(entry.fieldsV1) == {
        "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
        "f:spec": {
            ".": {},
            "f:map": {".": {}, "f:a": {}},
            "f:ports": {".": {}, 'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}},
            "f:set": {".": {}, 'v:"x"': {}},
        },
    }
    assert (entry.manager, entry.operation, entry.apiVersion) == ("creator", "Update", "example.com/v1")
    assert (entry.fieldsType, entry.time, entry.subresource) == ("FieldsV1", BEFORE, "")


def test_object_without_owned_fields_has_no_entry() -> None:
    assert create(widget(metadata={"name": "w", "uid": "u"})) == []


def test_manager_without_a_name_is_unknown() -> None:
    assert create(with_spec(text="a"), "")[0].manager == "unknown"


def test_update_takes_ownership_of_changed_fields() -> None:
    live = with_spec(text="a", number=1)
    after = update(live, with_spec(text="b", number=1), create(live), "other")
    assert owned_fields(after) == {
        "creator": {"f:spec": {".": {}, "f:number": {}}},
        "other": {"f:spec": {"f:text": {}}},
    }
    assert [entry.time for entry in after] == [BEFORE, NOW]


def test_update_with_the_same_value_takes_no_ownership() -> None:
    live = with_spec(text="a")
    kept = create(live)
    assert update(live, live, kept, "other") == kept


def test_removed_field_has_no_owner() -> None:
    live = with_spec(text="a", number=1)
    after = update(live, with_spec(number=1), create(live), "other")
    assert owned_fields(after) == {"creator": {"f:spec": {".": {}, "f:number": {}}}}
    assert after[0].time == BEFORE


def test_manager_without_fields_is_removed() -> None:
    live = widget(metadata={"name": "w", "labels": {"a": "1"}})
    new = widget(metadata={"name": "w", "labels": {"a": "2"}})
    kept = [entry("creator", {"f:metadata": {"f:labels": {"f:a": {}}}})]
    assert owned_fields(update(live, new, kept, "other")) == {"other": {"f:metadata": {"f:labels": {"f:a": {}}}}}


def test_ignored_fields_are_not_owned() -> None:
    fields = make_field_manager(ignored=ExcludedFieldsFilter("status", "metadata.labels"))
    value = widget(metadata={"name": "w", "labels": {"a": "1"}}, spec={"text": "a"}, status={"phase": "x"})
    assert owned_fields(fields.create(value, [], manager="m", now=NOW)) == {"m": {"f:spec": {".": {}, "f:text": {}}}}


def test_only_the_fields_of_a_subresource_are_owned() -> None:
    fields = make_field_manager(ignored=IncludedFieldsFilter("spec.named.*.value"), subresource="sizes")
    live, new = (with_spec(text=str(n), named=[{"name": "a", "value": n}]) for n in (1, 2))
    after = fields.update(live, new, [entry("m", {"f:spec": {"f:text": {}}})], [], is_reset=False, manager="n", now=NOW)
    assert owned_fields(after) == {
        "m": {"f:spec": {"f:text": {}}},
        "n": {"f:spec": {"f:named": {'k:{"name":"a"}': {"f:value": {}}}}},
    }
    assert after[1].subresource == "sizes"


# -- managed fields sent by clients ------------------------------------------------------------------------------------


SENT_ENTRY = entry("client", {"f:spec": {"f:text": {}}}, time=None)


def test_managed_fields_sent_by_a_client_are_stored() -> None:
    live = with_spec(text="a")
    assert update(live, live, create(live), "m", [SENT_ENTRY]) == [SENT_ENTRY]


@pytest.mark.parametrize(
    "broken",
    [
        entry("client", {}, operation="Unknown"),
        msgspec.structs.replace(SENT_ENTRY, apiVersion=""),
        msgspec.structs.replace(SENT_ENTRY, fieldsType=""),
        msgspec.structs.replace(SENT_ENTRY, fieldsType="FieldsV9"),
        entry("client", {"bad": 1}),
    ],
    ids=["unknown operation", "no version", "no fields type", "unknown fields type", "malformed fields"],
)
def test_malformed_managed_fields_are_ignored_on_update_and_rejected_on_apply(broken: ManagedFieldsEntry) -> None:
    live = with_spec(text="a")
    kept = create(live)
    assert update(live, live, kept, "m", [broken]) == kept
    assert update(live, live, [broken], "m") == [], "stored entries are ignored too"
    with pytest.raises(errors.ApiError, match="failed to decode managed fields: "):
        apply(live, live, [broken])


def test_reset_removes_all_owners_until_the_next_apply() -> None:
    live, new = with_spec(text="a"), with_spec(text="b")
    assert update(live, new, create(live), "m", is_reset=True) == []
    assert update(live, new, create(live), "m", [ManagedFieldsEntry()]) == []
    assert update(live, new, [], "m") == []
    value, after = apply(live, with_spec(number=1), [])
    assert value["spec"] == {"text": "a", "number": 1}
    assert owned_fields(after) == {
        "applier": {"f:spec": {"f:number": {}}},
        "before-first-apply": {"f:spec": {".": {}, "f:text": {}}},
    }


def test_subresource_cannot_reset_managed_fields() -> None:
    live = with_spec(text="a")
    kept = create(live)
    fields = make_field_manager(subresource="status", ignored=ExcludedFieldsFilter("spec"))
    assert fields.update(live, live, kept, [SENT_ENTRY], is_reset=True, manager="m", now=NOW) == kept


def test_object_that_does_not_match_the_schema_loses_its_managers() -> None:
    live = with_spec(text="a")
    assert update(live, with_spec(named=[{"value": 1}]), create(live), "m") == []


# -- order, number, time -----------------------------------------------------------------------------------------------


def test_entries_are_sorted_by_operation_time_and_name() -> None:
    fields: dict[str, Any] = {"f:spec": {"f:text": {}}}
    kept = [
        entry("b", fields, time=NOW),
        entry("a", fields, time=NOW, subresource="status"),
        entry("a", fields, time=NOW),
        entry("z", fields, time=BEFORE),
        entry("y", fields, time=None),
        entry("z", fields, operation="Apply", time=NOW),
    ]
    live = with_spec(text="a")
    after = update(live, live, kept, "m")
    assert [(entry.operation, entry.manager, entry.subresource) for entry in after] == [
        ("Apply", "z", ""),
        ("Update", "y", ""),
        ("Update", "z", ""),
        ("Update", "a", ""),
        ("Update", "a", "status"),
        ("Update", "b", ""),
    ]


def test_oldest_updaters_are_merged_into_ancient_changes() -> None:
    live = with_spec(map={f"k{n:02}": "1" for n in range(12)})
    kept = [
        entry("creator", {"f:spec": {"f:map": {f"f:k{n:02}": {}}}}, time=f"2021-01-{n + 1:02}T00:00:00Z")
        for n in range(1)
    ]
    kept += [
        entry(f"m{n:02}", {"f:spec": {"f:map": {f"f:k{n:02}": {}}}}, time=f"2021-01-{n + 1:02}T00:00:00Z")
        for n in range(1, 10)
    ]
    new = with_spec(map={**live["spec"]["map"], "k11": "2"})
    after = update(live, new, kept, "new")
    assert len(after) == 10
    assert owned_fields(after)["ancient-changes"] == {"f:spec": {"f:map": {"f:k00": {}, "f:k01": {}}}}
    assert next(entry.time for entry in after if entry.manager == "ancient-changes") == "2021-01-02T00:00:00Z"
    again = update(new, with_spec(map={**new["spec"]["map"], "k10": "2"}), after, "newer")
    assert owned_fields(again)["ancient-changes"] == {"f:spec": {"f:map": {"f:k00": {}, "f:k01": {}, "f:k02": {}}}}


def test_differ_in_time_only() -> None:
    first, other = entry("m", {"f:a": {}}), entry("m", {"f:a": {}}, time=NOW)
    assert differ_in_time_only([first], [other])
    assert not differ_in_time_only([first], [first])
    assert not differ_in_time_only([first], [entry("n", {"f:a": {}}, time=NOW)])
    assert not differ_in_time_only([first], [first, other])


# -- versions ----------------------------------------------------------------------------------------------------------

RENAMED = {**{name: part for name, part in SPEC.items() if name != "text"}, "title": TEXT}
TWO_VERSIONS = Forms({"v1": kind_schema(**SPEC), "v2": kind_schema(**RENAMED)}, {"v1": "text", "v2": "title"})


def test_update_takes_a_renamed_field_from_a_manager_of_another_version() -> None:
    live, new = with_spec(text="a", number=1), with_spec(text="b", number=1)
    kept = [entry("old", {"f:spec": {"f:number": {}, "f:title": {}}}, version="v2")]
    after = make_field_manager(TWO_VERSIONS).update(live, new, kept, [], is_reset=False, manager="new", now=NOW)
    assert owned_fields(after) == {"old": {"f:spec": {"f:number": {}}}, "new": {"f:spec": {"f:text": {}}}}
    assert [entry.apiVersion for entry in after] == ["example.com/v2", "example.com/v1"]


def test_manager_of_a_removed_version_is_removed() -> None:
    live, new = with_spec(text="a"), with_spec(text="b")
    kept = [entry("old", {"f:spec": {"f:number": {}}}, version="v0")]
    assert list(owned_fields(update(live, new, kept, "new"))) == ["new"]


def test_apply_removes_fields_that_were_owned_in_another_version() -> None:
    live = with_spec(text="a", number=1)
    kept = [entry("applier", {"f:spec": {"f:number": {}, "f:title": {}}}, operation="Apply", version="v2")]
    value, after = make_field_manager(TWO_VERSIONS).apply(
        live, with_spec(number=1), kept, manager="applier", force=False, now=NOW
    )
    assert value is not None
    assert value["spec"] == {"number": 1}
    assert owned_fields(after) == {"applier": {"f:spec": {"f:number": {}}}}


def test_too_deeply_nested_object_has_no_managers_and_cannot_be_applied() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    value = with_spec(free=deep)
    assert create(value) == []
    assert update(with_spec(text="a"), value, create(with_spec(text="a")), "m") == []
    with pytest.raises(errors.BadRequest, match="exceeded max depth"):
        apply(with_spec(text="a"), value, [])


def test_long_set_elements_are_sorted() -> None:
    long = "x" * 1000
    (entry,) = create(with_spec(set=[f"b{long}", f"a{long}"]))
    below = msgspec.json.decode(entry.fieldsV1)["f:spec"]["f:set"]
    assert list(below) == [".", f'v:"a{long}"', f'v:"b{long}"']
