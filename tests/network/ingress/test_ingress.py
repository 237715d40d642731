"""Ingress servers with real sockets: an API server, the controller, backends of aiohttp and raw clients."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from sampan.api.types.core_v1 import Event, Namespace, Node, Secret, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.networking_v1 import Ingress, IngressClass
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.kubelet.agent.machine import find_machine_addresses
from sampan.machinery.client import Client
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory
from sampan.machinery.pki.certificates import KeyPair, SigningRequest, issue, make_ca
from sampan.network.http_port import bind_socket
from sampan.network.ingress import listener as listener_module
from sampan.network.ingress import node_server
from sampan.network.ingress.controller import IngressController
from sampan.network.ingress.publication import CONTROLLER, SERVICE, IngressConfig, ensure_ingress_objects
from tests.api_server import running_api_server
from tests.eventually import eventually
from tests.network.ingress.objects import ingress
from tests.network.proxy.objects import endpoint, endpoint_slice, port, service

ADDRESS = find_machine_addresses()[0]
"""The API server accepts no loopback addresses of endpoints."""
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class IngressLab:
    """An Ingress server with an API server, in which tests create services and Ingresses."""

    def __init__(self, client: Client, controller: IngressController) -> None:
        self.client, self.controller = client, controller
        self.http_port = self.https_port = 0

    async def put(self, obj: Ingress | Service | EndpointSlice | Secret) -> None:
        obj.metadata.creationTimestamp = None
        await self.client.for_kind(type(obj)).create(obj, "default")

    async def serve(self, name: str, *ports: int) -> None:
        """Create a service with an EndpointSlice for each port of this machine."""
        await self.put(service(name, port(80, name="http"), ip=()))
        for number in ports:
            await self.put(
                endpoint_slice(name, endpoint(ADDRESS), name=f"{name}-{number}", number=number, port_name="http")
            )

    async def send_raw(self, request: bytes, *, until: bytes = b"") -> bytes:
        """Send bytes and return the response: all of it, or up to some bytes."""
        reader, writer = await asyncio.open_connection(ADDRESS, self.http_port)
        try:
            writer.write(request)
            return await (reader.readuntil(until) if until else reader.read())
        finally:
            writer.close()

    async def get(self, path: str = "/", host: str = "web.example", headers: str = "") -> tuple[int, bytes]:
        text = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n"
        head, _, body = (await self.send_raw(text.encode())).partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), body


@asynccontextmanager
async def ingress_lab() -> AsyncIterator[IngressLab]:
    async with asyncio.timeout(60), running_api_server() as api:
        client = api.client()
        for name in ("kube-system", "default"):
            await client.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name=name)))
        await client.for_kind(Node).create(Node(metadata=ObjectMeta(name="node")))
        await ensure_ingress_objects(client, IngressConfig())
        await ensure_ingress_objects(client, IngressConfig())
        async with InformerFactory(client=client) as informers:
            controller = IngressController(config=IngressConfig(), client=client, informers=informers, clock=api.clock)
            async with controller, asyncio.TaskGroup() as group:
                server = controller.server_of(node="node", namespace=NetworkNamespace(), addresses=[ADDRESS])
                task = group.create_task(server.run())
                slices = informers.for_kind(EndpointSlice)
                name = f"{SERVICE.name}-node"
                await eventually(lambda: slices.lister.get(name, SERVICE.namespace) is not None)
                published = slices.lister.get(name, SERVICE.namespace)
                assert published is not None
                result = IngressLab(client, controller)
                result.http_port, result.https_port = (entry.port or 0 for entry in published.ports or ())
                try:
                    yield result
                finally:
                    task.cancel()


@asynccontextmanager
async def backend(handler: Handler) -> AsyncIterator[int]:
    """Run an HTTP server, and yield its port."""
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    bound = bind_socket(NetworkNamespace(), ADDRESS, 0)
    await web.SockSite(runner, bound).start()
    try:
        yield int(bound.getsockname()[1])
    finally:
        await runner.cleanup()


def run(test: Callable[[IngressLab], Awaitable[None]]) -> None:
    async def main() -> None:
        async with ingress_lab() as lab:
            await test(lab)

    asyncio.run(main())


async def create_route(lab: IngressLab, *ports: int) -> None:
    await lab.serve("web", *ports)
    item = ingress("web", {"web.example": [("/", "Prefix", "web")]})
    await lab.put(item)
    await eventually(lambda: lab.controller.table.route("web.example", "/") is not None)
    route = lab.controller.table.route("web.example", "/")
    assert route is not None
    await eventually(lambda: len(lab.controller.backends.candidates(route.backend, 9)) == len(ports))


def test_path_is_forwarded_unchanged_and_forged_headers_are_replaced() -> None:
    requests: list[web.BaseRequest] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        requests.append(request)
        return web.Response(text="ok", status=302, headers={"Location": "http://x/", "X-A": "1", "Connection": "X-A"})

    async def test(lab: IngressLab) -> None:
        async with backend(handler) as number:
            await create_route(lab, number)
            forged = (
                "X-Forwarded-For: 9.9.9.9\r\nX_Forwarded_For: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\nX-Real-IP: 9\r\n"
            )
            code, body = await lab.get("/a/b%2fc//d?x=%20&y", headers=f"{forged}Te: trailers\r\nX-Kept: 1\r\n")
            assert (code, body) == (302, b"ok"), "a redirect is not followed"
        request = requests[0]
        assert request.raw_path == "/a/b%2fc//d?x=%20&y"
        values = {name: request.headers.getall(name) for name in ("X-Forwarded-For", "X-Real-IP", "Host", "X-Kept")}
        assert values == {
            "X-Forwarded-For": [ADDRESS],
            "X-Real-IP": [ADDRESS],
            "Host": ["web.example"],
            "X-Kept": ["1"],
        }
        assert not {"Forwarded", "X_Forwarded_For", "Te"} & set(request.headers)
        assert request.headers["X-Forwarded-Proto"] == "http"

    run(test)


def test_status_codes_of_rejected_and_failed_requests() -> None:
    async def test(lab: IngressLab) -> None:
        unused = bind_socket(NetworkNamespace(), ADDRESS, 0)
        number = unused.getsockname()[1]
        unused.close()
        assert (await lab.get())[0] == 404
        await create_route(lab, number)
        assert (await lab.get())[0] == 502, "the endpoint refuses connections"
        await lab.client.for_kind(EndpointSlice).delete(f"web-{number}", "default")

        async def is_unavailable() -> bool:
            return (await lab.get())[0] == 503

        await eventually(is_unavailable)
        assert (await lab.get(host="other.example"))[0] == 404
        assert (await lab.get("http://other.example/"))[0] == 404, "the URL takes precedence over the Host header"
        assert (await lab.get("*"))[0] == 400
        assert (await lab.get(host="web.example/x"))[0] == 400
        assert (await lab.get(headers="Host: other\r\n"))[0] == 400
        assert (await lab.get("/" + "x" * 20_000))[0] == 400
        assert (await lab.get(headers="".join(f"X-{number}: 1\r\n" for number in range(200))))[0] == 400

    run(test)


def test_requests_are_balanced_and_refusing_endpoints_are_skipped() -> None:
    def make_handler(name: str) -> Handler:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(text=name + (await request.read()).decode())

        return handler

    async def test(lab: IngressLab) -> None:
        unused = bind_socket(NetworkNamespace(), ADDRESS, 0)
        number = unused.getsockname()[1]
        unused.close()
        async with backend(make_handler("a")) as first, backend(make_handler("b")) as second:
            await create_route(lab, first, second, number)
            results = [(await lab.get())[1] for _ in range(9)]
            assert set(results) == {b"a", b"b"}
            async with aiohttp.ClientSession() as session:
                for _ in range(3):
                    url, headers = f"http://{ADDRESS}:{lab.http_port}/", {"Host": "web.example"}
                    async with session.post(url, data=b"body", headers=headers) as response:
                        assert await response.text() in ("abody", "bbody")

    run(test)


def test_bodies_are_streamed_in_both_directions() -> None:
    """The first piece of the body reaches the backend, and its response the client, before the second piece is sent."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        async for piece in request.content.iter_any():
            await response.write(piece.upper())
        return response

    async def test(lab: IngressLab) -> None:
        async with backend(handler) as number:
            await create_route(lab, number)
            reader, writer = await asyncio.open_connection(ADDRESS, lab.http_port)
            writer.write(b"POST / HTTP/1.1\r\nHost: web.example\r\nTransfer-Encoding: chunked\r\n\r\n")
            for word in (b"one", b"two"):
                writer.write(b"3\r\n" + word + b"\r\n")
                await reader.readuntil(word.upper())
            writer.write(b"0\r\n\r\n")
            await reader.readuntil(b"0\r\n\r\n")
            writer.close()

    run(test)


