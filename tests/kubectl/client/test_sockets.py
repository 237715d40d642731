"""Connections to the API server for streams: direct, through a proxy, and with a TLS server name."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sampan.kubectl.client.session import Session
from sampan.kubectl.client.sockets import open_port_forward, open_stream, run_process
from sampan.kubectl.errors import ServerError
from sampan.machinery.client.access import Access
from sampan.machinery.multiplex import handshake, port_forward, remote_command
from sampan.machinery.multiplex.port_forward import PortForwardSession
from sampan.machinery.multiplex.remote_command import RemoteCommandOptions
from sampan.machinery.multiplex.spdy import SpdyConnection
from sampan.machinery.multiplex.wire import StreamWire, close_writer

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
NAME = "api.example.com"


@asynccontextmanager
async def listener(handle: Handle, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    handlers: set[asyncio.Task[None]] = set()

    async def run_handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            handlers.add(task)
        try:
            await handle(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(run_handler, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*handlers, return_exceptions=True)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.readline())


class Tunnel:
    """A proxy that connects to one server, whatever address a client requests."""

    def __init__(self, port: int, status: str = "200 OK") -> None:
        self._port, self._status = port, status
        self.head = ""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.head = (await reader.readuntil(b"\r\n\r\n")).decode()
        writer.write(f"HTTP/1.1 {self._status}\r\n\r\n".encode())
        if not self._status.startswith("200"):
            return
        near, far = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(self._copy(reader, far), self._copy(near, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def certificate(directory: str) -> tuple[ssl.SSLContext, bytes]:
    """Return the context of a server whose certificate has NAME, and the certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
    signed = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), False).sign(key, hashes.SHA256())
    pem = signed.public_bytes(Encoding.PEM)
    path = f"{directory}/server.pem"
    with open(path, "wb") as file:
        file.write(pem + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context, pem


async def fetch(access: Access) -> bytes:
    reader, writer = await open_stream(Session(access, "default").endpoint())
    writer.write(b"hello\n")
    try:
        return await reader.readline()
    finally:
        await close_writer(writer)


async def test_proxy_gets_the_address_and_its_own_credentials() -> None:
    async with listener(echo) as port:
        tunnel = Tunnel(port)
        async with listener(tunnel) as proxy_port:
            access = Access(server="http://10.0.0.1:8080", proxy_url=f"http://user:p%40ss@127.0.0.1:{proxy_port}")
            assert await fetch(access) == b"hello\n"
    assert tunnel.head.startswith("CONNECT 10.0.0.1:8080 HTTP/1.1\r\nHost: 10.0.0.1:8080\r\n")
    assert "Proxy-Authorization: Basic dXNlcjpwQHNz\r\n" in tunnel.head


async def test_refusal_of_the_proxy_is_reported() -> None:
    async with listener(Tunnel(1, "403 Forbidden")) as port:
        access = Access(server="http://10.0.0.1:8080", proxy_url=f"http://127.0.0.1:{port}")
        with pytest.raises(ConnectionError, match="refused the connection: 403 Forbidden"):
            await fetch(access)


@pytest.mark.parametrize("has_proxy", [False, True])
async def test_tls_server_name_overrides_the_address_in_certificate_checks(tmp_path: object, has_proxy: bool) -> None:
    context, pem = certificate(str(tmp_path))
    async with listener(echo, context) as port, listener(Tunnel(port)) as proxy_port:
        proxy = f"http://127.0.0.1:{proxy_port}" if has_proxy else ""
        access = Access(server=f"https://127.0.0.1:{port}", ca_pem=pem, proxy_url=proxy)
        with pytest.raises(ssl.SSLCertVerificationError):
            await fetch(access)
        access.tls_server_name = NAME
        assert await fetch(access) == b"hello\n"


class Greeter:
    """A process that prints a greeting for its input, and exits with code 3."""

    def __init__(self) -> None:
        self._output: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue()

    async def read(self) -> tuple[int, bytes] | None:
        return await self._output.get()

    async def write(self, data: bytes) -> None:
        self._output.put_nowait((1, b"hello " + data))

    async def close_input(self) -> None:
        self._output.put_nowait((2, b"bye"))
        self._output.put_nowait(None)

    async def resize(self, width: int, height: int) -> None: ...

    async def wait(self) -> int:
        return 3

    async def close(self) -> None: ...


class OldServer:
    """An API server that supports exec and port forwarding over SPDY only."""

    def __init__(self, refusal: str) -> None:
        self._refusal = refusal
        self.requests: list[str] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.requests.append(first)
        headers = [line.partition(": ")[::2] for line in lines if line]

        def values(name: str) -> list[str]:
            return [value for key, value in headers if key.lower() == name.lower()]

        if handshake.is_websocket(values):
            writer.write(f"HTTP/1.1 {self._refusal}\r\nContent-Length: 0\r\n\r\n".encode())
        elif "/missing/" in first:
            body = '{"kind":"Status","status":"Failure","message":"no such pod","reason":"NotFound","code":404}'
            writer.write(f"HTTP/1.1 404 Not Found\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        else:
            await self._serve(StreamWire(reader, writer), values, first)

    async def _serve(self, wire: StreamWire, values: handshake.Values, first: str) -> None:
        if first.split("?")[0].endswith("/portforward HTTP/1.1"):
            agreement = handshake.negotiate_protocol(values, spdy=port_forward.SPDY_PROTOCOLS, websocket=())
            await wire.write(agreement.head)
            await port_forward.serve(wire, agreement, (), self._connect, "pod")
            return
        agreement = handshake.negotiate_protocol(values, spdy=remote_command.SPDY_PROTOCOLS, websocket=())
        await wire.write(agreement.head)
        options = RemoteCommandOptions(stdin=True, stdout=True, stderr=True)
        async with remote_command.accept_streams(wire, agreement, options) as ends:
            await remote_command.serve(ends, self._begin, ["greet"])

    async def _begin(self) -> Greeter:
        return Greeter()

    async def _connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port)


async def chunks(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


@pytest.mark.parametrize("refusal", ["400 Bad Request", "403 Forbidden", "501 Not Implemented"])
async def test_exec_falls_back_to_spdy(refusal: str) -> None:
    server, output = OldServer(refusal), {1: b"", 2: b""}

    def collect(number: int, data: bytes) -> None:
        output[number] += data

    async with asyncio.timeout(60), listener(server) as port:
        session = Session(Access(server=f"http://127.0.0.1:{port}"), "default")
        status = await run_process(session, "/pods/p/exec", [("command", "greet")], collect, stdin=chunks(b"world"))
    assert (output, remote_command.exit_code(status)) == ({1: b"hello world", 2: b"bye"}, 3)
    assert [request.split()[0] for request in server.requests] == ["GET", "POST"]


async def test_exec_reports_the_error_of_the_spdy_request() -> None:
    async with asyncio.timeout(60), listener(OldServer("403 Forbidden")) as port:
        session = Session(Access(server=f"http://127.0.0.1:{port}"), "default")
        with pytest.raises(ServerError, match="no such pod"):
            await run_process(session, "/pods/missing/exec", [], lambda *_: None)


async def test_websockets_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "FALSE")
    server = OldServer("400 Bad Request")
    async with asyncio.timeout(60), listener(server) as port:
        session = Session(Access(server=f"http://127.0.0.1:{port}"), "default")
        await run_process(session, "/pods/p/exec", [], lambda *_: None, stdin=chunks())
    assert [request.split()[0] for request in server.requests] == ["POST"]


async def test_port_forward_falls_back_to_spdy() -> None:
    errors: list[str] = []
    async with asyncio.timeout(60), listener(OldServer("400 Bad Request")) as port, listener(echo) as remote:
        session = Session(Access(server=f"http://127.0.0.1:{port}"), "default")
        wire = await open_port_forward(session, "/pods/p/portforward")
        async with SpdyConnection(wire, is_server=False) as connection:
            forwarding = PortForwardSession(connection, errors.append)

            async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await forwarding.join(reader, writer, 1, remote)

            async with listener(join) as local:
                assert await fetch(Access(server=f"http://127.0.0.1:{local}")) == b"hello\n"
    assert errors == []
