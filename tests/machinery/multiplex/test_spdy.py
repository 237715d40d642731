"""Two ends of a SPDY connection."""

import asyncio

import pytest

from sampan.machinery.multiplex import spdy_frames as frames
from sampan.machinery.multiplex.handshake import Stream
from sampan.machinery.multiplex.spdy import SpdyConnection
from sampan.machinery.multiplex.upgrade import Tunnel
from sampan.machinery.multiplex.websocket import WebSocket
from sampan.machinery.multiplex.wire import Wire
from tests.machinery.multiplex.pairs import wires


def _ends(form: str) -> tuple[Wire, Wire]:
    ours, theirs = wires(most=7 if form == "cut" else 0)
    if form != "tunnel":
        return ours, theirs
    return Tunnel(WebSocket(ours, is_server=False)), Tunnel(WebSocket(theirs, is_server=True))


async def _all(stream: Stream) -> bytes:
    received = b""
    while data := await stream.read():
        received += data
    return received


@pytest.mark.parametrize("form", ["whole", "cut", "tunnel"])
async def test_streams_both_ways_with_ends_of_their_own(form: str) -> None:
    ours, theirs = _ends(form)
    async with (
        asyncio.timeout(60),
        SpdyConnection(theirs, is_server=True) as server,
        SpdyConnection(ours, is_server=False) as client,
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
            assert await _all(accepted) == b"question " * 8_000
            await accepted.write(b"answer")
            await accepted.close()
        assert [await _all(stream) for stream in opened] == [b"answer", b"answer"]
        with pytest.raises(ConnectionError):
            await opened[0].write(b"more")


async def test_a_reset_ends_both_directions() -> None:
    ours, theirs = wires()
    async with (
        asyncio.timeout(60),
        SpdyConnection(theirs, is_server=True) as server,
        SpdyConnection(ours, is_server=False) as client,
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
    ours, theirs = wires()
    async with (
        asyncio.timeout(60),
        SpdyConnection(theirs, is_server=True) as server,
        SpdyConnection(ours, is_server=False) as client,
    ):
        opened = await client.open({})
        stream = await server.accept()
        assert stream is not None
        await stream.write(b"the end")
        await stream.reset()
        await client.open({})  # by the answer all that was sent before has come
        assert await opened.read() == b"the end"
        with pytest.raises(ConnectionError):
            await opened.read()


async def test_who_does_not_read_is_not_sent_without_bounds() -> None:
    ours, theirs = wires()
    async with (
        asyncio.timeout(60),
        SpdyConnection(theirs, is_server=True) as server,
        SpdyConnection(ours, is_server=False) as client,
    ):
        opened = await client.open({})
        stream = await server.accept()
        assert stream is not None
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await opened.write(bytes(64 << 20))
        assert ours.written < 2 << 20
        assert len(await stream.read()) > 0


@pytest.mark.parametrize(
    "data", [b"\x80\x03\x00\x01\x00\x00\x00\x01x", b"GET / HTTP/1.1\r\n\r\n" * 10, b"\x80\x02" * 8]
)
async def test_nonsense_ends_the_connection(data: bytes) -> None:
    ours, theirs = wires()
    async with asyncio.timeout(60), SpdyConnection(theirs, is_server=True) as server:
        await ours.write(data)
        await ours.close()
        assert await server.accept() is None


async def test_streams_that_are_reset_at_once_do_not_pile_up() -> None:
    """Each leaves the table of streams, but would wait to be accepted."""

    ours, theirs = wires()
    async with asyncio.timeout(60), SpdyConnection(theirs, is_server=True) as server:
        writer = frames.Writer()
        for number in range(1, 4001, 2):
            await ours.write(writer.syn_stream(number, {}) + writer.rst_stream(number, 5) + writer.goaway(1))
        await ours.write(writer.ping(1))
        reader, replies = frames.Reader(), list[frames.Frame]()
        while not any(frame.kind == frames.PING for frame in replies):
            replies += reader.feed(await ours.read())
        assert server._accepted.qsize() <= 1001
        assert any(frame.kind == frames.RST_STREAM for frame in replies)
        await ours.close()
