"""OpenAPI documents of an aggregated API server, as clients of this server see them."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sampan.apiserver.server_address import find_default_route_address
from sampan.machinery.pki.certificates import SigningRequest, issue, make_ca
from sampan.testing import Cluster
from tests.apiserver.http.wire import Wire, WireResponse
from tests.e2e.kubectl.command import Kubectl, find_kubectl
from tests.eventually import eventually

GROUP, VERSION = "wardle.example.com", "v1"
NAME = f"apis/{GROUP}/{VERSION}"
KIND = {"group": GROUP, "version": VERSION, "kind": "Flunder"}
FLUNDER = "com.example.wardle.v1.Flunder"
NAMESPACE = "/api/v1/namespaces/default"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
REGISTRATION = f"/apis/apiregistration.k8s.io/v1/apiservices/{VERSION}.{GROUP}"
GVK = "x-kubernetes-group-version-kind"

pytestmark = pytest.mark.skipif(
    find_default_route_address().startswith("127."),
    reason="this machine has no address of its own but the loopback one",
)


def schema(description: str) -> dict[str, Any]:
    size = {"type": "integer", "description": "How large the flunder is."}
    return {"type": "object", "description": description, "properties": {"size": size}, GVK: [KIND]}


class Wardle:
    """The aggregated API server."""

    def __init__(self) -> None:
        self.port = 0
        self.description = "Flunder is a fish."
        self.v2: bytes | None = None
        """The whole response to /openapi/v2, if it is not the usual one."""
        self.has_v3 = True
        self.is_healthy = True
        self.stalls = False
        """Whether the response to /openapi/v2 never ends."""
        self.stalled = asyncio.Event()
        self.requests: list[web.BaseRequest] = []

    @property
    def hash(self) -> str:
        return self.description.encode().hex().upper()

    def requests_for(self, path: str) -> list[web.BaseRequest]:
        return [request for request in self.requests if request.path == path]

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        if not self.is_healthy:
            return web.Response(status=500)
        if request.path == f"/{NAME}":
            resource = {"name": "flunders", "singularName": "flunder", "namespaced": True, "kind": "Flunder"}
            verbs = {"verbs": ["get", "list"]}
            return web.json_response({"kind": "APIResourceList", "resources": [{**resource, **verbs}]})
        if request.path.startswith("/openapi/v3") and not self.has_v3:
            return web.Response(status=404)
        if request.path == "/openapi/v3":
            paths = {NAME: {"serverRelativeURL": f"/openapi/v3/{NAME}?hash={self.hash}"}, "version": {}}
            return web.json_response({"paths": paths})
        if request.path == f"/openapi/v3/{NAME}":
            return self._respond_with_document(request, self._build_v3_document())
        if request.path == "/openapi/v2" and self.stalls:
            return await self._start_endless_response(request)
        if request.path == "/openapi/v2":
            return (
                self._respond_with_document(request, self._build_v2_document())
                if self.v2 is None
                else web.Response(body=self.v2)
            )
        return web.Response(status=404)

    async def _start_endless_response(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"paths": ')
        self.stalled.set()
        await asyncio.Event().wait()
        return response

    def _respond_with_document(self, request: web.BaseRequest, document: dict[str, Any]) -> web.Response:
        headers = {"etag": f'"{self.hash}"'}
        if request.headers.get("If-None-Match") == headers["etag"]:
            return web.Response(status=304, headers=headers)
        return web.json_response(document, headers=headers)

    def _build_v3_document(self) -> dict[str, Any]:
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{FLUNDER}"}}}
        operation = {"responses": {"200": {"description": "OK", "content": content}}, "x-kubernetes-action": "list"}
        paths = {f"/{NAME}/namespaces/{{namespace}}/flunders": {"get": {**operation, GVK: KIND}}}
        return {"openapi": "3.0.0", "paths": paths, "components": {"schemas": {FLUNDER: schema(self.description)}}}

    def _build_v2_document(self) -> dict[str, Any]:
        responses = {"200": {"description": "OK", "schema": {"$ref": f"#/definitions/{FLUNDER}"}}}
        paths = {
            f"/{NAME}/namespaces/{{namespace}}/flunders": {"get": {"responses": responses, GVK: KIND}},
            "/api/v1/pods": {"get": {"responses": responses, "operationId": "evil"}},
        }
        return {"swagger": "2.0", "paths": paths, "definitions": {FLUNDER: schema(self.description)}}


@asynccontextmanager
async def running_wardle(directory: Path) -> AsyncIterator[Wardle]:
    now = time.time()
    pair = issue(make_ca("wardle", now=now), SigningRequest(common_name="wardle", is_server=True), now=now)
    (directory / "wardle.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "wardle.pem")
    wardle = Wardle()
    server = web.Server(wardle.respond)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, find_default_route_address(), 0, ssl_context=context).start()
    wardle.port = runner.addresses[0][1]
    try:
        yield wardle
    finally:
        for connection in server.connections:
            if connection.transport is not None:
                connection.transport.abort()  # the TLS shutdown would outlast the event loop of the test
        await runner.cleanup()


class Client:
    def __init__(self, cluster: Cluster, wire: Wire) -> None:
        self.cluster, self._wire = cluster, wire

    async def send(self, method: str, path: str, value: Any = None, **headers: str) -> WireResponse:
        names = {name.replace("_", "-"): text for name, text in headers.items()}
        return await self._wire.request(method, path, value, headers=names)

    async def get(self, path: str) -> Any:
        return (await self.send("GET", path)).json

    async def register(self, port: int) -> None:
        ports = [{"name": "https", "port": 443}]
        endpoint_slice = {
            "metadata": {"name": "wardle", "labels": {"kubernetes.io/service-name": "wardle"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [find_default_route_address()]}],
            "ports": [{"name": "https", "port": port}],
        }
        spec = {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": "wardle", "namespace": "default"},
        }
        for path, value in (
            (f"{NAMESPACE}/services", {"metadata": {"name": "wardle"}, "spec": {"ports": ports}}),
            (SLICES, endpoint_slice),
            (REGISTRATION.rpartition("/")[0], {"metadata": {"name": f"{VERSION}.{GROUP}"}, "spec": spec}),
        ):
            created = await self.send("POST", path, value)
            assert created.code == 201, created.text

    async def unregister(self) -> None:
        for path in (REGISTRATION, f"{SLICES}/wardle", f"{NAMESPACE}/services/wardle"):
            deleted = await self.send("DELETE", path)
            assert deleted.code in (200, 404), deleted.text
        await self.wait_for_index(is_listed=False)

        async def is_gone() -> bool:
            return (await self.send("GET", f"/{NAME}")).code == 404

        await eventually(is_gone, timeout_s=120)

    async def wait_for_index(self, *, is_listed: bool) -> None:
        async def is_as_expected() -> bool:
            return (NAME in (await self.get("/openapi/v3"))["paths"]) is is_listed

        await eventually(is_as_expected, timeout_s=120)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(insecure=True, controllers=()) as running:
        yield running


@asynccontextmanager
async def registered_wardle(
    cluster: Cluster, directory: Path, v2: bytes | None = None, *, has_v3: bool = True
) -> AsyncIterator[tuple[Client, Wardle]]:
    """Register an aggregated API server, whose OpenAPI v2 document is `v2` or the usual one, for the time of a test."""
    async with (
        asyncio.timeout(120),
        running_wardle(directory) as wardle,
        Wire(int(cluster.insecure_url.rpartition(":")[2])) as wire,
    ):
        wardle.v2, wardle.has_v3 = v2, has_v3
        client = Client(cluster, wire)
        await client.register(wardle.port)
        yield client, wardle
        await client.unregister()


async def test_v3_documents_are_listed_and_proxied(cluster: Cluster, tmp_path: Path) -> None:
    async with registered_wardle(cluster, tmp_path) as (client, wardle):
        await client.wait_for_index(is_listed=True)
        paths = (await client.get("/openapi/v3"))["paths"]
        url = f"/openapi/v3/{NAME}?hash={wardle.hash}"
        assert paths[NAME] == {"serverRelativeURL": url}
        assert "hash=" in paths["version"]["serverRelativeURL"], "the document of this server takes precedence"
        response = await client.send("GET", url)
        assert response.json["components"]["schemas"][FLUNDER]["description"] == wardle.description
        etag = response.headers["etag"]
        assert etag == f'"{wardle.hash}"'
        assert (await client.send("GET", url, If_None_Match=etag)).code == 304
        proxied = wardle.requests_for(f"/openapi/v3/{NAME}")
        assert [request.query_string for request in proxied] == [f"hash={wardle.hash}"] * 2
        downloads = wardle.requests_for("/openapi/v2") + wardle.requests_for("/openapi/v3")
        assert {request.headers["X-Remote-User"] for request in downloads} == {"system:aggregator"}


async def test_v2_documents_are_merged(cluster: Cluster, tmp_path: Path) -> None:
    async with registered_wardle(cluster, tmp_path) as (client, wardle):
        await client.wait_for_index(is_listed=True)
        document = await client.get("/openapi/v2")
        assert document["definitions"][FLUNDER] == schema(wardle.description)
        assert f"/{NAME}/namespaces/{{namespace}}/flunders" in document["paths"]
        assert "/api/v1/pods" in document["paths"]
        assert document["paths"]["/api/v1/pods"]["get"]["operationId"] != "evil"
        message = await client.send(
            "GET", "/openapi/v2", Accept="application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        )
        assert FLUNDER.encode() in message.body


async def test_v2_document_of_a_server_without_v3_is_converted_to_v3(cluster: Cluster, tmp_path: Path) -> None:
    async with registered_wardle(cluster, tmp_path, has_v3=False) as (client, wardle):
        await client.wait_for_index(is_listed=True)
        url = (await client.get("/openapi/v3"))["paths"][NAME]["serverRelativeURL"]
        response = await client.send("GET", url)
        assert response.json["components"]["schemas"][FLUNDER] == schema(wardle.description)
        assert list(response.json["paths"]) == [f"/{NAME}/namespaces/{{namespace}}/flunders"]
        again = await client.send("GET", url, If_None_Match=response.headers["etag"])
        assert again.code == 304
        assert not wardle.requests_for(f"/openapi/v3/{NAME}")


async def test_documents_of_a_deleted_apiservice_are_removed(cluster: Cluster, tmp_path: Path) -> None:
    async with registered_wardle(cluster, tmp_path) as (client, _):
        await client.wait_for_index(is_listed=True)
        before = await client.send("GET", "/openapi/v2")
        await client.send("DELETE", REGISTRATION)
        await client.wait_for_index(is_listed=False)
        assert (await client.send("GET", f"/openapi/v3/{NAME}")).code == 404
        after = await client.send("GET", "/openapi/v2", If_None_Match=before.headers["etag"])
        assert after.code == 200
        assert FLUNDER not in after.json["definitions"]


async def test_documents_of_an_unavailable_apiservice_are_not_listed(cluster: Cluster, tmp_path: Path) -> None:
    async with registered_wardle(cluster, tmp_path) as (client, wardle):
        await client.wait_for_index(is_listed=True)
        wardle.is_healthy = False
        # A changed spec makes the server check the availability at once.
        body = {"spec": {"versionPriority": 50}}
        changed = await client.send("PATCH", REGISTRATION, body, Content_Type="application/merge-patch+json")
        assert changed.code == 200, changed.text
        await client.wait_for_index(is_listed=False)
        assert FLUNDER not in (await client.get("/openapi/v2"))["definitions"]


@pytest.mark.parametrize(
    "body", [b"[1, 2]", b'{"paths": ' + b"[" * 100_000, bytes(17 << 20)], ids=["list", "deeply-nested", "too-large"]
)
async def test_invalid_v2_document_is_logged_and_not_merged(
    cluster: Cluster, tmp_path: Path, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with registered_wardle(cluster, tmp_path, body) as (client, _):
        message = "cannot read the OpenAPI documents of v1.wardle.example.com"
        await eventually(lambda: message in caplog.text, timeout_s=120)
        document = await client.get("/openapi/v2")
        assert FLUNDER not in document["definitions"]
        assert "/api/v1/pods" in document["paths"]
        assert (await client.get(f"/{NAME}"))["resources"][0]["name"] == "flunders", "the API itself is served"


async def test_server_shutdown_cancels_openapi_downloads(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(120), running_wardle(tmp_path) as wardle:
        wardle.stalls = True
        async with (
            Cluster(insecure=True, controllers=()) as own_cluster,
            Wire(int(own_cluster.insecure_url.rpartition(":")[2])) as wire,
        ):
            await Client(own_cluster, wire).register(wardle.port)
            await wardle.stalled.wait()
    assert "OpenAPI" not in caplog.text


async def test_kubectl_explains_a_kind_of_an_aggregated_server(cluster: Cluster, tmp_path: Path) -> None:
    program = find_kubectl()
    if program is None:
        pytest.skip("there is no kubectl here")
    async with registered_wardle(cluster, tmp_path) as (client, _):
        await client.wait_for_index(is_listed=True)
        kubectl = Kubectl(program=program, kubeconfig=client.cluster.kubeconfig, home=tmp_path)
        text = await asyncio.to_thread(kubectl, "explain", "flunder")
        assert "Flunder is a fish." in text
        assert "How large the flunder is." in await asyncio.to_thread(kubectl, "explain", "flunder.size")
