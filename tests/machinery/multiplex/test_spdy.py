"""SPDY connections between two ends in this process."""

import asyncio

import pytest

from sampan.machinery.multiplex import spdy_frames as frames
from sampan.machinery.multiplex.handshake import MultiplexedStream
from sampan.machinery.multiplex.spdy import SpdyConnection
from sampan.machinery.multiplex.upgrade import WebSocketTunnel
from sampan.machinery.multiplex.websocket import WebSocket
from sampan.machinery.multiplex.wire import Wire
from tests.machinery.multiplex.pairs import MemoryWire, wires


def _make_wires(form: str) -> tuple[Wire, Wire]:
    client_wire, server_wire = wires(most=7 if form == "split" else 0)
    if form != "tunnel":
        return client_wire, server_wire
    return WebSocketTunnel(WebSocket(client_wire, is_server=False)), WebSocketTunnel(
        WebSocket(server_wire, is_server=True)
    )


async def _read_all(stream: MultiplexedStream) -> bytes:
    received = b""
    while data := await stream.read():
        received += data
    return received


@pytest.mark.parametrize("form", ["whole", "split", "tunnel"])
async def test_streams_are_closed_separately_in_each_direction(form: str) -> None:
    client_wire, server_wire = _make_wires(form)
    async with (
        asyncio.timeout(60),
        SpdyConnection(server_wire, is_server=True) as server,
        SpdyConnection(client_wire, is_server=False) as client,
    ):
        opened = [await client.open({"streamType": name, "Port": "80"}) for name in ("error", "data")]
        streams = [await server.accept(), await server.accept()]
        assert [dict(stream.headers) for stream in streams if stream] == [
            {"streamtype": "error", "port": "80"},
            {"streamtype": "data", "port": "80"},
        ]
        for stream in opened:
            await stream.write(b"question " * 8_000)
            await stream.close()
        for accepted in reversed(streams):
            assert accepted is not None
            assert await _read_all(accepted) == b"question " * 8_000
            await accepted.write(b"answer")
            await accepted.close()
        assert [await _read_all(stream) for stream in opened] == [b"answer", b"answer"]
        with pytest.raises(ConnectionError):
            await opened[0].write(b"more")


async def test_a_reset_ends_both_directions() -> None:
    client_wire, server_wire = wires()
    async with (
        asyncio.timeout(60),
        SpdyConnection(server_wire, is_server=True) as server,
        SpdyConnection(client_wire, is_server=False) as client,
    ):
        opened = await client.open({})
        stream = await server.accept()
        assert stream is not None
        await opened.reset()
        with pytest.raises(ConnectionError):
            await stream.read()
        with pytest.raises(ConnectionError):
            await stream.write(b"x")


async def test_data_sent_before_a_reset_is_read() -> None:
    client_wire, server_wire = wires()
    async with (
        asyncio.timeout(60),
        SpdyConnection(server_wire, is_server=True) as server,
        SpdyConnection(client_wire, is_server=False) as client,
    ):
        opened = await client.open({})
        stream = await server.accept()
        assert stream is not None
        await stream.write(b"the end")
        await stream.reset()
        await client.open({})  # its reply arrives after everything that was sent before
        assert await opened.read() == b"the end"
        with pytest.raises(ConnectionError):
            await opened.read()


async def test_flow_control_stops_writes_to_a_peer_that_does_not_read() -> None:
    client_wire, server_wire = wires()
    async with (
        asyncio.timeout(60),
        SpdyConnection(server_wire, is_server=True) as server,
        SpdyConnection(client_wire, is_server=False) as client,
    ):
        opened = await client.open({})
        stream = await server.accept()
        assert stream is not None
        write = asyncio.create_task(opened.write(bytes(64 << 20)))
        await _wait_until_stalled(client_wire)
        assert not write.done()
        assert 0 < client_wire.written < 2 << 20
        before = client_wire.written
        while client_wire.written == before:
            assert len(await stream.read()) > 0
        assert not write.done()
        write.cancel()


async def _wait_until_stalled(wire: MemoryWire) -> None:
    """Wait until nothing has been written for many turns of the event loop, on which both ends run."""
    quiet_turns = 0
    while quiet_turns < 100:
        before = wire.written
        await asyncio.sleep(0)
        quiet_turns = quiet_turns + 1 if wire.written == before else 0


@pytest.mark.parametrize(
    "data", [b"\x80\x03\x00\x01\x00\x00\x00\x01x", b"GET / HTTP/1.1\r\n\r\n" * 10, b"\x80\x02" * 8]
)
async def test_malformed_data_closes_the_connection(data: bytes) -> None:
    client_wire, server_wire = wires()
    async with asyncio.timeout(60), SpdyConnection(server_wire, is_server=True) as server:
        await client_wire.write(data)
        await client_wire.close()
        assert await server.accept() is None


async def test_number_of_streams_waiting_to_be_accepted_is_limited() -> None:
    """A stream that is reset at once leaves the table of streams, but would still wait to be accepted."""

    client_wire, server_wire = wires()
    async with asyncio.timeout(60), SpdyConnection(server_wire, is_server=True) as server:
        writer = frames.SpdyFrameWriter()
        for number in range(1, 4001, 2):
            await client_wire.write(writer.syn_stream(number, {}) + writer.rst_stream(number, 5) + writer.goaway(1))
        await client_wire.write(writer.ping(1))
        reader, replies = frames.SpdyFrameReader(), list[frames.SpdyFrame]()
        while not any(frame.kind == frames.PING for frame in replies):
            replies += reader.feed(await client_wire.read())
        assert server._accepted.qsize() <= 1001
        assert any(frame.kind == frames.RST_STREAM for frame in replies)
        await client_wire.close()
