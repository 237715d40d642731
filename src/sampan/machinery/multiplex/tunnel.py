"""A wire over a WebSocket's binary messages, for another protocol inside it."""

from __future__ import annotations

from sampan.machinery.multiplex.websocket import WebSocket
from sampan.machinery.multiplex.websocket_frames import BINARY


class Tunnel:
    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message is None:
                return b""
            if message.opcode != BINARY:
                raise ConnectionResetError("invalid message type received")
            if message.data:
                return message.data

    async def write(self, data: bytes) -> None:
        await self._socket.send(data)

    async def close(self) -> None:
        await self._socket.close()
