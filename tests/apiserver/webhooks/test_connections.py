"""Kept connections to webhooks: framing of responses, limits, reuse, and closing."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sampan.apiserver.webhooks.connections import (
    ConnectionClosed,
    Destination,
    DialFailed,
    ExchangeFailed,
    KeptConnections,
    ResponseLimits,
    WebhookHttpResponse,
)
from sampan.machinery.pki.certificates import SigningRequest, issue, make_ca
from tests.eventually import eventually

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REQUEST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"


class RawServer:
    """A TLS server that writes the same bytes for every request."""

    def __init__(self, directory: Path) -> None:
        now = time.time()
        ca = make_ca("webhooks", now=now)
        pair = issue(ca, SigningRequest(common_name="w", addresses=["127.0.0.1"], is_server=True), now=now)
        file = directory / "server.pem"
        file.write_bytes(pair.certificate + pair.key)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(file)
        self.context = ssl.create_default_context(cadata=ca.certificate.decode())
        self.response = OK
        self.closes = False
        self.connections = self.open = 0
        self.may_respond = asyncio.Event()
        self.may_respond.set()
        self.port = 0

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._handle, "127.0.0.1", 0, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield
            await eventually(lambda: self.open == 0)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while await reader.read(65536):
                await self.may_respond.wait()
                writer.write(self.response)
                if self.closes:
                    break
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            writer.close()

    def destination(self, server_name: str = "127.0.0.1") -> Destination:
        return Destination("127.0.0.1", self.port, server_name, self.context)


def run(directory: Path, work: object, *, keep_s: float = 60.0, connections_per_host: int = 2) -> None:
    async def main() -> None:
        server = RawServer(directory)
        async with server.serve():
            connections = KeptConnections(
                keep_s=keep_s, connections_per_host=connections_per_host, limits=ResponseLimits(1000, 10)
            )
            try:
                await work(server, connections)  # type: ignore[operator]
            finally:
                await connections.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (OK, WebhookHttpResponse(200, b"ok")),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, WebhookHttpResponse(200, b"ok")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", WebhookHttpResponse(204, b"")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", WebhookHttpResponse(200, b"")),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
            WebhookHttpResponse(200, b"ok"),
        ),
        (b"HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n", WebhookHttpResponse(302, b"")),
    ],
)
def test_connection_is_reused_after_a_complete_response(
    tmp_path: Path, response: bytes, expected: WebhookHttpResponse
) -> None:
    async def work(server: RawServer, connections: KeptConnections) -> None:
        server.response = response
        for _ in range(3):
            assert await connections.post(server.destination(), REQUEST) == expected
        assert server.connections == 1

    run(tmp_path, work)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", WebhookHttpResponse(200, b"ok")),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok", WebhookHttpResponse(200, b"ok")),
        (b"HTTP/1.0 200 OK\r\n\r\nok", WebhookHttpResponse(200, b"ok")),
        (b"HTTP/1.1 500 Error\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000, WebhookHttpResponse(500, b"x" * 10)),
    ],
)
def test_connection_is_not_reused_after_a_closing_or_truncated_response(
    tmp_path: Path, response: bytes, expected: WebhookHttpResponse
) -> None:
    async def work(server: RawServer, connections: KeptConnections) -> None:
        server.response, server.closes = response, True
        for _ in range(2):
            assert await connections.post(server.destination(), REQUEST) == expected
        assert server.connections == 2

    run(tmp_path, work)


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (b"", "EOF"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "unexpected EOF"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001, "the response has more than 1000 bytes"),
        (b"hello\r\n\r\n", "net/http: HTTP/1.x transport connection broken: "),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok",
            "the response has the content encoding gzip",
        ),
    ],
)
def test_incomplete_oversized_and_malformed_responses_are_errors(tmp_path: Path, response: bytes, message: str) -> None:
    async def work(server: RawServer, connections: KeptConnections) -> None:
        server.response, server.closes = response, True
        with pytest.raises(ExchangeFailed, match=message):
            await connections.post(server.destination(), REQUEST)
        assert server.connections == 1

    run(tmp_path, work)


def test_request_is_retried_once_if_its_kept_connection_is_closed(tmp_path: Path) -> None:
    async def work(server: RawServer, connections: KeptConnections) -> None:
        await connections.post(server.destination(), REQUEST)
        server.response, server.closes = b"", True
        with pytest.raises(ConnectionClosed):
            await connections.post(server.destination(), REQUEST)
        assert server.connections == 2

    run(tmp_path, work)


def test_connections_per_host_are_limited(tmp_path: Path) -> None:
    async def work(server: RawServer, connections: KeptConnections) -> None:
        server.may_respond.clear()
        posts = [asyncio.ensure_future(connections.post(server.destination(), REQUEST)) for _ in range(5)]
        await eventually(lambda: server.connections == 2)
        server.may_respond.set()
        assert await asyncio.gather(*posts) == [WebhookHttpResponse(200, b"ok")] * 5
        assert server.connections == 2

    run(tmp_path, work, connections_per_host=2)


def test_cancelled_request_closes_its_connection_and_frees_its_slot(tmp_path: Path) -> None:
    async def work(server: RawServer, connections: KeptConnections) -> None:
        server.may_respond.clear()
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await connections.post(server.destination(), REQUEST)
        server.may_respond.set()
        assert await connections.post(server.destination(), REQUEST) == WebhookHttpResponse(200, b"ok")

    run(tmp_path, work, connections_per_host=1)


def test_idle_connection_is_closed_after_the_keep_time(tmp_path: Path) -> None:
    async def work(server: RawServer, connections: KeptConnections) -> None:
        await connections.post(server.destination(), REQUEST)
        await eventually(lambda: server.open == 0)

    run(tmp_path, work, keep_s=0.05)


def test_a_certificate_with_another_name_and_a_closed_port_are_dial_failures(tmp_path: Path) -> None:
    async def work(server: RawServer, connections: KeptConnections) -> None:
        with pytest.raises(DialFailed) as failure:
            await connections.post(server.destination("other"), REQUEST)
        assert isinstance(failure.value.os_error, ssl.SSLCertVerificationError)
        with pytest.raises(DialFailed) as failure:
            await connections.post(server.destination()._replace(port=1), REQUEST)
        assert isinstance(failure.value.os_error, ConnectionRefusedError)

    run(tmp_path, work)
