"""Tables: ages, cells, columns, and rows."""

from typing import Any

import pytest

from sampan.api.resources.resource import GroupVersionKind
from sampan.api.types.core_v1 import ConfigMap
from sampan.api.types.meta_v1 import LabelSelector, LabelSelectorRequirement, ObjectMeta
from sampan.api.values import ages, times
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Strategy
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME, definitions
from tests.apiserver.in_process_server import InProcessClient, in_process_client, run

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
    assert ages.format_age(seconds) == text


def test_name_age_and_creation_time_cells_of_an_object() -> None:
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
    requirement = LabelSelectorRequirement(key="k", operator="In", values=["y", "x"])
    assert cells.selector(LabelSelector(matchLabels={"a": "1"}, matchExpressions=[requirement])) == "a=1,k in (x,y)"
    invalid = LabelSelectorRequirement(key="k", operator="Odd")
    assert cells.selector(LabelSelector(matchExpressions=[invalid])) == "<error>"


def test_column_definitions_have_type_description_and_priority() -> None:
    wide = Column("Size", lambda obj, now: 1, type="integer", wide=True, description="How large it is.")
    kind = GroupVersionKind(group="", version="v1", kind="ConfigMap")
    assert b'"name":"Size","type":"integer","format":"","description":"How large it is.","priority":1' in definitions(
        [NAME, wide], kind
    )


def _rows(reply: Any) -> list[list[Any]]:
    return [row["cells"] for row in reply["rows"]]


async def _create_configmaps(client: InProcessClient) -> None:
    for name in ("x", "y"):
        await client.create(CONFIGMAPS, {"metadata": {"name": name, "labels": {"l": name}}, "data": {"k": "v"}})


def test_a_kind_without_columns_has_name_and_creation_time() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            client.registry.set_behavior(_configmaps(client), ResourceBehavior())
            empty = (await client.get(CONFIGMAPS, accept=TABLE)).json
            assert empty["rows"] is None
            await _create_configmaps(client)
            document = (await client.get(CONFIGMAPS, accept=TABLE)).json
            assert [column["name"] for column in document["columnDefinitions"]] == ["Name", "Created At"]
            created = times.format_time(client.server.clock.now())
            assert _rows(document) == [["x", created], ["y", created]]
            assert document["metadata"] == (await client.get(CONFIGMAPS)).json["metadata"]

    run(check())


class _StrategyWithColumns(Strategy):
    columns = (NAME, Column("Data", lambda obj, now: len(obj.data), type="integer"), AGE)


def _configmaps(client: InProcessClient) -> Any:
    return client.registry.scheme.resource("", "v1", "configmaps")


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        ("", {"kind", "apiVersion", "metadata"}),
        ("Metadata", {"kind", "apiVersion", "metadata"}),
        ("Object", {"kind", "apiVersion", "metadata", "data"}),
        ("None", None),
    ],
)
def test_include_object_selects_the_object_in_rows(include: str, expected: set[str] | None) -> None:
    async def check() -> None:
        async with in_process_client() as client:
            client.registry.set_behavior(_configmaps(client), ResourceBehavior(strategy=_StrategyWithColumns()))
            assert (await client.get(CONFIGMAPS, accept=TABLE)).json["rows"] == []
            await _create_configmaps(client)
            for path in (CONFIGMAPS, f"{CONFIGMAPS}/x"):
                document = (await client.get(f"{path}?includeObject={include}", accept=TABLE)).json
                assert (document["kind"], document["apiVersion"]) == ("Table", "meta.k8s.io/v1")
                assert _rows(document)[0] == ["x", 1, "0s"]
                row_object = document["rows"][0]["object"]
                assert (row_object and set(row_object)) == expected
                if expected:
                    assert row_object["metadata"]["labels"] == {"l": "x"}
                    assert row_object["kind"] == ("ConfigMap" if include == "Object" else "PartialObjectMetadata")

    run(check())


def test_v1beta1_table_with_a_limit_has_continue_and_remaining_item_count() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            await _create_configmaps(client)
            document = (await client.get(f"{CONFIGMAPS}?limit=1", accept=TABLE.replace("v=v1;", "v=v1beta1;"))).json
            assert document["apiVersion"] == document["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1beta1"
            assert document["metadata"]["remainingItemCount"] == 1
            assert document["metadata"]["continue"]

    run(check())


def test_writes_return_tables_and_errors_return_statuses() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            reply = await client.create(CONFIGMAPS, {"metadata": {"name": "x"}}, accept=TABLE)
            assert reply.json["kind"] == "Table"
            version = (await client.get(f"{CONFIGMAPS}/x")).json["metadata"]["resourceVersion"]
            assert reply.json["metadata"] == {"resourceVersion": version}
            missing = await client.get(f"{CONFIGMAPS}/none", accept=TABLE)
            assert (missing.code, missing.json["kind"]) == (404, "Status")
            wrong = await client.get(f"{CONFIGMAPS}?includeObject=Some", accept=TABLE)
            assert wrong.json["message"] == (
                'Unable to convert to Table as requested: includeObject: Invalid value: "Some": '
                "must be 'Metadata', 'Object', 'None', or empty"
            )
            assert (await client.get(f"{CONFIGMAPS}?includeObject=Some")).code == 200

    run(check())


def test_a_table_as_yaml() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            await _create_configmaps(client)
            reply = await client.get(f"{CONFIGMAPS}/x", accept=TABLE.replace("json", "yaml"))
            assert reply.content_type == "application/yaml"
            assert b"kind: Table\n" in reply.body

    run(check())
