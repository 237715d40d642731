"""The client side of exec and attach."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from sampan.api.integers import parse_int64
from sampan.machinery.multiplex.channels import V5, Channels, ChannelStream
from sampan.machinery.multiplex.websocket import WebSocket

PROTOCOLS = (V5,)
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE = range(5)
_PING_S = 5.0

Output = Callable[[int, bytes], None]
"""Called with the number of the output stream (1 or 2) and the data."""


async def run(
    socket: WebSocket,
    output: Output,
    *,
    stdin: AsyncIterator[bytes] | None = None,
    sizes: AsyncIterator[tuple[int, int]] | None = None,
) -> dict[str, Any]:
    """Run until the process has exited; return its Status. Raise ConnectionError if the connection broke off."""
    async with Channels(socket, 5, tells_end=True) as channels:
        async with asyncio.TaskGroup() as group:
            streams = channels.streams
            beside = [group.create_task(_pings(socket))]
            if stdin is not None:
                beside.append(group.create_task(_input(streams[_STDIN], stdin)))
            if sizes is not None:
                beside.append(group.create_task(_sizes(streams[_RESIZE], sizes)))
            outputs = [group.create_task(_output(streams[number], number, output)) for number in (_STDOUT, _STDERR)]
            error = group.create_task(_all(streams[_ERROR]))
            await asyncio.wait([*outputs, error])
            for task in beside:
                task.cancel()
        content = error.result()
    await socket.close()
    return _status(content)


async def _pings(socket: WebSocket) -> None:
    with suppress(ConnectionError):
        while True:
            await asyncio.sleep(_PING_S)
            await socket.ping()


async def _input(stream: ChannelStream, stdin: AsyncIterator[bytes]) -> None:
    with suppress(ConnectionError):
        async for data in stdin:
            await stream.write(data)
        await stream.close()


async def _sizes(stream: ChannelStream, sizes: AsyncIterator[tuple[int, int]]) -> None:
    with suppress(ConnectionError):
        async for width, height in sizes:
            await stream.write(json.dumps({"Width": width, "Height": height}).encode())


async def _output(stream: ChannelStream, number: int, output: Output) -> None:
    with suppress(ConnectionError):
        while data := await stream.read():
            output(number, data)


async def _all(stream: ChannelStream) -> bytes:
    content = b""
    try:
        while data := await stream.read():
            content += data
    except ConnectionError:
        if not content:
            raise
    return content


def _status(said: bytes) -> dict[str, Any]:
    if not said:
        return {"status": "Success"}
    try:
        status: dict[str, Any] = json.loads(said)
        return status
    except (ValueError, RecursionError):
        return {"status": "Failure", "message": said.decode("utf-8", "replace")}


def exit_code(status: dict[str, Any]) -> int | None:
    """Return the exit code of the command; None for a failure that is not the command's own."""
    if status.get("status") == "Success":
        return 0
    if status.get("reason") == "NonZeroExitCode":
        for cause in (status.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode" and (code := parse_int64(str(cause.get("message", "")))) is not None:
                return code
    return None
