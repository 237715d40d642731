"""Answers in every form."""

import gzip
import zlib
from typing import Any

import msgspec
import pytest
import yaml

from sampan.api.codec import protobuf
from sampan.apiserver.response.renderer import gzipped, wants_gzip
from sampan.machinery import errors
from tests.apiserver.in_process_server import Asking, asking, run

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
CONFIGMAPS = "/api/v1/namespaces/a/configmaps"
HPAS = "/apis/autoscaling/{}/namespaces/a/horizontalpodautoscalers"
PARTIAL = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"


async def _some(ask: Asking, count: int = 3, size: int = 10) -> None:
    for number in range(count):
        await ask.create(CONFIGMAPS, {"metadata": {"name": f"c{number}"}, "data": {"k": "v" * size}})


def test_bytes_go_through() -> None:
    async def check() -> None:
        async with asking() as ask:
            await _some(ask)
            item = ask.registry.open_store(_configmaps(ask)).cacher.peek("a", "c0")
            assert item is not None
            reply = await ask.get(f"{CONFIGMAPS}/c0")
            assert (reply.content_type, reply.body) == (JSON, item.raw + b"\n")
            many = await ask.get(CONFIGMAPS)
            assert many.body.startswith(b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"')
            assert many.body.endswith(b"]}\n")
            assert item.body in many.body

    run(check())


def _configmaps(ask: Asking) -> Any:
    return ask.registry.scheme.resource("", "v1", "configmaps")


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
def test_text_for_people(query: str, agent: str, is_pretty: bool) -> None:
    async def check() -> None:
        async with asking() as ask:
            await _some(ask)
            for path in (
                f"{CONFIGMAPS}/c0",
                CONFIGMAPS,
                f"{CONFIGMAPS}/none",
                "/api/v1",
                f"{CONFIGMAPS}?labelSelector=x",
            ):
                target = path + (query.replace("?", "&") if "?" in path else query)
                reply = await ask.get(target, user_agent=agent)
                shown = msgspec.json.format(reply.body, indent=2)
                assert reply.body == (shown if is_pretty else msgspec.json.format(reply.body, indent=-1) + b"\n")

    run(check())


def test_yaml_says_the_same() -> None:
    async def check() -> None:
        async with asking() as ask:
            await _some(ask)
            for path in (f"{CONFIGMAPS}/c0", CONFIGMAPS, f"{CONFIGMAPS}/none", "/apis/apps"):
                shown = await ask.get(path, accept=YAML)
                assert shown.content_type == YAML
                assert yaml.safe_load(shown.body) == (await ask.get(path)).json

    run(check())


def test_protobuf_says_the_same() -> None:
    async def check() -> None:
        async with asking() as ask:
            await _some(ask)
            for path in (f"{CONFIGMAPS}/c0", CONFIGMAPS, f"{CONFIGMAPS}?limit=2", f"{CONFIGMAPS}/none"):
                for _ in range(2):  # the second time from what was kept
                    shown = await ask.get(path, accept=PROTOBUF)
                    assert shown.content_type == PROTOBUF
                    assert _without_titles(protobuf.decode(shown.body)) == _without_titles((await ask.get(path)).json)

    run(check())


def _without_titles(value: dict[str, Any]) -> dict[str, Any]:
    value.get("metadata", {}).pop("continue", None)  # which holds where the page began
    return value


def test_metadata_alone() -> None:
    async def check() -> None:
        async with asking() as ask:
            await _some(ask)
            whole = (await ask.get(f"{CONFIGMAPS}/c0")).json
            document = (await ask.get(f"{CONFIGMAPS}/c0", accept=PARTIAL.format(""))).json
            title = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            assert document == {**title, "metadata": whole["metadata"]}
            many = (await ask.get(f"{CONFIGMAPS}?limit=1", accept=PARTIAL.format("List"))).json
            assert many["items"] == [document]
            assert many["metadata"]["remainingItemCount"] == 2
            none = (await ask.get(f"{CONFIGMAPS}?labelSelector=x", accept=PARTIAL.format("List"))).json
            assert none["items"] is None
            as_protobuf = PARTIAL.format("List").replace("json", "vnd.kubernetes.protobuf")
            message = await ask.get(f"{CONFIGMAPS}?limit=1", accept=as_protobuf)
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
def test_metadata_in_the_wrong_number(path: str, form: str, message: str) -> None:
    async def check() -> None:
        async with asking() as ask:
            await _some(ask, 1)
            reply = await ask.get(path, accept=PARTIAL.format(form))
            assert (reply.code, reply.json["reason"], reply.json["message"]) == (406, "NotAcceptable", message)

    run(check())


def test_lists_in_another_version_than_the_stored_one() -> None:
    async def check() -> None:
        async with asking() as ask:
            target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
            utilization = {"type": "Utilization", "averageUtilization": 60}
            metric = {"type": "Resource", "resource": {"name": "cpu", "target": utilization}}
            spec = {"maxReplicas": 3, "scaleTargetRef": target, "metrics": [metric]}
            await ask.create(HPAS.format("v2"), {"metadata": {"name": "h"}, "spec": spec})
            document = (await ask.get(HPAS.format("v1"))).json
            assert (document["kind"], document["apiVersion"]) == ("HorizontalPodAutoscalerList", "autoscaling/v1")
            (item,) = document["items"]
            assert "kind" not in item
            assert item["spec"]["targetCPUUtilizationPercentage"] == 60
            message = await ask.get(HPAS.format("v1"), accept=PROTOBUF)
            assert protobuf.decode(message.body)["items"][0]["spec"] == item["spec"]
            pretty = await ask.get(HPAS.format("v1") + "?pretty=true")
            assert pretty.json == document
            _, frames = await ask.watch(HPAS.format("v1") + "?watch=true&resourceVersion=0", 1)
            event = msgspec.json.decode(frames)
            assert event["object"]["apiVersion"] == "autoscaling/v1"
            assert event["object"]["spec"] == item["spec"]

    run(check())


def test_large_answers_are_packed_for_those_who_want_it() -> None:
    async def check() -> None:
        async with asking() as ask:
            await _some(ask, 6, 100_000)
            plain = await ask.get(CONFIGMAPS)
            assert "Content-Encoding" not in plain.headers
            for encoding, is_packed in (("gzip", True), ("deflate, gzip", True), ("gzip;q=0.5", False), ("br", False)):
                reply = await ask.get(CONFIGMAPS, accept_encoding=encoding)
                assert ("Content-Encoding" in reply.headers) is is_packed
                assert reply.body == plain.body
            packed = await ask.get(CONFIGMAPS, accept_encoding="gzip")
            assert packed.headers["Vary"] == "Accept-Encoding"
            small = await ask.get(f"{CONFIGMAPS}/c0", accept_encoding="gzip")
            assert "Content-Encoding" not in small.headers

    run(check())


def test_gzip_in_pieces() -> None:
    pieces = [b"a" * 70_000, b"", b"b" * 10]

    async def compress() -> bytes:
        return b"".join([piece async for piece in gzipped(pieces)])

    packed = run(compress())
    assert gzip.decompress(packed) == zlib.decompress(packed, 16 + zlib.MAX_WBITS) == b"".join(pieces)
    assert wants_gzip(" gzip ,br")
    assert not wants_gzip("")


def test_a_failure_says_when_to_come_again() -> None:
    async def check() -> None:
        async with asking() as ask:
            rendered = await ask.renderer.error(errors.resource_version_too_large(9, 1), ask.call("GET", "/", b"", {}))
            assert rendered.code == 504
            assert rendered.headers == {"Retry-After": "1"}

    run(check())
