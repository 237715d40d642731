"""Connections with real sockets: their states, and clients that do not behave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from sampan.host.http import (
    BadBody,
    EdgeLimits,
    HttpConnection,
    HttpConnections,
    HttpRequest,
    HttpResponse,
    State,
    StreamResponse,
)
from tests.apiserver.http.wire import HEAD, Wire, request
from tests.eventually import eventually

GET = b"GET / HTTP/1.1\r\n" + HEAD + b"\r\n"
MIB = 1 << 20


@dataclass
class Lab:
    """A server whose handlers are the methods of this class, by the first element of the path."""

    port: int = 0
    connections: list[HttpConnection] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    handled: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    async def handle(self, request: HttpRequest) -> StreamResponse | None:
        name = request.path[1:].partition("/")[0] or "ok"
        handler: Callable[[HttpRequest], Awaitable[StreamResponse | None]] = getattr(self, name)
        try:
            response = await handler(request)
        except asyncio.CancelledError:
            self.cancelled.append(request.path_and_query)
            raise
        self.handled.append(request.path_and_query)
        return response

    async def ok(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(text="ok")

    async def wait(self, request: HttpRequest) -> HttpResponse:
        await self.go.wait()
        return HttpResponse(text="waited")

    async def echo(self, request: HttpRequest) -> HttpResponse:
        try:
            return HttpResponse(body=await request.read(MIB))
        except BadBody as error:
            return HttpResponse(status=400, text=str(error))

    async def stream(self, request: HttpRequest) -> StreamResponse:
        response = StreamResponse(headers={"Content-Type": "text/plain"})
        response.start(request)
        for piece in (b"a", b"b" * 100_000, b"c"):
            await response.write(piece)
        return response

    async def flood(self, request: HttpRequest) -> StreamResponse:
        response = StreamResponse()
        response.start(request)
        for _ in range(1000):
            await response.write(b"x" * 100_000)
        return response

    async def take(self, request: HttpRequest) -> None:
        wire = request.take_over(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\n")
        while data := await wire.read():
            await wire.write(data.upper())

    async def fail(self, request: HttpRequest) -> None:
        raise RuntimeError("defect")

    async def fail_late(self, request: HttpRequest) -> None:
        response = StreamResponse()
        response.start(request)
        await response.write(b"begun")
        raise RuntimeError("defect")


@asynccontextmanager
async def lab(*, cancels_handlers: bool = False, **limits: float) -> AsyncIterator[Lab]:
    lab = Lab()
    connections = HttpConnections(
        lab.handle,
        limits=EdgeLimits(**limits),  # type: ignore[arg-type]
        cancels_handlers=cancels_handlers,
    )

    def make() -> HttpConnection:
        connection = HttpConnection(connections)
        lab.connections.append(connection)
        return connection

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    lab.port = server.sockets[0].getsockname()[1]
    try:
        yield lab
    finally:
        lab.go.set()
        server.close()
        await connections.close(1)
        assert len(connections) == 0


async def test_states_of_a_request() -> None:
    async with lab() as site, Wire(site.port) as wire:
        await eventually(lambda: len(site.connections) == 1)
        (connection,) = site.connections
        assert (connection.state, connection.is_busy) == (State.HEAD, False)
        wire.send(b"POST /wait HTTP/1.1\r\n" + HEAD + b"Content-Length: 2\r\n\r\n{")
        await eventually(lambda: connection.state is State.BODY)
        assert connection.is_busy
        wire.send(b"}")
        await eventually(lambda: connection.state is State.RESPOND)
        site.go.set()
        assert (await wire.read_response()).text == "waited"
        assert (connection.state, connection.is_busy) == (State.HEAD, False)


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with lab() as site, Wire(site.port) as wire:
        wire.send(request("GET", "/wait/1") + request("POST", "/echo/2", b"two") + b"\r\n" + request("GET", "/ok/3"))
        await asyncio.sleep(0)
        site.go.set()
        assert [(await wire.read_response()).text for _ in range(3)] == ["waited", "two", "ok"]
        assert site.handled == ["/wait/1", "/echo/2", "/ok/3"]


async def test_a_client_that_pipelines_without_end_is_not_read() -> None:
    async with lab() as site, Wire(site.port) as wire:
        wire.send(request("GET", "/wait"))
        for _ in range(200):
            wire.send(request("GET", "/ok/" + "x" * 4000) * 10)
        await eventually(lambda: bool(site.connections) and len(site.connections[0]._input) > 256 << 10)
        assert len(site.connections[0]._input) < MIB
        site.go.set()
        assert (await wire.read_response()).text == "waited"
        for _ in range(2000):
            assert (await wire.read_response()).text == "ok"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\n" + HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" + GET, 400),
        (b"POST /echo HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + GET, 400),
        (b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n" + GET, 431),
        (b"GET / HTTP/2.0\r\n" + HEAD + b"\r\n" + GET, 505),
    ],
)
async def test_nothing_after_a_refused_request_is_served(sent: bytes, code: int) -> None:
    async with lab(linger_s=0.1) as site, Wire(site.port) as wire:
        wire.send(GET + sent)
        assert (await wire.read_response()).text == "ok"
        response = await wire.read_response()
        assert (response.code, response.headers["connection"]) == (code, "close")
        assert await wire.is_closed()
        assert site.handled == ["/"]


async def test_malformed_rest_of_a_body_ends_the_connection() -> None:
    async with lab(linger_s=0.1) as site, Wire(site.port) as wire:
        wire.send(b"POST /echo HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
        await eventually(lambda: bool(site.connections) and site.connections[0].state is State.BODY)
        wire.send(b"zz\r\n" + GET)
        response = await wire.read_response()
        assert (response.code, response.headers["connection"]) == (400, "close")
        assert await wire.is_closed()
        assert site.handled == ["/echo"]


async def test_unread_body_is_discarded_before_the_next_request() -> None:
    async with lab() as site, Wire(site.port) as wire:
        wire.send(b"POST /ok HTTP/1.1\r\n" + HEAD + b"Content-Length: 1000000\r\n\r\n")
        assert (await wire.read_response()).text == "ok"
        wire.send(b"x" * 1_000_000 + request("GET", "/ok/2"))
        assert (await wire.read_response()).text == "ok"
        assert site.handled == ["/ok", "/ok/2"]


async def test_unread_body_that_has_arrived_does_not_stop_the_next_request() -> None:
    async with lab() as site, Wire(site.port) as wire:
        for number in range(3):
            wire.send(request("POST", f"/wait/{number}", b"x" * 400_000))
            await eventually(lambda: bool(site.connections) and site.connections[0].state is State.RESPOND)
            site.go.set()
            assert (await wire.read_response()).text == "waited"
            site.go.clear()


async def test_blank_lines_before_a_request_are_skipped_in_linear_time() -> None:
    async with lab() as site, Wire(site.port) as wire:
        wire.send(b"\r\n" * 1_000_000 + b"\r")
        wire.send(b"\n" + GET)
        assert (await wire.read_response()).text == "ok"


async def test_no_request_behind_an_aborted_one_is_served() -> None:
    async with lab() as site, Wire(site.port) as wire:
        wire.send(request("GET", "/fail_late") + request("GET", "/ok/2"))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await wire.read_response()
        await eventually(lambda: site.connections[0].state is State.CLOSED)
        assert site.handled == []


async def test_unread_body_that_does_not_arrive_ends_the_connection() -> None:
    async with lab(linger_s=0.1) as site, Wire(site.port) as wire:
        wire.send(b"POST /ok HTTP/1.1\r\n" + HEAD + b"Content-Length: 1000000\r\n\r\n")
        assert (await wire.read_response()).text == "ok"
        assert await wire.is_closed()


async def test_body_larger_than_its_limit_gets_413() -> None:
    async with lab() as site, Wire(site.port) as wire:
        wire.send(b"POST /echo HTTP/1.1\r\n" + HEAD + b"Content-Length: 3000000\r\n\r\n" + b"x" * 2_000_000)
        assert (await wire.read_response()).code == 413


async def test_streamed_response_is_chunked_or_ends_with_the_connection() -> None:
    content = b"a" + b"b" * 100_000 + b"c"
    async with lab() as site:
        async with Wire(site.port) as wire:
            response = await wire.request("GET", "/stream")
            assert (response.headers["transfer-encoding"], response.body) == ("chunked", content)
            head = await wire.request("HEAD", "/stream")
            assert (head.code, head.headers["content-type"]) == (200, "text/plain")
            assert (await wire.request("GET", "/ok")).text == "ok"
        async with Wire(site.port) as wire:
            wire.send(b"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            response = await wire.read_response()
            assert (response.headers["connection"], response.body) == ("close", content)


async def test_small_pieces_of_one_turn_are_one_write() -> None:
    async with lab() as site, Wire(site.port) as wire:
        wire.send(b"GET /stream HTTP/1.1\r\n" + HEAD + b"\r\n")
        assert (await wire.reader.readuntil(b"\r\n1\r\na\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        await wire.reader.readuntil(b"0\r\n\r\n")


async def test_writer_waits_for_a_client_that_does_not_read() -> None:
    async with lab(cancels_handlers=True) as site:
        async with Wire(site.port, has_small_buffer=True) as wire:
            wire.send(b"GET /flood HTTP/1.1\r\n" + HEAD + b"\r\n")
            await eventually(lambda: bool(site.connections) and site.connections[0].is_congested)
            written = site.connections[0].response_bytes
            assert written < 50 * MIB
            wire.abort()
        await eventually(lambda: site.cancelled == ["/flood"])


@pytest.mark.parametrize("cancels_handlers", [True, False])
async def test_handler_of_a_lost_connection_is_cancelled_if_wanted(cancels_handlers: bool) -> None:
    async with lab(cancels_handlers=cancels_handlers) as site:
        async with Wire(site.port) as wire:
            wire.send(request("GET", "/wait"))
            await eventually(lambda: bool(site.connections) and site.connections[0].is_busy)
            wire.abort()
        connection = site.connections[0]
        await eventually(lambda: connection.has_ended or connection.state is State.CLOSED)
        site.go.set()
        await eventually(lambda: bool(site.cancelled if cancels_handlers else site.handled))
        assert (site.cancelled, site.handled) == ((["/wait"], []) if cancels_handlers else ([], ["/wait"]))


async def test_taken_over_connection_gets_what_was_sent_behind_the_request() -> None:
    async with lab() as site, Wire(site.port) as wire:
        wire.send(request("GET", "/take") + b"first ")
        assert (await wire.head())[0] == 101
        wire.send(b"second")
        assert await wire.reader.readexactly(12) == b"FIRST SECOND"
        assert site.connections[0].state is State.UPGRADED
        wire.finish()
        assert await wire.is_closed()


async def test_defect_in_a_handler_gets_500_or_a_cut_response(caplog: pytest.LogCaptureFixture) -> None:
    async with lab() as site:
        async with Wire(site.port) as wire:
            assert (await wire.request("GET", "/fail")).code == 500
            assert await wire.is_closed()
        async with Wire(site.port) as wire:
            wire.send(request("GET", "/fail_late"))
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await wire.read_response()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "unexpected error in GET /fail",
        "unexpected error in GET /fail_late",
    ]


@pytest.mark.parametrize("has_response", [True, False])
async def test_slow_head_ends_the_connection(has_response: bool) -> None:
    async with lab(head_s=0.1, linger_s=0.1, answers_slow_heads=has_response) as site, Wire(site.port) as wire:
        wire.send(b"GET / HTTP")
        if has_response:
            assert (await wire.read_response()).code == 408
        assert await wire.is_closed()


async def test_idle_connections_are_closed() -> None:
    async with lab(head_s=0.1, idle_s=0.1) as site, Wire(site.port) as silent, Wire(site.port) as used:
        assert (await used.request("GET", "/")).text == "ok"
        assert await silent.is_closed()
        assert await used.is_closed()


async def test_expect_gets_100_when_the_body_is_read() -> None:
    async with lab() as site, Wire(site.port) as wire:
        wire.send(b"POST /echo HTTP/1.1\r\n" + HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert (await wire.read_response()).code == 100
        wire.send(b"{}")
        assert (await wire.read_response()).text == "{}"
        wire.send(b"POST /ok HTTP/1.1\r\n" + HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert (await wire.read_response()).text == "ok"


async def test_control_characters_do_not_end_a_header() -> None:
    response = HttpResponse(headers={"X": "a\r\nY: b\x00"}, reason="a\nb")
    async with lab() as site, Wire(site.port) as wire:
        site.ok = lambda request: asyncio.sleep(0, response)  # type: ignore[method-assign]
        assert (await wire.request("GET", "/ok")).headers["x"] == "aY: b"
