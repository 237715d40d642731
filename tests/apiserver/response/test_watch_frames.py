"""Watch events in every form."""

from typing import Any

import msgspec
import pytest

from sampan.api.codec import protobuf
from sampan.apiserver.response.watch_frames import UnsupportedOutputFormat
from sampan.machinery import errors
from tests.apiserver.in_process_server import Asking, asking, run

ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/a/roles"
WATCH = f"{ROLES}?watch=1&resourceVersion=0"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


async def _two(ask: Asking) -> None:
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    for name in ("x", "y"):
        await ask.create(ROLES, {"metadata": {"name": name}, "rules": [rule]})


def _events(raw: bytes) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in raw.splitlines()]


def test_only_the_first_table_names_the_columns() -> None:
    async def check() -> None:
        async with asking() as ask:
            await _two(ask)
            for _ in range(2):  # a second watcher is told them as well
                content_type, raw = await ask.watch(WATCH, 2, accept=TABLE)
                assert content_type == "application/json"
                first, second = (event["object"] for event in _events(raw))
                assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Created At"]
                assert second["columnDefinitions"] is None
                assert [table["rows"][0]["cells"][0] for table in (first, second)] == ["x", "y"]
                assert first["rows"][0]["object"]["kind"] == "PartialObjectMetadata"

    run(check())


@pytest.mark.parametrize(
    ("include", "kind"), [("None", None), ("Object", "Role"), ("Metadata", "PartialObjectMetadata")]
)
def test_tables_carry_what_is_asked_for(include: str, kind: str | None) -> None:
    async def check() -> None:
        async with asking() as ask:
            await _two(ask)
            _, raw = await ask.watch(f"{WATCH}&includeObject={include}", 2, accept=TABLE)
            for event in _events(raw):
                carried = event["object"]["rows"][0]["object"]
                assert (carried and carried["kind"]) == kind

    run(check())


def test_the_end_mark_as_a_table() -> None:
    async def check() -> None:
        async with asking() as ask:
            await _two(ask)
            query = "&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
            _, raw = await ask.watch(WATCH + query, 3, accept=TABLE)
            mark = _events(raw)[-1]
            assert mark["type"] == "BOOKMARK"
            (row,) = mark["object"]["rows"]
            assert row["cells"][0] == ""
            assert row["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    run(check())


def test_metadata_alone() -> None:
    async def check() -> None:
        async with asking() as ask:
            await _two(ask)
            _, raw = await ask.watch(WATCH, 2, accept=PARTIAL)
            for event in _events(raw):
                assert set(event["object"]) == {"kind", "apiVersion", "metadata"}
                assert event["object"]["apiVersion"] == "meta.k8s.io/v1"

    run(check())


def test_protobuf_says_the_same() -> None:
    async def check() -> None:
        async with asking() as ask:
            await _two(ask)
            content_type, raw = await ask.watch(WATCH, 2, accept="application/vnd.kubernetes.protobuf")
            assert content_type == "application/vnd.kubernetes.protobuf;stream=watch"
            assert protobuf.unframe(raw) == _events((await ask.watch(WATCH, 2))[1])

    run(check())


def test_a_watch_ends_with_its_reason_in_its_own_form() -> None:
    async def check() -> None:
        async with asking() as ask:
            for accept in ("", "application/vnd.kubernetes.protobuf", TABLE):
                call = ask.call("GET", WATCH, b"", {"accept": accept})
                response: Any = await ask.pipeline.serve_as(call)
                raw = ask.renderer.frames(response, call).error(errors.expired("too old").status)
                event = protobuf.unframe(raw)[0] if "protobuf" in accept else msgspec.json.decode(raw)
                assert event["type"] == "ERROR"
                assert event["object"]["reason"] == "Expired"

    run(check())


def test_the_form_of_a_list_ends_a_watch_at_its_first_event() -> None:
    async def check() -> None:
        async with asking() as ask:
            await _two(ask)
            await ask.watch(WATCH, 2, accept=PARTIAL.replace("Metadata;", "MetadataList;"))

    with pytest.raises(ExceptionGroup) as caught:
        run(check())
    assert caught.group_contains(UnsupportedOutputFormat)


def test_yaml_and_wrong_wishes_are_refused() -> None:
    async def check() -> None:
        async with asking() as ask:
            for accept, query, message in (
                ("application/yaml", "", "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream"),
                (TABLE, "&includeObject=Part", "Unable to convert to Table as requested"),
            ):
                call = ask.call("GET", WATCH + query, b"", {"accept": accept})
                response: Any = await ask.pipeline.serve_as(call)
                with pytest.raises(errors.ApiError, match=message):
                    ask.renderer.frames(response, call)

    run(check())
