"""Port forwarding end to end, over every protocol, to a real port."""

import asyncio
import struct

import pytest

from sampan.machinery.multiplex import port_forward
from sampan.machinery.multiplex.channels import WebSocketChannels
from sampan.machinery.multiplex.handshake import PORT_FORWARD, TUNNELLED_PORT_FORWARD, NegotiatedProtocol
from sampan.machinery.multiplex.port_forward import PortForwardSession
from sampan.machinery.multiplex.spdy import SpdyConnection
from sampan.machinery.multiplex.upgrade import WebSocketTunnel
from sampan.machinery.multiplex.websocket import WebSocket
from sampan.machinery.multiplex.wire import Wire
from tests.machinery.multiplex.pairs import echo_server, wires


async def _connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


@pytest.mark.parametrize("is_tunnelled", [False, True])
async def test_concurrent_connections_over_spdy(is_tunnelled: bool) -> None:
    server, port = await echo_server()
    client_wire: Wire
    client_wire, server_wire = wires()
    agreement = NegotiatedProtocol(
        protocol=TUNNELLED_PORT_FORWARD if is_tunnelled else PORT_FORWARD, is_websocket=is_tunnelled
    )
    errors: list[str] = []
    if is_tunnelled:
        client_wire = WebSocketTunnel(WebSocket(client_wire, is_server=False))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(port_forward.serve(server_wire, agreement, (), _connect, "pod p"))
        async with SpdyConnection(client_wire, is_server=False) as connection:
            forwarding = PortForwardSession(connection, errors.append)

            async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await forwarding.join(reader, writer, 1, port)

            local = await asyncio.start_server(join, "127.0.0.1", 0)
            async with local:
                responses = await asyncio.gather(*(_exchange(local, b"x" * size) for size in (1, 1000, 300_000)))
            assert [len(response) for response in responses] == [4, 1003, 300_003]
            assert all(response.endswith(b"bye") for response in responses)
    server.close()
    assert errors == []


async def _exchange(server: asyncio.Server, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(data)
    writer.write_eof()
    response = await reader.read(-1)
    writer.close()
    await writer.wait_closed()
    return response


async def test_refused_connection_is_reported_on_the_error_stream() -> None:
    client_wire, server_wire = wires()

    async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ConnectionRefusedError("connection refused")

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        agreement = NegotiatedProtocol(protocol=PORT_FORWARD, is_websocket=False)
        group.create_task(port_forward.serve(server_wire, agreement, (), connect, "pod p, uid u"))
        async with SpdyConnection(client_wire, is_server=False) as connection:
            headers = {"port": "81", "requestID": "0"}
            error = await connection.open({**headers, "streamType": "error"})
            await connection.open({**headers, "streamType": "data"})
            message = await error.read()
            assert message == b"error forwarding port 81 to pod p, uid u: connection refused"
            faulty = await connection.open({"port": "none", "streamType": "data"})
            with pytest.raises(ConnectionError):
                await faulty.read()


async def test_websocket_channels() -> None:
    server, port = await echo_server()
    client_wire, server_wire = wires()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        agreement = NegotiatedProtocol(protocol="v4.channel.k8s.io", is_websocket=True)
        group.create_task(port_forward.serve(server_wire, agreement, (port, port), _connect, "pod p"))
        socket = WebSocket(client_wire, is_server=False, protocol=agreement.protocol)
        async with WebSocketChannels(socket, 4) as channels:
            first = [await stream.read() for stream in channels.streams]
            assert first == [struct.pack("<H", port)] * 4
            await channels.streams[2].write(b"hello")
            assert await channels.streams[2].read() == b"hello"
        await socket.close()
    server.close()
