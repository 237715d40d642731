"""Both sides of exec and attach: the server, and the client."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

from sampan.api.values.integers import parse_int64
from sampan.machinery.multiplex import channels as channel_forms
from sampan.machinery.multiplex.channels import V5, WebSocketChannels
from sampan.machinery.multiplex.handshake import (
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    STREAM_TYPE,
    MultiplexedStream,
    NegotiatedProtocol,
)
from sampan.machinery.multiplex.spdy import SpdyConnection
from sampan.machinery.multiplex.websocket import WebSocket
from sampan.machinery.multiplex.wire import Wire

SPDY_PROTOCOLS = (channel_forms.V4, channel_forms.V3, channel_forms.V2, channel_forms.CHANNEL)
WEBSOCKET_PROTOCOLS = (
    "",
    channel_forms.CHANNEL,
    channel_forms.BASE64,
    channel_forms.V4,
    channel_forms.V4_BASE64,
    channel_forms.V5,
)
NUMBERS = (STDIN, STDOUT, STDERR, ERROR, RESIZE)
"""The stream types in the order of the channel numbers."""
_RESIZE_PROTOCOLS = (channel_forms.V3, channel_forms.V4, channel_forms.V4_BASE64, channel_forms.V5)
_STATUS_PROTOCOLS = (channel_forms.V4, channel_forms.V4_BASE64, channel_forms.V5)
_STREAMS_S = 30.0
_SPACE = re.compile(r"\s*")
_MAX_RESIZE_LENGTH = 1 << 10
_OUTPUT = {1: STDOUT, 2: STDERR}


class RemoteProcess(Protocol):
    async def read(self) -> tuple[int, bytes] | None: ...
    async def write(self, data: bytes) -> None: ...
    async def close_input(self) -> None: ...
    async def resize(self, width: int, height: int) -> None: ...
    async def wait(self) -> int: ...
    async def close(self) -> None: ...


Begin = Callable[[], Awaitable[RemoteProcess]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCommandOptions:
    """The streams of the process that the client requests."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    def types(self, protocol: str) -> set[str]:
        named = {STDIN: self.stdin, STDOUT: self.stdout, STDERR: self.stderr, ERROR: True}
        named[RESIZE] = self.tty and protocol in _RESIZE_PROTOCOLS
        return {name for name, is_wanted in named.items() if is_wanted}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandStreams:
    """The streams that the client of an exec or attach has opened."""

    streams: Mapping[str, MultiplexedStream]
    closed: asyncio.Event
    has_status: bool
    """Whether the result is sent to the client as a Status, rather than as plain text."""


class NoStreams(Exception):
    """The client did not open the streams that it requested."""


@asynccontextmanager
async def accept_streams(
    wire: Wire, agreement: NegotiatedProtocol, options: RemoteCommandOptions
) -> AsyncIterator[CommandStreams]:
    """Yield the streams of a client, once all are open; afterwards they and the connection are closed."""
    has_status = agreement.protocol in _STATUS_PROTOCOLS
    types = options.types(agreement.protocol)
    if agreement.is_websocket:
        socket = WebSocket(wire, is_server=True, protocol=agreement.protocol)
        async with WebSocketChannels(socket, len(NUMBERS)) as channels:
            streams = {name: stream for name, stream in zip(NUMBERS, channels.streams, strict=True) if name in types}
            await streams[_select_greeting_stream(types)].write(b"")
            yield CommandStreams(streams=streams, closed=channels.closed, has_status=has_status)
        await socket.close()
        return
    async with SpdyConnection(wire, is_server=True) as connection:
        opened = await _accept_spdy_streams(connection, types)
        yield CommandStreams(streams=opened, closed=connection.closed, has_status=has_status)
        for stream in opened.values():
            await stream.close()


def _select_greeting_stream(types: set[str]) -> str:
    """Return the stream on which an empty message tells the client that the connection is established."""
    return next(name for name in (STDOUT, STDERR, ERROR) if name in types)