def test_slow_client_exerts_back_pressure_on_the_backend() -> None:
    sent = 0

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)
            sent += 65536

    async def test(lab: IngressLab) -> None:
        async with backend(handler) as number:
            await create_route(lab, number)
            _, writer = await asyncio.open_connection(ADDRESS, lab.http_port, limit=1024)
            writer.write(b"GET / HTTP/1.1\r\nHost: web.example\r\n\r\n")
            before = 0

            def is_stopped() -> bool:
                nonlocal before
                previous, before = before, sent
                return 0 < sent == previous

            await eventually(is_stopped, poll_s=0.3)
            assert sent < 64 << 20
            writer.close()

    run(test)


def test_websocket_connections_are_forwarded() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=["chat"])
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data.upper())
        return socket

    async def test(lab: IngressLab) -> None:
        async with backend(handler) as number, aiohttp.ClientSession() as session:
            await create_route(lab, number)
            url, headers = f"ws://{ADDRESS}:{lab.http_port}/chat", {"Host": "web.example"}
            async with session.ws_connect(url, headers=headers, protocols=["chat"]) as socket:
                assert socket.protocol == "chat"
                for text in ("hello", "x" * 100_000):
                    await socket.send_str(text)
                    assert await socket.receive_str() == text.upper()

    run(test)


