"""Rendering of responses in every output format."""

import gzip
import zlib
from typing import Any

import msgspec
import pytest
import yaml

from sampan.api.codec import protobuf
from sampan.apiserver.response.renderer import gzip_chunks, wants_gzip
from sampan.machinery import errors
from tests.apiserver.in_process_server import InProcessClient, in_process_client, run

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
CONFIGMAPS = "/api/v1/namespaces/a/configmaps"
HPAS = "/apis/autoscaling/{}/namespaces/a/horizontalpodautoscalers"
PARTIAL = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"


async def _create_configmaps(client: InProcessClient, count: int = 3, size: int = 10) -> None:
    for number in range(count):
        await client.create(CONFIGMAPS, {"metadata": {"name": f"c{number}"}, "data": {"k": "v" * size}})


def test_json_response_contains_the_stored_bytes() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            await _create_configmaps(client)
            item = client.registry.open_store(_configmaps(client)).cacher.peek("a", "c0")
            assert item is not None
            reply = await client.get(f"{CONFIGMAPS}/c0")
            assert (reply.content_type, reply.body) == (JSON, item.raw + b"\n")
            listed = await client.get(CONFIGMAPS)
            assert listed.body.startswith(b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"')
            assert listed.body.endswith(b"]}\n")
            assert item.body in listed.body

    run(check())


def _configmaps(client: InProcessClient) -> Any:
    return client.registry.scheme.resource("", "v1", "configmaps")


@pytest.mark.parametrize(
    ("query", "agent", "is_pretty"),
    [
        ("", "kubectl/v1.36.0", False),
        ("", "curl/8.0", True),
        ("", "Mozilla/5.0 (X11)", True),
        ("", "Wget/1.2", True),
        ("?pretty=true", "", True),
        ("?pretty=1", "", True),
        ("?pretty=false", "curl/8.0", False),
        ("?pretty=", "curl/8.0", True),
        ("?pretty=maybe", "curl/8.0", False),
    ],
)
def test_json_is_indented_for_browsers_and_by_the_pretty_parameter(query: str, agent: str, is_pretty: bool) -> None:
    async def check() -> None:
        async with in_process_client() as client:
            await _create_configmaps(client)
            for path in (
                f"{CONFIGMAPS}/c0",
                CONFIGMAPS,
                f"{CONFIGMAPS}/none",
                "/api/v1",
                f"{CONFIGMAPS}?labelSelector=x",
            ):
                target = path + (query.replace("?", "&") if "?" in path else query)
                reply = await client.get(target, user_agent=agent)
                shown = msgspec.json.format(reply.body, indent=2)
                assert reply.body == (shown if is_pretty else msgspec.json.format(reply.body, indent=-1) + b"\n")

    run(check())


def test_yaml_response_equals_json() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            await _create_configmaps(client)
            for path in (f"{CONFIGMAPS}/c0", CONFIGMAPS, f"{CONFIGMAPS}/none", "/apis/apps"):
                shown = await client.get(path, accept=YAML)
                assert shown.content_type == YAML
                assert yaml.safe_load(shown.body) == (await client.get(path)).json

    run(check())


def test_protobuf_response_equals_json() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            await _create_configmaps(client)
            for path in (f"{CONFIGMAPS}/c0", CONFIGMAPS, f"{CONFIGMAPS}?limit=2", f"{CONFIGMAPS}/none"):
                for _ in range(2):  # the second time from the cache
                    shown = await client.get(path, accept=PROTOBUF)
                    assert shown.content_type == PROTOBUF
                    assert _drop_continue_token(protobuf.decode(shown.body)) == _drop_continue_token(
                        (await client.get(path)).json
                    )

    run(check())


def _drop_continue_token(value: dict[str, Any]) -> dict[str, Any]:
    value.get("metadata", {}).pop("continue", None)  # The token contains the start of the page.
    return value


def test_partial_object_metadata() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            await _create_configmaps(client)
            whole = (await client.get(f"{CONFIGMAPS}/c0")).json
            document = (await client.get(f"{CONFIGMAPS}/c0", accept=PARTIAL.format(""))).json
            header = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            assert document == {**header, "metadata": whole["metadata"]}
            listed = (await client.get(f"{CONFIGMAPS}?limit=1", accept=PARTIAL.format("List"))).json
            assert listed["items"] == [document]
            assert listed["metadata"]["remainingItemCount"] == 2
            none = (await client.get(f"{CONFIGMAPS}?labelSelector=x", accept=PARTIAL.format("List"))).json
            assert none["items"] is None
            as_protobuf = PARTIAL.format("List").replace("json", "vnd.kubernetes.protobuf")
            message = await client.get(f"{CONFIGMAPS}?limit=1", accept=as_protobuf)
            assert protobuf.decode(message.body)["items"][0]["metadata"] == document["metadata"]

    run(check())


@pytest.mark.parametrize(
    ("path", "form", "message"),
    [
        (
            CONFIGMAPS,
            "",
            "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)",
        ),
        (
            f"{CONFIGMAPS}/c0",
            "List",
            "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)",
        ),
    ],
)
def test_partial_object_metadata_of_a_list_or_an_object_is_not_interchangeable(
    path: str, form: str, message: str
) -> None:
    async def check() -> None:
        async with in_process_client() as client:
            await _create_configmaps(client, 1)
            reply = await client.get(path, accept=PARTIAL.format(form))
            assert (reply.code, reply.json["reason"], reply.json["message"]) == (406, "NotAcceptable", message)

    run(check())


def test_lists_are_converted_to_the_requested_version() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
            utilization = {"type": "Utilization", "averageUtilization": 60}
            metric = {"type": "Resource", "resource": {"name": "cpu", "target": utilization}}
            spec = {"maxReplicas": 3, "scaleTargetRef": target, "metrics": [metric]}
            await client.create(HPAS.format("v2"), {"metadata": {"name": "h"}, "spec": spec})
            document = (await client.get(HPAS.format("v1"))).json
            assert (document["kind"], document["apiVersion"]) == ("HorizontalPodAutoscalerList", "autoscaling/v1")
            (item,) = document["items"]
            assert "kind" not in item
            assert item["spec"]["targetCPUUtilizationPercentage"] == 60
            message = await client.get(HPAS.format("v1"), accept=PROTOBUF)
            assert protobuf.decode(message.body)["items"][0]["spec"] == item["spec"]
            pretty = await client.get(HPAS.format("v1") + "?pretty=true")
            assert pretty.json == document
            _, frames = await client.watch(HPAS.format("v1") + "?watch=true&resourceVersion=0", 1)
            event = msgspec.json.decode(frames)
            assert event["object"]["apiVersion"] == "autoscaling/v1"
            assert event["object"]["spec"] == item["spec"]

    run(check())


def test_large_responses_are_gzipped_if_the_client_accepts_gzip() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            await _create_configmaps(client, 6, 100_000)
            plain = await client.get(CONFIGMAPS)
            assert "Content-Encoding" not in plain.headers
            for encoding, is_gzipped in (("gzip", True), ("deflate, gzip", True), ("gzip;q=0.5", False), ("br", False)):
                reply = await client.get(CONFIGMAPS, accept_encoding=encoding)
                assert ("Content-Encoding" in reply.headers) is is_gzipped
                assert reply.body == plain.body
            gzipped_reply = await client.get(CONFIGMAPS, accept_encoding="gzip")
            assert gzipped_reply.headers["Vary"] == "Accept-Encoding"
            small = await client.get(f"{CONFIGMAPS}/c0", accept_encoding="gzip")
            assert "Content-Encoding" not in small.headers

    run(check())


def test_chunks_are_gzipped_as_one_stream() -> None:
    chunks = [b"a" * 70_000, b"", b"b" * 10]

    async def compress() -> bytes:
        return b"".join([chunk async for chunk in gzip_chunks(chunks)])

    compressed = run(compress())
    assert gzip.decompress(compressed) == zlib.decompress(compressed, 16 + zlib.MAX_WBITS) == b"".join(chunks)
    assert wants_gzip(" gzip ,br")
    assert not wants_gzip("")


def test_timeout_error_has_a_retry_after_header() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            rendered = await client.renderer.error(
                errors.resource_version_too_large(9, 1), client.make_call("GET", "/", b"", {})
            )
            assert rendered.code == 504
            assert rendered.headers == {"Retry-After": "1"}

    run(check())
