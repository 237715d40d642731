"""Tables: ages, cells, columns, rows."""

from typing import Any

import pytest

from sampan.api.resources.resource import GroupVersionKind
from sampan.api.types.core_v1 import ConfigMap
from sampan.api.types.meta_v1 import LabelSelector, LabelSelectorRequirement, ObjectMeta
from sampan.api.values import ages, times
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.strategy import Column, Strategy
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME, definitions
from tests.apiserver.in_process_server import Asking, asking, run

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
CONFIGMAPS = "/api/v1/namespaces/a/configmaps"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "<invalid>"),
        (-1.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (310, "5m10s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 1260, "3h21m"),
        (8 * 3600 + 1260, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (52 * 3600, "2d4h"),
        (8 * 86400 + 3600, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (800 * 86400, "2y70d"),
        (8 * 365 * 86400, "8y"),
    ],
)
def test_an_age_is_shown_in_its_largest_units(seconds: float, text: str) -> None:
    assert ages.human(seconds) == text


def test_age_of_an_object() -> None:
    now = times.parse_time("2026-01-01T00:01:00Z")
    obj = ConfigMap(metadata=ObjectMeta(name="a", creationTimestamp="2026-01-01T00:00:00Z"))
    assert (cells.name(obj, now), cells.age(obj, now), cells.created_at(obj, now)) == (
        "a",
        "60s",
        "2026-01-01T00:00:00Z",
    )
    assert cells.age(ConfigMap(), now) == "<unknown>"


def test_labels_and_selectors_are_shown_as_expressions() -> None:
    assert cells.pairs({"b": "2", "a": "1"}) == "a=1,b=2"
    assert cells.pairs({}) == cells.pairs(None) == cells.selector(None) == cells.selector(LabelSelector()) == "<none>"
    some = LabelSelectorRequirement(key="k", operator="In", values=["y", "x"])
    assert cells.selector(LabelSelector(matchLabels={"a": "1"}, matchExpressions=[some])) == "a=1,k in (x,y)"
    odd = LabelSelectorRequirement(key="k", operator="Odd")
    assert cells.selector(LabelSelector(matchExpressions=[odd])) == "<error>"


def test_definitions_name_type_and_priority() -> None:
    wide = Column("Size", lambda obj, now: 1, type="integer", wide=True, description="How large it is.")
    kind = GroupVersionKind(group="", version="v1", kind="ConfigMap")
    assert b'"name":"Size","type":"integer","format":"","description":"How large it is.","priority":1' in definitions(
        [NAME, wide], kind
    )


def _rows(reply: Any) -> list[list[Any]]:
    return [row["cells"] for row in reply["rows"]]


async def _two(ask: Asking) -> None:
    for name in ("x", "y"):
        await ask.create(CONFIGMAPS, {"metadata": {"name": name, "labels": {"l": name}}, "data": {"k": "v"}})


def test_a_kind_without_columns_has_name_and_creation_time() -> None:
    async def check() -> None:
        async with asking() as ask:
            ask.registry.set_behaviour(_configmaps(ask), ResourceBehaviour())
            empty = (await ask.get(CONFIGMAPS, accept=TABLE)).json
            assert empty["rows"] is None
            await _two(ask)
            document = (await ask.get(CONFIGMAPS, accept=TABLE)).json
            assert [column["name"] for column in document["columnDefinitions"]] == ["Name", "Created At"]
            created = times.format_time(ask.server.clock.now())
            assert _rows(document) == [["x", created], ["y", created]]
            assert document["metadata"] == (await ask.get(CONFIGMAPS)).json["metadata"]

    run(check())


class _Own(Strategy):
    columns = (NAME, Column("Data", lambda obj, now: len(obj.data), type="integer"), AGE)


def _configmaps(ask: Asking) -> Any:
    return ask.registry.scheme.resource("", "v1", "configmaps")


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        ("", {"kind", "apiVersion", "metadata"}),
        ("Metadata", {"kind", "apiVersion", "metadata"}),
        ("Object", {"kind", "apiVersion", "metadata", "data"}),
        ("None", None),
    ],
)
def test_rows_carry_what_is_asked_for(include: str, expected: set[str] | None) -> None:
    async def check() -> None:
        async with asking() as ask:
            ask.registry.set_behaviour(_configmaps(ask), ResourceBehaviour(strategy=_Own()))
            assert (await ask.get(CONFIGMAPS, accept=TABLE)).json["rows"] == []
            await _two(ask)
            for path in (CONFIGMAPS, f"{CONFIGMAPS}/x"):
                document = (await ask.get(f"{path}?includeObject={include}", accept=TABLE)).json
                assert (document["kind"], document["apiVersion"]) == ("Table", "meta.k8s.io/v1")
                assert _rows(document)[0] == ["x", 1, "0s"]
                carried = document["rows"][0]["object"]
                assert (carried and set(carried)) == expected
                if expected:
                    assert carried["metadata"]["labels"] == {"l": "x"}
                    assert carried["kind"] == ("ConfigMap" if include == "Object" else "PartialObjectMetadata")

    run(check())


def test_a_page_of_a_table_and_the_older_version() -> None:
    async def check() -> None:
        async with asking() as ask:
            await _two(ask)
            document = (await ask.get(f"{CONFIGMAPS}?limit=1", accept=TABLE.replace("v=v1;", "v=v1beta1;"))).json
            assert document["apiVersion"] == document["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1beta1"
            assert document["metadata"]["remainingItemCount"] == 1
            assert document["metadata"]["continue"]

    run(check())


def test_tables_answer_writes_too_and_failures_stay_statuses() -> None:
    async def check() -> None:
        async with asking() as ask:
            reply = await ask.create(CONFIGMAPS, {"metadata": {"name": "x"}}, accept=TABLE)
            assert reply.json["kind"] == "Table"
            version = (await ask.get(f"{CONFIGMAPS}/x")).json["metadata"]["resourceVersion"]
            assert reply.json["metadata"] == {"resourceVersion": version}
            missing = await ask.get(f"{CONFIGMAPS}/none", accept=TABLE)
            assert (missing.code, missing.json["kind"]) == (404, "Status")
            wrong = await ask.get(f"{CONFIGMAPS}?includeObject=Some", accept=TABLE)
            assert wrong.json["message"] == (
                'Unable to convert to Table as requested: includeObject: Invalid value: "Some": '
                "must be 'Metadata', 'Object', 'None', or empty"
            )
            assert (await ask.get(f"{CONFIGMAPS}?includeObject=Some")).code == 200

    run(check())


def test_a_table_as_yaml() -> None:
    async def check() -> None:
        async with asking() as ask:
            await _two(ask)
            reply = await ask.get(f"{CONFIGMAPS}/x", accept=TABLE.replace("json", "yaml"))
            assert reply.content_type == "application/yaml"
            assert b"kind: Table\n" in reply.body

    run(check())
