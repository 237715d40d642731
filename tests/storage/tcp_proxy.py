"""A TCP proxy that can cut connections and hold requests or responses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class TcpProxy:
    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._connections: set[asyncio.StreamWriter] = set()
        self._responses, self._requests = asyncio.Event(), asyncio.Event()
        self.release()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator["TcpProxy"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            self.release()
            await server.wait_closed()

    def cut(self) -> None:
        """Abort all connections, together with data in transit."""
        for writer in self._connections:
            writer.transport.abort()
        self._connections.clear()

    def hold_responses(self) -> None:
        """Hold responses. Requests still reach the server."""
        self._responses.clear()

    def hold_requests(self) -> None:
        """Hold requests: nothing reaches the server."""
        self._requests.clear()

    def release(self) -> None:
        """Forward held data, unless their connection has been cut."""
        self._responses.set()
        self._requests.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        self._connections |= {writer, server_writer}
        requests = asyncio.ensure_future(self._forward(reader, server_writer, self._requests))
        try:
            await self._forward(server_reader, writer, self._responses)
        finally:
            self._connections -= {writer, server_writer}
            for stream in (writer, server_writer):
                stream.transport.abort()
            requests.cancel()
            await asyncio.gather(requests, return_exceptions=True)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_released: asyncio.Event
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                await is_released.wait()
                if writer not in self._connections:
                    return
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.transport.abort()
