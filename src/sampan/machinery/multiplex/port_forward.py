"""Both sides of port-forward. The server side supports three forms: pairs of SPDY streams, the same inside a WebSocket,
and pairs of a WebSocket's channels. The client side listens on local ports and opens a pair of SPDY streams for each
connection."""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from sampan.machinery.multiplex import channels as channel_forms
from sampan.machinery.multiplex.channels import WebSocketChannels
from sampan.machinery.multiplex.handshake import (
    DATA,
    ERROR,
    PORT,
    PORT_FORWARD,
    REQUEST_ID,
    STREAM_TYPE,
    TUNNELLED_PORT_FORWARD,
    MultiplexedStream,
    NegotiatedProtocol,
)
from sampan.machinery.multiplex.spdy import SpdyConnection, SpdyStream
from sampan.machinery.multiplex.upgrade import WebSocketTunnel
from sampan.machinery.multiplex.websocket import WebSocket
from sampan.machinery.multiplex.wire import PIECE, Wire, close_writer

SPDY_PROTOCOLS = (PORT_FORWARD,)
WEBSOCKET_PROTOCOLS = (TUNNELLED_PORT_FORWARD, "", channel_forms.V4, channel_forms.V4_BASE64)
_PAIR_S = 30.0

Connect = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Connects to a port; its exceptions become error messages for the client."""


async def serve(
    wire: Wire, agreement: NegotiatedProtocol, ports: Sequence[int], connect: Connect, subject: str
) -> None:
    """Serve until the client disconnects. `ports` are the ports that a client of the channel form requests; `subject`
    names the owner of the ports in error messages."""
    if not agreement.is_websocket:
        await serve_spdy(wire, connect, subject)
        return
    socket = WebSocket(wire, is_server=True, protocol=agreement.protocol)
    if agreement.protocol == TUNNELLED_PORT_FORWARD:
        await serve_spdy(WebSocketTunnel(socket), connect, subject)
    else:
        await _serve_channels(socket, ports, connect, subject)


# -- pairs of channels -----------------------------------------------------------------------------------------------


async def _serve_channels(socket: WebSocket, ports: Sequence[int], connect: Connect, subject: str) -> None:
    async with WebSocketChannels(socket, 2 * len(ports)) as channels:
        streams = channels.streams
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_serve_pair(streams[2 * index], streams[2 * index + 1], port, connect, subject))
                for index, port in enumerate(ports)
            ]
            closed = group.create_task(channels.closed.wait())
            served = group.create_task(_wait_for_all(tasks))
            await asyncio.wait((closed, served), return_when=asyncio.FIRST_COMPLETED)
            for task in (*tasks, closed, served):
                task.cancel()
    await socket.close()


async def _wait_for_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)


async def _serve_pair(
    data: MultiplexedStream, error: MultiplexedStream, port: int, connect: Connect, subject: str
) -> None:
    with suppress(ConnectionError):
        for stream in (data, error):
            await stream.write(struct.pack("<H", port))
        await forward(data, error, port, connect, subject)


# -- pairs of SPDY streams -------------------------------------------------------------------------------------------


async def serve_spdy(wire: Wire, connect: Connect, subject: str) -> None:
    async with SpdyConnection(wire, is_server=True) as connection, asyncio.TaskGroup() as group:
        pairs: dict[str, dict[str, SpdyStream]] = {}
        tasks: set[asyncio.Task[None]] = set()

        def begin(work: Coroutine[Any, Any, None]) -> None:
            task = group.create_task(work)
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        while (stream := await connection.accept()) is not None:
            kind, port = stream.headers.get(STREAM_TYPE, ""), port_of(stream)
            if kind not in (ERROR, DATA) or port is None:
                await stream.reset()
                continue
            request = _request_of(stream, kind)
            pair = pairs.setdefault(request, {})
            if not pair:
                begin(_expire(pairs, request))
            pair[kind] = stream
            if len(pair) == 2:
                del pairs[request]
                begin(forward(pair[DATA], pair[ERROR], port, connect, subject))
        await connection.closed.wait()
        for task in list(tasks):
            task.cancel()


def port_of(stream: MultiplexedStream) -> int | None:
    text = stream.headers.get(PORT, "")
    return int(text) if text.isdecimal() and text.isascii() and 0 < int(text[:6]) < 1 << 16 else None


def _request_of(stream: SpdyStream, kind: str) -> str:
    """Return the request ID of a stream, which the two streams of a pair share. Old clients send none and open the
    error stream of a pair just before the data stream: their ID is the number of the error stream."""
    request_id = stream.headers.get(REQUEST_ID)
    return request_id if request_id else f"#{stream.number if kind == ERROR else stream.number - 2}"


async def _expire(pairs: dict[str, dict[str, SpdyStream]], request: str) -> None:
    pair = pairs[request]
    await asyncio.sleep(_PAIR_S)
    if pairs.get(request) is pair:
        del pairs[request]
        for kind, stream in pair.items():
            if kind == ERROR:
                with suppress(ConnectionError):
                    await stream.write(f"port forward stream {request} timed out".encode())
            await stream.reset()


# -- one connection --------------------------------------------------------------------------------------------------


async def forward(data: MultiplexedStream, error: MultiplexedStream, port: int, connect: Connect, subject: str) -> None:
    """Join a pair of streams with the port until either side is done; errors are written to the error stream."""
    try:
        reader, writer = await connect(port)
    except Exception as failure:
        await _report(error, f"error forwarding port {port} to {subject}: {failure}")
        await data.close()
        return
    try:
        await exchange_data(data, reader, writer)
    finally:
        writer.close()
        await data.close()
        await error.close()


async def exchange_data(
    stream: MultiplexedStream,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    ends_with_stream: bool = False,
) -> None:
    """Copy in both directions until the serving side has finished: the socket, or with `ends_with_stream` the stream.
    When the other side finishes, only the copying to the serving side ends; if either breaks off, everything ends."""
    async with asyncio.TaskGroup() as group:
        sent = group.create_task(_copy_to_writer(stream, writer))
        received = group.create_task(_copy_to_stream(stream, reader))
        served, asking = (sent, received) if ends_with_stream else (received, sent)
        await asyncio.wait((served, asking), return_when=asyncio.FIRST_COMPLETED)
        if asking.done() and asking.result():
            await asyncio.wait((served,))
        sent.cancel()
        received.cancel()


async def _copy_to_writer(stream: MultiplexedStream, writer: asyncio.StreamWriter) -> bool:
    """Copy from the stream to the writer until the stream ends; return False if the stream or the writer broke off."""
    try:
        while piece := await stream.read():
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        return False
    return True


async def _copy_to_stream(stream: MultiplexedStream, reader: asyncio.StreamReader) -> bool:
    try:
        while piece := await reader.read(PIECE):
            await stream.write(piece)
        await stream.close()
    except OSError:
        return False
    return True


async def _report(error: MultiplexedStream, text: str) -> None:
    with suppress(ConnectionError):
        await error.write(text.encode())
    await error.close()


PROTOCOLS = (TUNNELLED_PORT_FORWARD,)
_TYPE, _PORT, _REQUEST = "streamType", "port", "requestID"


class PortForwardSession:
    """Joins local connections with ports of the other side. `report` is called with error messages."""

    def __init__(self, connection: SpdyConnection, report: Callable[[str], None]) -> None:
        self._connection, self._report = connection, report
        self._numbers = itertools.count()

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, local: int, remote: int) -> None:
        headers = {_PORT: str(remote), _REQUEST: str(next(self._numbers))}
        try:
            error = await self._connection.open({**headers, _TYPE: ERROR})
            await error.close()
            data = await self._connection.open({**headers, _TYPE: DATA})
            await exchange_data(data, reader, writer, ends_with_stream=True)
            await data.close()
            if message := await _read_all(error):
                self._report(f"an error occurred forwarding {local} -> {remote}: {message}")
            await data.reset()
        except ConnectionError as failure:
            self._report(f"error creating forwarding stream for port {local} -> {remote}: {failure}")
        finally:
            await close_writer(writer)


async def _read_all(stream: MultiplexedStream) -> str:
    content = b""
    with suppress(ConnectionError):
        while data := await stream.read():
            content += data
    return content.decode("utf-8", "replace")
