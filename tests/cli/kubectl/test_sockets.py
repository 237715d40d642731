"""Connections to the API server for streams: directly, through a proxy, and with another name than the address."""

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

from sampan.cli.kubectl.session import Session
from sampan.cli.kubectl.sockets import open_stream
from sampan.machinery.client.access import Access
from sampan.machinery.multiplex.wire import close_writer

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
NAME = "api.example.com"


@asynccontextmanager
async def listener(handle: Handle, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    handlers: set[asyncio.Task[None]] = set()

    async def tracked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            handlers.add(task)
        try:
            await handle(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(tracked, "127.0.0.1", 0, ssl=tls)
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


async def answer(access: Access) -> bytes:
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
            assert await answer(access) == b"hello\n"
    assert tunnel.head.startswith("CONNECT 10.0.0.1:8080 HTTP/1.1\r\nHost: 10.0.0.1:8080\r\n")
    assert "Proxy-Authorization: Basic dXNlcjpwQHNz\r\n" in tunnel.head


async def test_proxy_may_refuse() -> None:
    async with listener(Tunnel(1, "403 Forbidden")) as port:
        access = Access(server="http://10.0.0.1:8080", proxy_url=f"http://127.0.0.1:{port}")
        with pytest.raises(ConnectionError, match="refused the connection: 403 Forbidden"):
            await answer(access)


@pytest.mark.parametrize("has_proxy", [False, True])
async def test_certificate_may_have_another_name_than_the_address(tmp_path: object, has_proxy: bool) -> None:
    context, pem = certificate(str(tmp_path))
    async with listener(echo, context) as port, listener(Tunnel(port)) as proxy_port:
        proxy = f"http://127.0.0.1:{proxy_port}" if has_proxy else ""
        access = Access(server=f"https://127.0.0.1:{port}", ca_pem=pem, proxy_url=proxy)
        with pytest.raises(ssl.SSLCertVerificationError):
            await answer(access)
        access.tls_server_name = NAME
        assert await answer(access) == b"hello\n"
