"""Managers from write to write: who gets what, what resets and refuses do, and how many are kept."""

from typing import Any

import msgspec
import pytest

from sampan.api.types.meta_v1 import ManagedFieldsEntry
from sampan.machinery import errors
from sampan.machinery.apply import Except, Only
from sampan.machinery.apply.managed import differ_in_time_only
from tests.machinery.apply.widgets import (
    BEFORE,
    NOW,
    SPEC,
    TEXT,
    Forms,
    entry,
    kind_schema,
    managers,
    owned,
    widget,
    with_spec,
)

Entries = list[ManagedFieldsEntry]


def created(value: dict[str, Any], manager: str = "maker") -> Entries:
    return managers().create(value, [], manager=manager, now=BEFORE)


def updated(live: Any, new: Any, kept: Entries, manager: str, sent: Entries | None = None, **more: Any) -> Entries:
    return managers().update(live, new, kept, sent or [], **{"is_reset": False, "manager": manager, "now": NOW, **more})


def applied(live: Any, value: Any, kept: Entries, manager: str = "applier", force: bool = False) -> Any:
    return managers().apply(live, value, kept, manager=manager, force=force, now=NOW)


def test_a_new_object_belongs_to_who_made_it() -> None:
    value = with_spec(map={"a": "1"}, set=["x"], ports=[{"port": 80}])
    value["metadata"].update(labels={"l": "1"}, generation=1, uid="u", resourceVersion="5")
    (entry,) = created(value)
    assert msgspec.json.decode(entry.fieldsV1) == {
        "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
        "f:spec": {
            ".": {},
            "f:map": {".": {}, "f:a": {}},
            "f:ports": {".": {}, 'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}},
            "f:set": {".": {}, 'v:"x"': {}},
        },
    }
    assert (entry.manager, entry.operation, entry.apiVersion) == ("maker", "Update", "example.com/v1")
    assert (entry.fieldsType, entry.time, entry.subresource) == ("FieldsV1", BEFORE, "")


def test_nothing_to_own_makes_no_entry() -> None:
    assert created(widget(metadata={"name": "w", "uid": "u"})) == []


def test_a_client_without_a_name_is_unknown() -> None:
    assert created(with_spec(text="a"), "")[0].manager == "unknown"


def test_who_changes_a_field_takes_it() -> None:
    live = with_spec(text="a", number=1)
    after = updated(live, with_spec(text="b", number=1), created(live), "other")
    assert owned(after) == {"maker": {"f:spec": {".": {}, "f:number": {}}}, "other": {"f:spec": {"f:text": {}}}}
    assert [entry.time for entry in after] == [BEFORE, NOW]


def test_the_same_value_takes_nothing() -> None:
    live = with_spec(text="a")
    kept = created(live)
    assert updated(live, live, kept, "other") == kept


def test_what_is_removed_belongs_to_nobody() -> None:
    live = with_spec(text="a", number=1)
    after = updated(live, with_spec(number=1), created(live), "other")
    assert owned(after) == {"maker": {"f:spec": {".": {}, "f:number": {}}}}
    assert after[0].time == BEFORE


def test_a_manager_with_nothing_left_is_forgotten() -> None:
    live = widget(metadata={"name": "w", "labels": {"a": "1"}})
    new = widget(metadata={"name": "w", "labels": {"a": "2"}})
    kept = [entry("maker", {"f:metadata": {"f:labels": {"f:a": {}}}})]
    assert owned(updated(live, new, kept, "other")) == {"other": {"f:metadata": {"f:labels": {"f:a": {}}}}}


def test_fields_that_the_path_does_not_change_are_not_owned() -> None:
    fields = managers(ignored=Except("status", "metadata.labels"))
    value = widget(metadata={"name": "w", "labels": {"a": "1"}}, spec={"text": "a"}, status={"phase": "x"})
    assert owned(fields.create(value, [], manager="m", now=NOW)) == {"m": {"f:spec": {".": {}, "f:text": {}}}}


def test_only_fields_that_the_path_changes_are_owned() -> None:
    fields = managers(ignored=Only("spec.named.*.value"), subresource="sizes")
    live, new = (with_spec(text=str(n), named=[{"name": "a", "value": n}]) for n in (1, 2))
    after = fields.update(live, new, [entry("m", {"f:spec": {"f:text": {}}})], [], is_reset=False, manager="n", now=NOW)
    assert owned(after) == {
        "m": {"f:spec": {"f:text": {}}},
        "n": {"f:spec": {"f:named": {'k:{"name":"a"}': {"f:value": {}}}}},
    }
    assert after[1].subresource == "sizes"


# -- what clients say of managers --------------------------------------------------------------------------------------


HAND = entry("hand", {"f:spec": {"f:text": {}}}, time=None)


def test_managers_that_a_client_sends_count() -> None:
    live = with_spec(text="a")
    assert updated(live, live, created(live), "m", [HAND]) == [HAND]


@pytest.mark.parametrize(
    "broken",
    [
        entry("hand", {}, operation="Think"),
        msgspec.structs.replace(HAND, apiVersion=""),
        msgspec.structs.replace(HAND, fieldsType=""),
        msgspec.structs.replace(HAND, fieldsType="FieldsV9"),
        entry("hand", {"bad": 1}),
    ],
    ids=["operation", "version", "no type", "type", "fields"],
)
def test_managers_that_make_no_sense_do_not_count(broken: ManagedFieldsEntry) -> None:
    live = with_spec(text="a")
    kept = created(live)
    assert updated(live, live, kept, "m", [broken]) == kept
    assert updated(live, live, [broken], "m") == [], "nor does what is stored"
    with pytest.raises(errors.ApiError, match="failed to decode managed fields: "):
        applied(live, live, [broken])


def test_after_a_reset_nobody_owns_anything_until_somebody_applies() -> None:
    live, new = with_spec(text="a"), with_spec(text="b")
    assert updated(live, new, created(live), "m", is_reset=True) == []
    assert updated(live, new, created(live), "m", [ManagedFieldsEntry()]) == []
    assert updated(live, new, [], "m") == []
    value, after = applied(live, with_spec(number=1), [])
    assert value["spec"] == {"text": "a", "number": 1}
    assert owned(after) == {
        "applier": {"f:spec": {"f:number": {}}},
        "before-first-apply": {"f:spec": {".": {}, "f:text": {}}},
    }


def test_a_part_of_the_object_cannot_reset() -> None:
    live = with_spec(text="a")
    kept = created(live)
    fields = managers(subresource="status", ignored=Except("spec"))
    assert fields.update(live, live, kept, [HAND], is_reset=True, manager="m", now=NOW) == kept


def test_an_object_that_does_not_fit_loses_its_managers() -> None:
    live = with_spec(text="a")
    assert updated(live, with_spec(named=[{"value": 1}]), created(live), "m") == []


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
    after = updated(live, live, kept, "m")
    assert [(entry.operation, entry.manager, entry.subresource) for entry in after] == [
        ("Apply", "z", ""),
        ("Update", "y", ""),
        ("Update", "z", ""),
        ("Update", "a", ""),
        ("Update", "a", "status"),
        ("Update", "b", ""),
    ]


def test_of_many_that_update_the_oldest_become_one() -> None:
    live = with_spec(map={f"k{n:02}": "1" for n in range(12)})
    kept = [
        entry("maker", {"f:spec": {"f:map": {f"f:k{n:02}": {}}}}, time=f"2021-01-{n + 1:02}T00:00:00Z")
        for n in range(1)
    ]
    kept += [
        entry(f"m{n:02}", {"f:spec": {"f:map": {f"f:k{n:02}": {}}}}, time=f"2021-01-{n + 1:02}T00:00:00Z")
        for n in range(1, 10)
    ]
    new = with_spec(map={**live["spec"]["map"], "k11": "2"})
    after = updated(live, new, kept, "new")
    assert len(after) == 10
    assert owned(after)["ancient-changes"] == {"f:spec": {"f:map": {"f:k00": {}, "f:k01": {}}}}
    assert next(entry.time for entry in after if entry.manager == "ancient-changes") == "2021-01-02T00:00:00Z"
    again = updated(new, with_spec(map={**new["spec"]["map"], "k10": "2"}), after, "newer")
    assert owned(again)["ancient-changes"] == {"f:spec": {"f:map": {"f:k00": {}, "f:k01": {}, "f:k02": {}}}}


def test_entries_that_differ_in_time_only() -> None:
    first, other = entry("m", {"f:a": {}}), entry("m", {"f:a": {}}, time=NOW)
    assert differ_in_time_only([first], [other])
    assert not differ_in_time_only([first], [first])
    assert not differ_in_time_only([first], [entry("n", {"f:a": {}}, time=NOW)])
    assert not differ_in_time_only([first], [first, other])


# -- versions ----------------------------------------------------------------------------------------------------------

RENAMED = {**{name: part for name, part in SPEC.items() if name != "text"}, "title": TEXT}
TWO = Forms({"v1": kind_schema(**SPEC), "v2": kind_schema(**RENAMED)}, {"v1": "text", "v2": "title"})


def test_a_manager_of_another_version_loses_what_is_called_otherwise_there() -> None:
    live, new = with_spec(text="a", number=1), with_spec(text="b", number=1)
    kept = [entry("old", {"f:spec": {"f:number": {}, "f:title": {}}}, version="v2")]
    after = managers(TWO).update(live, new, kept, [], is_reset=False, manager="new", now=NOW)
    assert owned(after) == {"old": {"f:spec": {"f:number": {}}}, "new": {"f:spec": {"f:text": {}}}}
    assert [entry.apiVersion for entry in after] == ["example.com/v2", "example.com/v1"]


def test_a_manager_of_a_version_that_is_gone_is_forgotten() -> None:
    live, new = with_spec(text="a"), with_spec(text="b")
    kept = [entry("old", {"f:spec": {"f:number": {}}}, version="v0")]
    assert list(owned(updated(live, new, kept, "new"))) == ["new"]


def test_an_applier_gives_up_fields_of_another_version() -> None:
    live = with_spec(text="a", number=1)
    kept = [entry("applier", {"f:spec": {"f:number": {}, "f:title": {}}}, operation="Apply", version="v2")]
    value, after = managers(TWO).apply(live, with_spec(number=1), kept, manager="applier", force=False, now=NOW)
    assert value is not None
    assert value["spec"] == {"number": 1}
    assert owned(after) == {"applier": {"f:spec": {"f:number": {}}}}


def test_what_is_nested_too_deeply_has_no_managers_and_cannot_be_applied() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    value = with_spec(free=deep)
    assert created(value) == []
    assert updated(with_spec(text="a"), value, created(with_spec(text="a")), "m") == []
    with pytest.raises(errors.BadRequest, match="exceeded max depth"):
        applied(with_spec(text="a"), value, [])


def test_long_elements() -> None:
    long = "x" * 1000
    (entry,) = created(with_spec(set=[f"b{long}", f"a{long}"]))
    below = msgspec.json.decode(entry.fieldsV1)["f:spec"]["f:set"]
    assert list(below) == [".", f'v:"a{long}"', f'v:"b{long}"']