def count_pending_connections(port: int) -> int:
    """Return the number of connections to a port that the kernel has established and no server has accepted."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = "0A"
    return sum(int(row[4].partition(":")[2], 16) for row in rows if row[3] == listening and _port_of(row[1]) == port)


def _port_of(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def test_connections_beyond_the_limit_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection beyond the limit is accepted when another connection is closed."""
    other_listeners = 1  # the HTTPS listener waits for a connection too
    monkeypatch.setattr(node_server, "MAX_CONNECTIONS", 3 + other_listeners)

    async def test(lab: IngressLab) -> None:
        open_connections = [await asyncio.open_connection(ADDRESS, lab.http_port) for _ in range(3)]
        waiting = asyncio.create_task(lab.get())
        await eventually(lambda: count_pending_connections(lab.http_port))
        reader, writer = open_connections[1]
        writer.write(b"GET / HTTP/1.1\r\nHost: web.example\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")  # the server has had the time to accept the connection that waits
        assert count_pending_connections(lab.http_port) == 1
        assert not waiting.done()
        open_connections[0][1].close()
        assert (await waiting)[0] == 404
        for _, writer in open_connections:
            writer.close()

    run(test)


def test_connections_beyond_the_limit_per_client_get_429(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit applies to an address. A connection is accepted when another one of the address is closed."""
    monkeypatch.setattr(node_server, "INGRESS_CLIENT_CONNECTIONS", 2)

    async def test(lab: IngressLab) -> None:
        connections = [await asyncio.open_connection(ADDRESS, lab.http_port) for _ in range(2)]
        response = await lab.send_raw(b"")
        assert response.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
        assert response.endswith(b"\r\n\r\ntoo many connections from this address")
        reader, writer = await asyncio.open_connection(ADDRESS, lab.https_port)
        assert await reader.read() == b""  # HTTPS shares the limit
        for connection in (writer, connections[0][1]):
            connection.close()
        await eventually(lambda: _status_of(lab, 404))
        connections[1][1].close()

    run(test)


async def _status_of(lab: IngressLab, code: int) -> bool:
    response = await lab.send_raw(b"GET / HTTP/1.1\r\nHost: web.example\r\nConnection: close\r\n\r\n")
    return response.startswith(b"HTTP/1.1 %d " % code)


def test_a_client_that_sends_no_request_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "_IDLE_S", 0.3)

    async def test(lab: IngressLab) -> None:
        assert await lab.send_raw(b"GET / HTTP/1.1\r\nHost: web.exa") == b""

    run(test)


def test_client_that_trickles_the_request_head_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte arrives within the timeout, but the whole head does not."""
    monkeypatch.setattr(listener_module, "_IDLE_S", 0.3)

    async def test(lab: IngressLab) -> None:
        reader, writer = await asyncio.open_connection(ADDRESS, lab.http_port)
        ended = asyncio.ensure_future(reader.read())
        while not ended.done():
            writer.write(b"G")
            await asyncio.wait([ended], timeout=0.05)
        assert not isinstance(ended.exception(), TimeoutError)
        writer.close()

    run(test)


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: web.example\r\nConnection: close\r\n\r\n"


AMBIGUOUS_HEADS = (
    b"Content-Length: %d\r\nTransfer-Encoding: chunked" % (len(SMUGGLED) + 5),
    b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    b"Content-Length: 5\r\nContent-Length: %d" % (len(SMUGGLED) + 5),
    b"Content-Length: 5, %d" % (len(SMUGGLED) + 5),
    b"Content-Length: +5",
    b"Content-Length : 5",
    b"Transfer-Encoding : chunked",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding:\x0bchunked",
    b"X: y\r\n Transfer-Encoding: chunked",
    b"X: y\nTransfer-Encoding: chunked",
    b"X: y\rTransfer-Encoding: chunked",
    b"X: y\0",
    b"X y: z",
    b"Connection: content-length\r\nContent-Length: 5",
    b"Connection: transfer-encoding\r\nTransfer-Encoding: chunked",
    b"Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Key: a\r\nContent-Length: 5",
)


def test_ambiguous_requests_do_not_smuggle_a_second_request() -> None:
    """The backend must see exactly the requests that the Ingress server sees."""
    paths: list[str] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        paths.append(request.path)
        return web.Response(text="ok")

    async def test(lab: IngressLab) -> None:
        async with backend(handler) as port:
            await create_route(lab, port)
            for head in AMBIGUOUS_HEADS:
                paths.clear()
                request = b"POST /first HTTP/1.1\r\nHost: web.example\r\n" + head + b"\r\n\r\n"
                response = await lab.send_raw(request + b"0\r\n\r\n" + SMUGGLED)
                accepted_count = response.count(b"HTTP/1.1 200")
                assert len(paths) == accepted_count, (head, paths, response)
                assert paths[:1] in ([], ["/first"]), (head, paths, response)

    run(test)


def key_pair(name: str) -> KeyPair:
    now = time.time()
    return issue(make_ca("ca", now=now), SigningRequest(common_name=name, dns_names=[name], is_server=True), now=now)


def test_certificates_follow_tls_secrets() -> None:
    async def certificate(lab: IngressLab, name: str) -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection(ADDRESS, lab.https_port, ssl=context, server_hostname=name)
        result = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        assert isinstance(result, bytes)
        return result

    def der(pair: KeyPair) -> bytes:
        return ssl.PEM_cert_to_DER_cert(pair.certificate.decode())

    async def test(lab: IngressLab) -> None:
        first, second = key_pair("web.example"), key_pair("web.example")
        default = await certificate(lab, "web.example")
        item = ingress("web", {"web.example": [("/", "Prefix", "web")]}, secrets={"*.example": "tls"})
        await lab.put(item)
        events = lab.client.for_kind(Event)

        async def is_reported() -> bool:
            return any(event.reason == "UnusableSecret" for event in (await events.list()).items)

        async def has_certificate(content: bytes) -> bool:
            return await certificate(lab, "web.example") == content

        await eventually(is_reported)
        data = {"tls.crt": first.certificate, "tls.key": first.key}
        secret = Secret(metadata=ObjectMeta(name="tls", namespace="default"), type="kubernetes.io/tls", data=data)
        await lab.put(secret)
        await eventually(lambda: has_certificate(der(first)))
        assert await certificate(lab, "other.test") == default
        changed = copy_of(await lab.client.for_kind(Secret).get("tls", "default"))
        changed.data = {"tls.crt": second.certificate, "tls.key": second.key}
        await lab.client.for_kind(Secret).update(changed)
        await eventually(lambda: has_certificate(der(second)))
        changed = copy_of(await lab.client.for_kind(Secret).get("tls", "default"))
        changed.data = {"tls.crt": second.certificate, "tls.key": first.key}
        await lab.client.for_kind(Secret).update(changed)
        await eventually(lambda: has_certificate(default))

    run(test)


def test_only_ingresses_of_own_classes_are_routed_and_get_a_status() -> None:
    async def test(lab: IngressLab) -> None:
        classes = lab.client.for_kind(IngressClass)
        created = await classes.get("sampan")
        assert created.spec.controller == CONTROLLER
        assert created.metadata.annotations == {"ingressclass.kubernetes.io/is-default-class": "true"}
        await lab.put(ingress("foreign", {"foreign.example": [("/", "Prefix", "web")]}, class_name="other"))
        await lab.put(ingress("own", {"own.example": [("/", "Prefix", "web")]}))
        table = lab.controller.table
        await eventually(lambda: table.route("own.example", "/") is not None)
        assert table.route("foreign.example", "/") is None
        await classes.create(IngressClass(metadata=ObjectMeta(name="other"), spec=created.spec))
        await eventually(lambda: table.route("foreign.example", "/") is not None)
        await classes.delete("other")
        await eventually(lambda: table.route("foreign.example", "/") is None)

        status = {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}
        await lab.client.for_kind(Service).patch(
            SERVICE.name, {"status": status}, SERVICE.namespace, subresource="status"
        )

        async def has_address() -> bool:
            item = await lab.client.for_kind(Ingress).get("own", "default")
            return [entry.ip for entry in item.status.loadBalancer.ingress] == ["192.0.2.7"]

        await eventually(has_address)
        foreign = await lab.client.for_kind(Ingress).get("foreign", "default")
        assert foreign.status.loadBalancer.ingress == []

    run(test)
