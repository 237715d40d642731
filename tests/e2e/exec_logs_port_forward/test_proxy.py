"""Proxies to nodes, pods and services through the API server, with plain HTTP clients."""

import asyncio
import io
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from sampan.api.types.core_v1 import (
    ContainerPort,
    EndpointAddress,
    EndpointPort,
    Endpoints,
    EndpointSubset,
    Service,
    ServicePort,
    ServiceSpec,
)
from sampan.api.types.meta_v1 import ObjectMeta
from tests.e2e.client_sessions import open_session
from tests.e2e.exec_logs_port_forward.cluster import ADDRESS, TOKEN, StreamingCluster

pytestmark = pytest.mark.skipif(ADDRESS.startswith("127."), reason="this machine has no address but its own")


HOSTILE = {
    "comments": b"<!--" * 1_000_000,
    "scripts": b"<script>" * 500_000,
    "attributes": b'<a href="' * 400_000,
    "too-large": b'<a href="/x">' * 400_000,
}


class _EchoHandler(BaseHTTPRequestHandler):
    """Responds with a description of the request."""

    protocol_version = "HTTP/1.1"

    def _respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/redirect"):
            self._send(302, b"", Location="/elsewhere")
        elif self.path.startswith("/hostile/"):
            self._send(200, HOSTILE[self.path.rpartition("/")[2]], Content_Type="text/html")
        elif self.path.startswith("/page"):
            self._send(200, b'<a href="/link">x</a>', Content_Type="text/html; charset=utf-8")
        else:
            description = {
                "method": self.command,
                "path": self.path,
                "headers": dict(self.headers),
                "body": body.decode(),
            }
            self._send(
                200, json.dumps(description).encode(), Content_Type="application/json", Access_Control_Allow_Origin="*"
            )

    def _send(self, code: int, body: bytes, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _respond

    def log_message(self, *arguments: object) -> None:
        return


@contextmanager
def _echo_server(pki: Path | None = None) -> Iterator[int]:
    """Run the echo server, with TLS if a directory of certificates is given, and yield its port."""
    server = ThreadingHTTPServer(("0.0.0.0", 0), _EchoHandler)
    server.daemon_threads = True
    if pki is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki / "apiserver.crt", pki / "apiserver.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def mirror(cluster: StreamingCluster) -> Iterator[int]:
    """The port of the echo server, with a pod and a service for it."""
    with _echo_server() as port:
        cluster.pod("mirror", "sleep", "1000", ports=[ContainerPort(containerPort=port)])
        meta = ObjectMeta(name="mirror", namespace="default")
        spec = ServiceSpec(ports=[ServicePort(name="web", port=80)])
        cluster.run(cluster.client.for_kind(Service).create(Service(metadata=meta, spec=spec)))
        subset = EndpointSubset(addresses=[EndpointAddress(ip=ADDRESS)], ports=[EndpointPort(name="web", port=port)])
        cluster.run(cluster.client.for_kind(Endpoints).create(Endpoints(metadata=meta, subsets=[subset])))
        yield port


class _Reply:
    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def _request(cluster: StreamingCluster, path: str, method: str = "GET", **more: Any) -> _Reply:
    async def main() -> _Reply:
        context = ssl.create_default_context(cafile=str(cluster.directory / "pki" / "ca.crt"))
        headers = {"Authorization": f"Bearer {TOKEN}", **more.pop("headers", {})}
        async with (
            open_session() as session,
            session.request(
                method,
                URL(cluster.url + path, encoded=True),
                ssl=context,
                headers=headers,
                allow_redirects=False,
                **more,
            ) as response,
        ):
            return _Reply(response.status, response.headers, await response.read())

    return asyncio.run(main())


_PODS, _SERVICES = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/services"
_CLASSIC = "/api/v1/proxy/namespaces/default"


@pytest.mark.parametrize(
    "base",
    [
        f"{_PODS}/mirror/proxy",
        f"{_PODS}/http:mirror:PORT/proxy",
        f"{_SERVICES}/mirror:web/proxy",
        f"{_SERVICES}/mirror:80/proxy",
        f"{_SERVICES}/http:mirror:web/proxy",
        f"{_CLASSIC}/pods/mirror",
        f"{_CLASSIC}/services/mirror:80",
        "/api/v1/nodes/plain:PORT/proxy",
        "/api/v1/proxy/nodes/http:plain:PORT",
    ],
)
def test_proxy_forwards_method_path_query_and_body(cluster: StreamingCluster, mirror: int, base: str) -> None:
    base = base.replace("PORT", str(mirror))
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        reply = _request(cluster, f"{base}/a//b%20c/?x=1&y=%2F", method, data=b"body" if method != "GET" else None)
        description = reply.json
        assert (reply.status, description["method"], description["path"]) == (200, method, "/a//b%20c/?x=1&y=%2F")
        assert description["body"] == ("body" if method != "GET" else "")
        assert "Authorization" not in description["headers"]
        assert description["headers"]["X-Forwarded-For"] == "127.0.0.1"
        assert description["headers"]["X-Forwarded-Uri"].startswith(base)
        assert "Access-Control-Allow-Origin" not in reply.headers
    assert _request(cluster, f"{base}/", "HEAD").status == 200
    assert (lambda reply: (reply.status, reply.headers["Location"]))(_request(cluster, f"{base}?q=1")) == (
        301,
        f"{base}/?q=1",
    )
    assert _request(cluster, f"{base}/redirect").headers["Location"] == f"{base}/elsewhere"
    assert _request(cluster, f"{base}/page").body == f'<a href="{base}/link">x</a>'.encode()


@pytest.mark.parametrize("base", [f"{_PODS}/mirror/proxy", "/api/v1/nodes/plain:PORT/proxy"])
def test_sessions_of_the_dashboard_are_not_forwarded_and_pages_have_another_origin(
    cluster: StreamingCluster, mirror: int, base: str
) -> None:
    base = base.replace("PORT", str(mirror))
    cookies = {"Cookie": "a=b; __Host-sampan-6443=secret"}
    reply = _request(cluster, f"{base}/x", headers=cookies)
    assert reply.json["headers"]["Cookie"] == "a=b"
    assert reply.headers["Content-Security-Policy"].startswith("sandbox ")
    assert _request(cluster, f"{base}/page").headers["Content-Security-Policy"].startswith("sandbox ")
    behind_proxy = _request(cluster, f"{base}/x", headers={"X-Forwarded-For": "127.0.0.1"})
    assert "Content-Security-Policy" not in behind_proxy.headers


def test_proxy_to_a_pod_over_https(cluster: StreamingCluster, mirror: int) -> None:
    with _echo_server(cluster.directory / "pki") as port:
        reply = _request(cluster, f"{_PODS}/https:mirror:{port}/proxy/x", "POST", data=b"body")
        assert (reply.status, reply.json["path"], reply.json["body"]) == (200, "/x", "body")
        assert _request(cluster, f"{_PODS}/mirror:{port}/proxy/x").status == 503


def test_proxy_forwards_bodies_above_the_api_request_limit(cluster: StreamingCluster, mirror: int) -> None:
    body = b"x" * (8 << 20)
    assert len(_request(cluster, f"{_PODS}/mirror/proxy/", "POST", data=io.BytesIO(body)).json["body"]) == len(body)


def test_unreachable_proxy_targets_return_errors(cluster: StreamingCluster, mirror: int) -> None:
    reply = _request(cluster, f"{_PODS}/mirror:1/proxy/")
    assert (reply.status, reply.json["message"]) == (
        503,
        f"error trying to reach service: dial tcp {ADDRESS}:1: connect: connection refused",
    )
    reply = _request(cluster, f"{_SERVICES}/mirror:81/proxy/")
    assert (reply.status, reply.json["message"]) == (503, 'no service port 81 found for service "mirror"')
    reply = _request(cluster, f"{_SERVICES}/mirror:none/proxy/")
    assert (reply.status, reply.json["message"]) == (503, 'no endpoints available for service "mirror:none"')
    assert _request(cluster, f"{_SERVICES}/other/proxy/").status == 404
    assert _request(cluster, f"{_PODS}/ftp:mirror:1/proxy/").status == 400


@pytest.mark.parametrize(
    "base",
    [
        "/api/v1/nodes/plain/proxy",
        "/api/v1/nodes/plain:{port}/proxy",
        "/api/v1/nodes/https:plain:{port}/proxy",
        "/api/v1/nodes/http:plain:{port}/proxy",
        "/api/v1/proxy/nodes/plain",
        f"/api/v1/proxy/nodes/{ADDRESS}",
    ],
)
def test_node_proxy_reaches_the_kubelet(cluster: StreamingCluster, mirror: int, base: str) -> None:
    base = base.replace("{port}", str(cluster.kubelet_port))
    pods = _request(cluster, f"{base}/pods").json
    assert "mirror" in [pod["metadata"]["name"] for pod in pods["items"]]
    assert _request(cluster, f"{base}/healthz").body == b"ok"
    assert _request(cluster, f"{base}/stats/summary").json["node"]["nodeName"] == "plain"
    assert _request(cluster, f"{base}/nothing").status == 404


async def test_node_proxy_forwards_websocket_upgrades(cluster: StreamingCluster, mirror: int) -> None:
    context = ssl.create_default_context(cafile=str(cluster.directory / "pki" / "ca.crt"))
    url = f"{cluster.url}/api/v1/nodes/plain/proxy/exec/default/mirror/main?command=cat&input=1&output=1"
    async with (
        open_session(headers={"Authorization": f"Bearer {TOKEN}"}) as session,
        session.ws_connect(url, protocols=["v4.channel.k8s.io"], ssl=context) as connection,
    ):
        await connection.receive_bytes()
        await connection.send_bytes(b"\0hello")
        assert await connection.receive_bytes() == b"\1hello"


@pytest.mark.parametrize("page", HOSTILE)
def test_hostile_html_from_a_pod_does_not_block_the_event_loop(
    cluster: StreamingCluster, mirror: int, page: str
) -> None:
    """Each page has up to four megabytes; 200 kB used to block the event loop for 99 s."""
    path = f"/api/v1/namespaces/default/pods/mirror:{mirror}/proxy/hostile/{page}"
    reply = _request(cluster, path)
    assert (reply.status, reply.body == HOSTILE[page]) == (200, True)
