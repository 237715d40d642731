"""Numbered streams over a WebSocket: the first byte of a message is the number of its stream.

In the base64 form messages are text, and the number is a digit. In version 5 a message with the number 255 closes the
stream that its second byte names.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from types import TracebackType

from sampan.machinery.multiplex.websocket import BINARY, TEXT, WebSocket
from sampan.machinery.multiplex.wire import PIECE, ByteQueue

CHANNEL, BASE64 = "channel.k8s.io", "base64.channel.k8s.io"
V2, V3, V4, V5 = (f"v{number}.{CHANNEL}" for number in (2, 3, 4, 5))
V4_BASE64 = f"v4.{BASE64}"
_END = 255


class ChannelStream:
    def __init__(self, channels: WebSocketChannels, number: int) -> None:
        self._channels, self._number = channels, number
        self.headers: Mapping[str, str] = {}
        self.inbox = ByteQueue()
        self._is_closed = False

    async def read(self) -> bytes:
        return await self.inbox.get()

    async def write(self, data: bytes) -> None:
        """Send the data. Even an empty piece is sent: it tells the client that the connection is established."""
        if self._is_closed:
            raise ConnectionResetError("the stream is closed")
        for index in range(0, len(data) or 1, PIECE):
            await self._channels.send(self._number, data[index : index + PIECE])

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self._channels.send_close(self._number)

    async def reset(self) -> None:
        self._is_closed = True
        self.inbox.discard()


class WebSocketChannels:
    """`async with WebSocketChannels(socket, count):` dispatches incoming messages until the block is left; the socket
    stays open.

    With `sends_close` this side, too, signals the end of a stream (as a client of version 5 does).
    """

    def __init__(self, socket: WebSocket, count: int, *, sends_close: bool = False) -> None:
        self._socket = socket
        self._is_base64 = socket.protocol in (BASE64, V4_BASE64)
        self._supports_close = socket.protocol == V5
        self._sends_close = sends_close and self._supports_close
        self.streams = [ChannelStream(self, number) for number in range(count)]
        self.closed = asyncio.Event()
        """Set when the other side has closed or aborted the connection."""
        self._group = asyncio.TaskGroup()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> WebSocketChannels:
        await self._group.__aenter__()
        self._task = self._group.create_task(self._receive())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
        await self._group.__aexit__(None, None, None)  # an exception of the block propagates unchanged

    async def _receive(self) -> None:
        error: Exception | None = None
        try:
            while (message := await self._socket.receive()) is not None:
                await self._take(message.data)
        except ConnectionError as broken:
            error = broken
        finally:
            self.closed.set()
            for stream in self.streams:
                stream.inbox.end(error)

    async def _take(self, data: bytes) -> None:
        if not data:
            return
        number, content = data[0], data[1:]
        if self._is_base64:
            number -= ord("0")
            try:
                content = base64.b64decode(content, validate=True)
            except binascii.Error:
                raise ConnectionResetError("a WebSocket message is not base64-encoded") from None
        if number == _END and self._supports_close:
            number = content[0] if content else len(self.streams)
            if number < len(self.streams):
                self.streams[number].inbox.end()
        elif number < len(self.streams):
            await self.streams[number].inbox.put(content)

    async def send(self, number: int, data: bytes) -> None:
        if self._is_base64:
            await self._socket.send(b"%d" % number + base64.b64encode(data), TEXT)
        else:
            await self._socket.send(bytes([number]) + data, BINARY)

    async def send_close(self, number: int) -> None:
        if self._sends_close:
            await self._socket.send(bytes([_END, number]))
