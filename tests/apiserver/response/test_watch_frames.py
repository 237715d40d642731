"""Watch events in every output format."""

from typing import Any

import msgspec
import pytest

from sampan.api.codec import protobuf
from sampan.apiserver.response.watch_frames import UnsupportedOutputFormat
from sampan.machinery import errors
from tests.apiserver.in_process_server import InProcessClient, in_process_client, run

ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/a/roles"
WATCH = f"{ROLES}?watch=1&resourceVersion=0"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


async def _create_roles(client: InProcessClient) -> None:
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    for name in ("x", "y"):
        await client.create(ROLES, {"metadata": {"name": name}, "rules": [rule]})


def _events(raw: bytes) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in raw.splitlines()]


def test_only_the_first_table_event_has_column_definitions() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            await _create_roles(client)
            for _ in range(2):  # A second watcher gets them as well.
                content_type, raw = await client.watch(WATCH, 2, accept=TABLE)
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
def test_include_object_selects_the_object_in_table_rows(include: str, kind: str | None) -> None:
    async def check() -> None:
        async with in_process_client() as client:
            await _create_roles(client)
            _, raw = await client.watch(f"{WATCH}&includeObject={include}", 2, accept=TABLE)
            for event in _events(raw):
                row_object = event["object"]["rows"][0]["object"]
                assert (row_object and row_object["kind"]) == kind

    run(check())


def test_initial_events_end_bookmark_as_a_table() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            await _create_roles(client)
            query = "&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
            _, raw = await client.watch(WATCH + query, 3, accept=TABLE)
            bookmark = _events(raw)[-1]
            assert bookmark["type"] == "BOOKMARK"
            (row,) = bookmark["object"]["rows"]
            assert row["cells"][0] == ""
            assert row["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    run(check())


def test_partial_object_metadata_events() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            await _create_roles(client)
            _, raw = await client.watch(WATCH, 2, accept=PARTIAL)
            for event in _events(raw):
                assert set(event["object"]) == {"kind", "apiVersion", "metadata"}
                assert event["object"]["apiVersion"] == "meta.k8s.io/v1"

    run(check())


def test_protobuf_events_equal_json_events() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            await _create_roles(client)
            content_type, raw = await client.watch(WATCH, 2, accept="application/vnd.kubernetes.protobuf")
            assert content_type == "application/vnd.kubernetes.protobuf;stream=watch"
            assert protobuf.unframe(raw) == _events((await client.watch(WATCH, 2))[1])

    run(check())


def test_error_event_is_encoded_in_the_format_of_the_watch() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            for accept in ("", "application/vnd.kubernetes.protobuf", TABLE):
                call = client.make_call("GET", WATCH, b"", {"accept": accept})
                response: Any = await client.pipeline.serve_as(call)
                raw = client.renderer.frames(response, call).error(errors.expired("too old").status)
                event = protobuf.unframe(raw)[0] if "protobuf" in accept else msgspec.json.decode(raw)
                assert event["type"] == "ERROR"
                assert event["object"]["reason"] == "Expired"

    run(check())


def test_partial_object_metadata_list_format_fails_at_the_first_event() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            await _create_roles(client)
            await client.watch(WATCH, 2, accept=PARTIAL.replace("Metadata;", "MetadataList;"))

    with pytest.raises(ExceptionGroup) as caught:
        run(check())
    assert caught.group_contains(UnsupportedOutputFormat)


def test_yaml_and_invalid_include_object_are_rejected() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            for accept, query, message in (
                ("application/yaml", "", "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream"),
                (TABLE, "&includeObject=Part", "Unable to convert to Table as requested"),
            ):
                call = client.make_call("GET", WATCH + query, b"", {"accept": accept})
                response: Any = await client.pipeline.serve_as(call)
                with pytest.raises(errors.ApiError, match=message):
                    client.renderer.frames(response, call)

    run(check())
