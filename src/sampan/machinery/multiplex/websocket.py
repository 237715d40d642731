"""A WebSocket over a wire, on either side, after the handshake."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress

from sampan.machinery.multiplex import websocket_frames as frames
from sampan.machinery.multiplex.websocket_frames import (
    BINARY,
    CLOSE,
    NORMAL,
    PING,
    PONG,
    TEXT,
    BadWebSocketFrame,
    WebSocketMessage,
)
from sampan.machinery.multiplex.wire import Wire

_FAREWELL_S = 2.0
"""How long to wait for the close frame of the other side."""


class WebSocket:
    """A WebSocket connection. One task may receive; any number of tasks may send."""

    def __init__(self, wire: Wire, *, is_server: bool, protocol: str = "") -> None:
        self._wire, self._is_server = wire, is_server
        self.protocol = protocol
        """The negotiated subprotocol."""
        self._frames = frames.WebSocketFrames(is_server=is_server)
        self._ready: list[WebSocketMessage] = []
        self._sending = asyncio.Lock()
        self._is_closing = self._is_over = False

    async def receive(self) -> WebSocketMessage | None:
        """Return the next text or binary message; None at the end. Raise ConnectionError if the connection broke
        off."""
        while True:
            while self._ready:
                message = self._ready.pop(0)
                if message.opcode in (TEXT, BINARY):
                    return message
                if await self._is_end(message):
                    return None
            if self._is_over:
                return None
            await self._fill()

    async def _fill(self) -> None:
        data = await self._wire.read()
        if not data:
            self._is_over = True
            if not self._is_closing:
                raise ConnectionResetError("the WebSocket connection was closed without a close frame")
            return
        try:
            self._ready += self._frames.feed(data)
        except BadWebSocketFrame as error:
            self._is_over = True
            await self._say_close(error.code)
            raise ConnectionResetError(str(error)) from None

    async def _is_end(self, message: WebSocketMessage) -> bool:
        if message.opcode == PING:
            with suppress(ConnectionError):
                await self._send(PONG, message.data)
        elif message.opcode == CLOSE:
            self._is_over = True
            await self._say_close(NORMAL)
            return True
        return False

    async def send(self, data: bytes, opcode: int = BINARY) -> None:
        if self._is_closing:
            raise ConnectionResetError("the connection is closed")
        await self._send(opcode, data)

    async def ping(self) -> None:
        await self._send(PING, b"")

    async def _send(self, opcode: int, data: bytes) -> None:
        async with self._sending:
            await self._wire.write(frames.frame(opcode, data, is_masked=not self._is_server))

    async def _say_close(self, code: int) -> None:
        if not self._is_closing:
            self._is_closing = True
            with suppress(ConnectionError):
                await self._send(CLOSE, struct.pack(">H", code))

    async def close(self, code: int = NORMAL) -> None:
        """Send a close frame, wait a short time for that of the other side, and close the wire."""
        await self._say_close(code)
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                while not self._is_over:
                    await self.receive()
        await self._wire.close()