async def _accept_spdy_streams(connection: SpdyConnection, types: set[str]) -> dict[str, MultiplexedStream]:
    streams: dict[str, MultiplexedStream] = {}
    try:
        async with asyncio.timeout(_STREAMS_S):
            while types - set(streams):
                stream = await connection.accept()
                if stream is None:
                    raise NoStreams("the client closed the connection")
                streams[stream.headers.get(STREAM_TYPE, "")] = stream
    except TimeoutError:
        raise NoStreams("timed out waiting for client to create streams") from None
    return streams


async def serve(ends: CommandStreams, begin: Begin, command: Sequence[str] = ()) -> None:
    """Serve until the process or the client is gone, then close the process. An exception of `begin` is sent to the
    client."""
    try:
        process = await begin()
    except Exception as error:
        await _send_status(ends, _build_failure_status(str(error)))
        return
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in _inputs(ends.streams, process)]
            output = group.create_task(_forward_output(ends.streams, process))
            closed = group.create_task(ends.closed.wait())
            await asyncio.wait((output, closed), return_when=asyncio.FIRST_COMPLETED)
            is_over = output.done()
            for task in (*tasks, output, closed):
                task.cancel()
        if is_over:
            await _send_status(ends, _build_exit_status(await process.wait(), command))
    finally:
        await process.close()


def _inputs(streams: Mapping[str, MultiplexedStream], process: RemoteProcess) -> list[Any]:
    inputs = []
    if STDIN in streams:
        inputs.append(_forward_input(streams[STDIN], process))
    if RESIZE in streams:
        inputs.append(_forward_resizes(streams[RESIZE], process))
    return inputs


async def _forward_input(stream: MultiplexedStream, process: RemoteProcess) -> None:
    with suppress(ConnectionError):
        while data := await stream.read():
            await process.write(data)
        await process.close_input()


async def _forward_resizes(stream: MultiplexedStream, process: RemoteProcess) -> None:
    text = ""
    with suppress(ConnectionError):
        while data := await stream.read():
            text += data.decode("utf-8", "replace")
            sizes, text = parse_resizes(text)
            for width, height in sizes:
                await process.resize(width, height)


def parse_resizes(text: str) -> tuple[list[tuple[int, int]], str]:
    """Return the terminal sizes in the text, a sequence of JSON values, and the unparsed rest."""
    sizes: list[tuple[int, int]] = []
    decoder, position = json.JSONDecoder(), 0
    while (position := _SPACE.match(text, position).end()) < len(text):  # type: ignore[union-attr]
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            return sizes, text[position:] if len(text) - position < _MAX_RESIZE_LENGTH else ""
        if isinstance(value, dict):
            width, height = value.get("Width"), value.get("Height")
            if _is_size(width) and _is_size(height):
                sizes.append((width, height))
    return sizes, ""


def _is_size(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and 0 < value < 1 << 16


async def _forward_output(streams: Mapping[str, MultiplexedStream], process: RemoteProcess) -> None:
    with suppress(ConnectionError):
        while (piece := await process.read()) is not None:
            stream = streams.get(_OUTPUT[piece[0]])
            if stream is not None and piece[1]:
                await stream.write(piece[1])


# -- result ----------------------------------------------------------------------------------------------------------


async def _send_status(ends: CommandStreams, status: Mapping[str, Any]) -> None:
    is_fine = status["status"] == "Success"
    text = json.dumps(status, separators=(",", ":")) if ends.has_status else "" if is_fine else status["message"]
    with suppress(ConnectionError):
        for name in (STDOUT, STDERR):
            if name in ends.streams:
                await ends.streams[name].close()
        if text:
            await ends.streams[ERROR].write(text.encode())
        await ends.streams[ERROR].close()


def _build_exit_status(code: int, command: Sequence[str]) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    detail = f"error executing command [{' '.join(command)}], exit code {code}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: {detail}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _build_failure_status(text: str) -> dict[str, Any]:
    detail = f"error executing command in container: {text}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {detail}",
        "reason": "InternalError",
        "details": {"causes": [{"message": detail}]},
        "code": 500,
    }


PROTOCOLS = (V5,)
_PING_S = 5.0

