"""A TCP proxy that can cut or hold what passes through it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class TcpProxy:
    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._connections: set[asyncio.StreamWriter] = set()
        self._open = asyncio.Event()
        self._open.set()
        self.accepted = 0
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
            self.release_answers()
            await server.wait_closed()

    def cut(self) -> None:
        """Drop every connection at once, whatever is on its way."""
        for writer in self._connections:
            writer.transport.abort()
        self._connections.clear()

    def hold_answers(self) -> None:
        """Requests still reach the server, its answers do not come back."""
        self._open.clear()

    def release_answers(self) -> None:
        self._open.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        self._connections |= {writer, server_writer}
        forth = asyncio.ensure_future(self._pass_on(reader, server_writer, is_answer=False))
        try:
            await self._pass_on(server_reader, writer, is_answer=True)
        finally:
            self._connections -= {writer, server_writer}
            for each in (writer, server_writer):
                each.transport.abort()
            await forth

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
        try:
            while data := await reader.read(1 << 16):
                if is_answer:
                    await self._open.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.transport.abort()
