"""ControllerRevision: the data keeps its bytes, because kube-controller-manager compares them."""

from typing import Any

import msgspec
import pytest

from sampan.api.codec import protobuf
from tests.apiserver.in_process_server import InProcessClient, in_process_client, run

PATH = "/apis/apps/v1/namespaces/default/controllerrevisions"
PROTOBUF = "application/vnd.kubernetes.protobuf"
DATA = b'{"z":1.0,"a":"x \\u0026\\u0026 y \\u003e \\u003c\\u2028","b":1e3}'


def body(data: bytes) -> dict[str, Any]:
    value = {"kind": "ControllerRevision", "apiVersion": "apps/v1", "metadata": {"name": "r"}, "revision": 1}
    return value | {"data": msgspec.Raw(data)}


async def create(server: InProcessClient, data: bytes, media: str) -> None:
    value = body(data)
    content = protobuf.encode(value) if media == PROTOBUF else msgspec.json.encode(value)
    reply = await server.send("POST", PATH, content, **{"content-type": media})
    assert reply.code == 201


@pytest.mark.parametrize("media", ["application/json", PROTOBUF])
@pytest.mark.parametrize(
    "data", [DATA, b'{ "z":1.0, "a":"x && y > <\xe2\x80\xa8",\n"b":1e3}'], ids=["as Go encodes", "indented, unescaped"]
)
def test_data_is_served_as_go_encodes_it(media: str, data: bytes) -> None:
    async def check() -> None:
        async with in_process_client() as server:
            await create(server, data, media)
            shown = b'"data":' + DATA
            watch = f"{PATH}?watch=1&resourceVersion=0"
            for path in (PATH, f"{PATH}/r"):
                assert shown in (await server.get(path)).body
                assert DATA in (await server.get(path, accept=PROTOBUF)).body
            assert shown in (await server.watch(watch, 1))[1]
            assert DATA in (await server.watch(watch, 1, accept=PROTOBUF))[1]

    run(check())


def test_a_patch_of_another_field_keeps_the_data() -> None:
    async def check() -> None:
        async with in_process_client() as server:
            data = b'{"a":"x \\u0026 y","b":{"c":[1,2]}}'
            await create(server, data, "application/json")
            for patch_type in ("merge-patch+json", "strategic-merge-patch+json"):
                headers = {"content-type": f"application/{patch_type}"}
                reply = await server.send("PATCH", f"{PATH}/r", b'{"revision":2}', **headers)
                assert (reply.code, reply.json["revision"]) == (200, 2)
                assert b'"data":' + data in reply.body

    run(check())


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"null", "data: Required value: data is mandatory"), (b"[1]", "data: Required value: data must be a valid JSON")],
)
def test_data_must_be_an_object(data: bytes, message: str) -> None:
    async def check() -> None:
        async with in_process_client() as server:
            reply = await server.send("POST", PATH, msgspec.json.encode(body(data)))
            assert reply.code == 422
            assert message in reply.json["message"]

    run(check())


def test_data_is_immutable() -> None:
    async def check() -> None:
        async with in_process_client() as server:
            await create(server, b'{"a":"<"}', "application/json")
            same = await server.send("PUT", f"{PATH}/r", msgspec.json.encode(body(b'{"a": "\\u003c"}')))
            assert same.code == 200
            other = await server.send("PUT", f"{PATH}/r", msgspec.json.encode(body(b'{"a":">"}')))
            assert other.code == 422
            assert 'data: Invalid value: {"a":"\\u003e"}: field is immutable' in other.json["message"]

    run(check())