Output = Callable[[int, bytes], None]
"""Called with the number of the output stream (1 or 2) and the data."""
Input = AsyncIterator[bytes]
Sizes = AsyncIterator[tuple[int, int]]


async def run_client(
    socket: WebSocket, output: Output, *, stdin: Input | None = None, sizes: Sizes | None = None
) -> dict[str, Any]:
    """Run until the process has exited; return its Status. Raise ConnectionError if the connection broke off."""
    async with WebSocketChannels(socket, len(NUMBERS), sends_close=True) as channels:
        streams = dict(zip(NUMBERS, channels.streams, strict=True))
        content = await _exchange(streams, socket.ping, output, stdin, sizes)
    await socket.close()
    return _parse_status(content)


async def run_spdy_client(
    wire: Wire, protocol: str, output: Output, *, stdin: Input | None = None, sizes: Sizes | None = None
) -> dict[str, Any]:
    """Like `run_client`, but over SPDY, for servers that do not support WebSockets for commands. With `sizes` the
    process has a terminal, and no separate stream of errors."""
    options = RemoteCommandOptions(stdin=stdin is not None, stdout=True, stderr=sizes is None, tty=sizes is not None)
    types = options.types(protocol)
    async with SpdyConnection(wire, is_server=False) as connection:
        order = (ERROR, STDIN, STDOUT, STDERR, RESIZE)
        streams = {name: await connection.open({"streamType": name}) for name in order if name in types}
        content = await _exchange(streams, connection.ping, output, stdin, sizes)
    return _parse_status(content)


async def _exchange(
    streams: Mapping[str, MultiplexedStream],
    ping: Callable[[], Awaitable[None]],
    output: Output,
    stdin: Input | None,
    sizes: Sizes | None,
) -> bytes:
    """Copy until the streams of output and the error stream have ended; return the content of the error stream."""
    async with asyncio.TaskGroup() as group:
        beside = [group.create_task(_send_pings(ping))]
        if stdin is not None:
            beside.append(group.create_task(_send_input(streams[STDIN], stdin)))
        if sizes is not None and RESIZE in streams:
            beside.append(group.create_task(_send_sizes(streams[RESIZE], sizes)))
        outputs = [
            group.create_task(_receive_output(streams[name], number, output))
            for number, name in _OUTPUT.items()
            if name in streams
        ]
        error = group.create_task(_read_all(streams[ERROR]))
        await asyncio.wait([*outputs, error])
        for task in beside:
            task.cancel()
    return error.result()


async def _send_pings(ping: Callable[[], Awaitable[None]]) -> None:
    with suppress(ConnectionError):
        while True:
            await asyncio.sleep(_PING_S)
            await ping()


async def _send_input(stream: MultiplexedStream, stdin: Input) -> None:
    with suppress(ConnectionError):
        async for data in stdin:
            await stream.write(data)
        await stream.close()


async def _send_sizes(stream: MultiplexedStream, sizes: Sizes) -> None:
    with suppress(ConnectionError):
        async for width, height in sizes:
            await stream.write(json.dumps({"Width": width, "Height": height}).encode())


async def _receive_output(stream: MultiplexedStream, number: int, output: Output) -> None:
    with suppress(ConnectionError):
        while data := await stream.read():
            output(number, data)


async def _read_all(stream: MultiplexedStream) -> bytes:
    content = b""
    try:
        while data := await stream.read():
            content += data
    except ConnectionError:
        if not content:
            raise
    return content


def _parse_status(data: bytes) -> dict[str, Any]:
    if not data:
        return {"status": "Success"}
    try:
        status: dict[str, Any] = json.loads(data)
        return status
    except (ValueError, RecursionError):
        return {"status": "Failure", "message": data.decode("utf-8", "replace")}


def exit_code(status: dict[str, Any]) -> int | None:
    """Return the exit code of the command; None for a failure that is not the command's own."""
    if status.get("status") == "Success":
        return 0
    if status.get("reason") == "NonZeroExitCode":
        for cause in (status.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode" and (code := parse_int64(str(cause.get("message", "")))) is not None:
                return code
    return None
