"""Connections between two ends in this process."""

import asyncio

from sampan.machinery.multiplex.wire import ByteQueue


class MemoryWire:
    def __init__(self, incoming: ByteQueue, outgoing: ByteQueue, *, most: int = 0) -> None:
        """If `most` is given, no piece is longer than that, so that frames are split anywhere."""
        self._incoming, self._outgoing, self._maximum = incoming, outgoing, most
        self._rest = b""
        self.written = 0

    async def read(self) -> bytes:
        if not self._rest:
            self._rest = await self._incoming.get()
        most = self._maximum or len(self._rest)
        data, self._rest = self._rest[:most], self._rest[most:]
        return data

    async def write(self, data: bytes) -> None:
        if self._outgoing.is_ended:
            raise ConnectionResetError("the connection is closed")
        self.written += len(data)
        await self._outgoing.put(data)

    async def close(self) -> None:
        self._outgoing.end()
        self._incoming.end()


def wires(*, most: int = 0) -> tuple[MemoryWire, MemoryWire]:
    to_first, to_second = ByteQueue(), ByteQueue()
    return MemoryWire(to_first, to_second, most=most), MemoryWire(to_second, to_first, most=most)


async def echo_server() -> tuple[asyncio.Server, int]:
    """Start a server that echoes its input and then sends `bye`. Return the server and its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write(b"bye")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """Return `data` in pieces of these sizes, which repeat until nothing is left."""
    pieces: list[bytes] = []
    at = 0
    while at < len(data):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[at : at + size])
        at += size
    return pieces
