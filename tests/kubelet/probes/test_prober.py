"""HTTP, TCP and gRPC probes of real servers."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from aiohttp import web

from sampan.api.codec import json
from sampan.api.kubernetes_version import MINOR_VERSION
from sampan.api.types.core_v1 import Container, HTTPGetAction
from sampan.kubelet.probes.prober import ProbeResult, headers_of, port_of, probe_grpc, probe_http, probe_tcp, url_of
from sampan.machinery.pki.certificates import make_ca
from tests.kubelet.probes.http_server import serving
from tests.ports import free_port


def run_scenario(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 60))


@pytest.mark.parametrize(
    ("path", "success", "text"),
    [
        ("/200", True, "hello"),
        ("/399", True, "Probe terminated redirects"),
        ("/404", False, "HTTP probe failed with statuscode: 404"),
        ("/500", False, "HTTP probe failed with statuscode: 500"),
        ("/home", True, "hello"),
        ("/away", True, "Probe terminated redirects, Response body: go"),
        ("/round", False, "stopped after 10 redirects"),
        ("/long", True, "x" * 100),
    ],
)
def test_http(path: str, success: bool, text: str) -> None:
    requests: list[web.BaseRequest] = []

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        requests.append(request)
        redirects = {"/home": "/200", "/away": "http://elsewhere.test/", "/round": "/round"}
        if request.path in redirects:
            return web.Response(status=302, text="go", headers={"Location": redirects[request.path]})
        if request.path == "/long":
            return web.Response(body=b"x" * (1 << 20))
        return web.Response(status=int(request.path[1:]), text="hello")

    async def work() -> None:
        async with serving(respond) as port:
            headers = [{"name": "X-own", "value": "1"}, {"name": "Host", "value": "other.test"}]
            action = json.from_value({"port": port, "path": path, "httpHeaders": headers}, HTTPGetAction)
            probe_result = await probe_http(url_of(action, "127.0.0.1", port), headers_of(action), 60)
            assert probe_result.is_success is success
            assert text in probe_result.text
            assert requests[0].headers["User-Agent"] == f"kube-probe/{MINOR_VERSION}"
            assert (requests[0].headers["X-Own"], requests[0].headers["Host"]) == ("1", "other.test")

    run_scenario(work)


async def test_http_probe_of_a_server_that_does_not_respond_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, timeout_s = asyncio.get_running_loop(), 30
    real_time = loop.time

    async def never_respond(request: web.BaseRequest) -> web.StreamResponse:
        monkeypatch.setattr(loop, "time", lambda: real_time() + timeout_s)  # the probe need not wait for its timeout
        await asyncio.Event().wait()
        raise AssertionError("the event is never set")

    async with asyncio.timeout(timeout_s + 60), serving(never_respond) as port:
        probe_result = await probe_http(f"http://127.0.0.1:{port}/", {}, timeout_s)
        monkeypatch.undo()
    message = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    assert probe_result == ProbeResult(False, f'Get "http://127.0.0.1:{port}/": {message}')


def test_probes_of_a_closed_port_fail() -> None:
    async def work() -> None:
        port = free_port()
        probe_result = await probe_http(f"http://127.0.0.1:{port}/", {}, 60)
        assert (
            probe_result.text
            == f'Get "http://127.0.0.1:{port}/": dial tcp 127.0.0.1:{port}: connect: connection refused'
        )
        assert await probe_tcp("127.0.0.1", port, 60) == ProbeResult(
            False, f"dial tcp 127.0.0.1:{port}: connect: connection refused"
        )
        assert not (await probe_grpc("127.0.0.1", port, "", 0.2)).is_success

    run_scenario(work)


def test_tcp() -> None:
    async def work() -> None:
        async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0) as server:
            assert (await probe_tcp("127.0.0.1", server.sockets[0].getsockname()[1], 60)).is_success

    run_scenario(work)


def test_urls() -> None:
    action = HTTPGetAction(port=80, path="health?x=%2F", scheme="HTTPS")
    assert url_of(action, "fd::1", 8443) == "https://[fd::1]:8443/health?x=%2F"
    assert url_of(HTTPGetAction(port=80, host="h"), "10.0.0.1", 80) == "http://h:80/"


@pytest.mark.parametrize("uses_tls", [False, True])
def test_grpc(uses_tls: bool) -> None:
    """The server implements the gRPC health protocol, with a healthy and an unhealthy service."""
    states = {b"": 1, b"\x0a\x04down": 2}

    class Health(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, call: Any) -> Any:
            if call.method != "/grpc.health.v1.Health/Check":
                return None

            async def check(request: bytes, context: Any) -> bytes:
                if request not in states:
                    await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
                return b"\x08" + bytes([states[request]])

            return grpc.unary_unary_rpc_method_handler(check)

    async def work() -> None:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers([Health()])
        if uses_tls:
            pair = make_ca("server", now=time.time())
            credentials = grpc.ssl_server_credentials([(pair.key, pair.certificate)])
            port = server.add_secure_port("127.0.0.1:0", credentials)
        else:
            port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            probe = partial(probe_grpc, "127.0.0.1", port, uses_tls=uses_tls)
            assert await probe("", 60) == ProbeResult(True, "service healthy")
            down = await probe("down", 60)
            assert down == ProbeResult(False, 'service unhealthy (responded with "NOT_SERVING")')
            assert "unknown service" in (await probe("x" * 300, 60)).text
            wrong = await probe_grpc("127.0.0.1", port, "", 0.5, uses_tls=not uses_tls)
            assert wrong.text.startswith(f'timeout: failed to connect service "127.0.0.1:{port}" within 500ms: ')
        finally:
            await server.stop(0)

    run_scenario(work)


def test_ports() -> None:
    container = json.from_value({"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}, Container)
    assert [port_of(80, container), port_of("web", container), port_of("81", container)] == [80, 8080, 81]
    for wrong in ("none", 0, 70000):
        with pytest.raises(ValueError, match="port"):
            port_of(wrong, container)
