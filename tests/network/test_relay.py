"""Relays with real sockets on loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from typing import cast

import pytest

from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.network.http_port import bind_socket
from sampan.network.relay import DatagramRelay, StreamRelay
from tests.eventually import eventually

LOCAL = "127.0.0.1"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(port: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    connection = socket.socket(socket.AF_INET, kind)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (LOCAL, port))
    return connection


@asynccontextmanager
async def running_task(work: Awaitable[None]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def running_relay(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], most: int = 10
) -> AsyncIterator[int]:
    """Yield the port of a relay to a server."""
    server = await asyncio.start_server(serve, LOCAL, 0)
    port = server.sockets[0].getsockname()[1]
    listener = bind_socket(NetworkNamespace(), LOCAL, 0)
    relay = StreamRelay(listener=listener, upstream=lambda _: connect(port), limit=asyncio.Semaphore(most))
    number = listener.getsockname()[1]
    async with server, running_task(relay.run()):
        yield number


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def test_stream_relay_forwards_in_both_directions() -> None:
    async with running_relay(echo) as port:
        reader, writer = await asyncio.open_connection(LOCAL, port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        writer.close()


def test_relays_run_on_uvloop() -> None:
    """uvloop, which the commands use, starts to read a connection immediately."""
    uvloop = pytest.importorskip("uvloop")
    for test in (
        test_stream_relay_forwards_in_both_directions,
        test_half_close,
        test_back_pressure,
        test_client_is_reset_if_the_upstream_refuses,
    ):
        uvloop.run(test())
    for test in (test_each_datagram_client_has_its_own_flow, test_idle_datagram_flows_expire):
        uvloop.run(test())


async def test_half_close() -> None:
    """A client that has nothing more to send still receives the whole response."""

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read()
        for _ in range(10):  # a relay that mistakes the half-close for a close would close now
            await asyncio.sleep(0)
        writer.write(f"{len(data)} ".encode() + bytes(1 << 20))
        writer.close()

    async with running_relay(count) as port:
        reader, writer = await asyncio.open_connection(LOCAL, port)
        writer.write(bytes(300_000))
        writer.write_eof()
        response = await reader.read()
        assert response[:7] == b"300000 "
        assert len(response) == 7 + (1 << 20)
        writer.close()


async def test_back_pressure() -> None:
    """A client that does not read stops the server, whatever the server has to send."""
    sent, stopped = 0, asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(bytes(1 << 16))
            sent += 1 << 16
            try:
                async with asyncio.timeout(0.5):
                    await writer.drain()
            except TimeoutError:
                stopped.set()
                break
        writer.transport.abort()

    async with running_relay(flood) as port:
        with closing(await connect(port)):
            async with asyncio.timeout(30):
                await stopped.wait()
    assert sent < 64 << 20


async def test_client_reset_closes_the_upstream_connection() -> None:
    closed = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.read()
        closed.set()
        writer.close()

    async with running_relay(wait) as port:
        _, writer = await asyncio.open_connection(LOCAL, port)
        writer.write(b"x")
        await writer.drain()
        writer.transport.abort()
        async with asyncio.timeout(10):
            await closed.wait()


async def test_connections_beyond_the_limit_wait() -> None:
    async with running_relay(echo, most=1) as port:
        first, second = [await asyncio.open_connection(LOCAL, port) for _ in range(2)]
        for _, writer in (first, second):
            writer.write(b"hello")
        assert await first[0].readexactly(5) == b"hello"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await second[0].readexactly(5)
        first[1].close()
        assert await second[0].readexactly(5) == b"hello"
        second[1].close()


async def test_client_is_reset_if_the_upstream_refuses() -> None:
    async def refuse(client: str) -> socket.socket:
        raise ConnectionRefusedError

    listener = bind_socket(NetworkNamespace(), LOCAL, 0)
    port = listener.getsockname()[1]
    async with running_task(StreamRelay(listener=listener, upstream=refuse).run()):
        reader, writer = await asyncio.open_connection(LOCAL, port)
        with pytest.raises(ConnectionResetError):
            assert await reader.read() != b""
        writer.close()


class DatagramServer(asyncio.DatagramProtocol):
    """Sends each datagram back, with the port of its sender."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.transport.sendto(data + f" {addr[1]}".encode(), addr)


@asynccontextmanager
async def datagram_relay(**settings: float) -> AsyncIterator[tuple[int, DatagramRelay]]:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(DatagramServer, (LOCAL, 0))
    port = transport.get_extra_info("sockname")[1]
    listener = bind_socket(NetworkNamespace(), LOCAL, 0, socket.SOCK_DGRAM)
    relay = DatagramRelay(
        listener=listener,
        upstream=lambda _: connect(port, socket.SOCK_DGRAM),
        **settings,  # type: ignore[arg-type]
    )
    number = listener.getsockname()[1]
    async with running_task(relay.run()):
        await asyncio.sleep(0)
        yield number, relay
    transport.close()


async def exchange(client: socket.socket, data: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, data)
    async with asyncio.timeout(10):
        return await loop.sock_recv(client, 100)


async def test_each_datagram_client_has_its_own_flow() -> None:
    async with datagram_relay() as (port, _):
        with (
            closing(await connect(port, socket.SOCK_DGRAM)) as a,
            closing(await connect(port, socket.SOCK_DGRAM)) as b,
        ):
            first, other, again = await exchange(a, b"1"), await exchange(b, b"2"), await exchange(a, b"1")
    assert first == again
    assert first.split()[1] != other.split()[1]


async def test_idle_datagram_flows_expire() -> None:
    idle_s = 0.2
    async with datagram_relay(idle_s=idle_s) as (port, _):
        with closing(await connect(port, socket.SOCK_DGRAM)) as client:
            first = await exchange(client, b"1")

            async def has_new_flow() -> bool:
                return await exchange(client, b"1") != first

            await eventually(has_new_flow, poll_s=2 * idle_s)


async def test_number_of_datagram_flows_is_bounded() -> None:
    async with datagram_relay(max_flows=2) as (port, _):
        clients = [await connect(port, socket.SOCK_DGRAM) for _ in range(3)]
        replies = [await exchange(client, b"1") for client in clients]
        assert await exchange(clients[2], b"1") == replies[2]
        assert await exchange(clients[0], b"1") != replies[0]
        for client in clients:
            client.close()
