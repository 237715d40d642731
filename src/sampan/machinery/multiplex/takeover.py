"""Takes over a connection from aiohttp's server when its request is an upgrade."""

from __future__ import annotations

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from sampan.machinery.multiplex.wire import MOST_BUFFERED, Inbox


class TakenWire:
    """A wire that aiohttp's protocol feeds like a parser."""

    def __init__(self, request: web.BaseRequest, protocol: RequestHandler) -> None:
        self._protocol, self._writer = protocol, request.writer
        self._inbox = Inbox(most=1 << 62)  # bounded by pausing the transport instead
        self._waiting = 0
        self._is_paused = False

    # -- called by aiohttp -------------------------------------------------------------------------------------------

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._waiting += len(data)
        self._inbox.put_nowait(data)
        transport = self._protocol.transport
        if self._waiting > MOST_BUFFERED and not self._is_paused and transport is not None:
            self._is_paused = True
            transport.pause_reading()
        return False, b""

    def feed_eof(self) -> None:
        self._inbox.end()

    # -- the wire ----------------------------------------------------------------------------------------------------

    async def read(self) -> bytes:
        data = await self._inbox.get()
        self._waiting -= len(data)
        transport = self._protocol.transport
        if self._is_paused and transport is not None:
            self._is_paused = False
            transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        transport = self._protocol.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has gone")
        transport.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        if self._protocol.transport is not None:
            self._protocol.transport.close()


def taken(request: web.BaseRequest) -> TakenWire:
    """Take over the connection, which is no longer HTTP from now on. The handler returns `Taken` when it is done."""
    protocol = request.protocol
    assert isinstance(protocol, RequestHandler)
    wire = TakenWire(request, protocol)
    if protocol.transport is None:
        wire.feed_eof()
    else:
        protocol.set_parser(wire)  # type: ignore[arg-type]
    return wire


class Taken(web.StreamResponse):
    """The response for a request whose connection was taken over: nothing is sent, and nothing may follow."""

    def __init__(self, code: int = 101) -> None:
        self.code, self.size = code, 0

    @property
    def keep_alive(self) -> bool:
        return False

    def force_close(self) -> None:
        return None

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None
