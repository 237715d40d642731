"""Connections that start as an HTTP request and are upgraded to another protocol.

A client requests the upgrade: it writes the head of the request and reads the head of the response. A server takes the
connection over from aiohttp. `WebSocketTunnel` is a wire over the binary messages of a WebSocket, for another protocol
inside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from sampan.api.values.integers import parse_int64
from sampan.machinery.multiplex.handshake import SPDY, STREAM_PROTOCOL
from sampan.machinery.multiplex.websocket import BINARY, WebSocket, accept_key, generate_key
from sampan.machinery.multiplex.wire import MAX_BUFFERED_BYTES, ByteQueue, StreamWire

_MAX_HEAD_BYTES = 256 << 10
_MAX_BODY_BYTES = 1 << 20
SWITCHING = 101


class BadResponse(ConnectionError):
    """The response is not valid HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    code: int
    phrase: str
    headers: Sequence[tuple[str, str]]

    def get(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


def request_head(method: str, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    headers = list(headers)
    for text in (method, target, *(part for pair in headers for part in pair)):
        if "\r" in text or "\n" in text:
            raise ValueError("a header must not contain a line break")
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape")


def websocket_headers(protocols: Sequence[str], key: str) -> list[tuple[str, str]]:
    headers = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")]
    return [*headers, ("Sec-WebSocket-Key", key), ("Sec-WebSocket-Protocol", ", ".join(protocols))]


async def read_response_head(reader: asyncio.StreamReader) -> ResponseHead:
    """Return the head of the final response, skipping informational responses (status 1xx)."""
    while True:
        head = parse_response_head(await _read_raw_head(reader))
        if head.code == SWITCHING or head.code >= 200:
            return head


async def _read_raw_head(reader: asyncio.StreamReader) -> bytes:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise BadResponse("the response headers are incomplete or too long") from error
    if len(raw) > _MAX_HEAD_BYTES:
        raise BadResponse("the response headers are too long")
    return raw


def parse_response_head(raw: bytes) -> ResponseHead:
    first, *lines = raw.decode("utf-8", "surrogateescape").split("\r\n")
    version, _, rest = first.partition(" ")
    code, _, phrase = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdecimal() and len(code) == 3):
        raise BadResponse(f"malformed HTTP response: {first[:80]!r}")
    pairs = (line.partition(":") for line in lines if line)
    return ResponseHead(
        code=int(code), phrase=phrase, headers=[(name.strip(), value.strip()) for name, _, value in pairs]
    )


async def read_response_body(reader: asyncio.StreamReader, head: ResponseHead) -> bytes:
    """Return the body of an error response, up to a size limit."""
    if head.get("Transfer-Encoding").lower() == "chunked":
        return await _read_chunks(reader)
    length = parse_int64(head.get("Content-Length"))
    if length is not None and length >= 0:
        try:
            return await reader.readexactly(min(length, _MAX_BODY_BYTES))
        except asyncio.IncompleteReadError as error:
            return error.partial
    return await reader.read(_MAX_BODY_BYTES)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    try:
        while len(body) < _MAX_BODY_BYTES:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            if size <= 0:
                break
            body += (await reader.readexactly(min(size, _MAX_BODY_BYTES) + 2))[:-2]
    except (ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise BadResponse("the body of the response cannot be decoded") from None
    return body


class NotUpgraded(Exception):
    """The server rejected the upgrade."""

    def __init__(self, head: ResponseHead, body: bytes) -> None:
        super().__init__(body.decode("utf-8", "replace").strip() or f"{head.code} {head.phrase}")
        self.head, self.body = head, body


async def open_websocket(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    target: str,
    headers: Iterable[tuple[str, str]],
    protocols: Sequence[str],
) -> tuple[StreamWire, str]:
    """Return the wire of a WebSocket, and the protocol that the server chose. Raise NotUpgraded or BadResponse."""
    key = generate_key()
    writer.write(request_head("GET", target, [*headers, *websocket_headers(protocols, key)]))
    await writer.drain()
    head = await read_response_head(reader)
    if head.code != SWITCHING:
        raise NotUpgraded(head, await read_response_body(reader, head))
    if head.get("Sec-WebSocket-Accept") != accept_key(key):
        raise BadResponse("the Sec-WebSocket-Accept header of the response is wrong")
    return StreamWire(reader, writer), head.get("Sec-WebSocket-Protocol")


async def open_spdy(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    target: str,
    headers: Iterable[tuple[str, str]],
    protocols: Sequence[str],
) -> tuple[StreamWire, str]:
    """Return the wire of a SPDY connection, and the protocol that the server chose; it is empty if the server names
    none. Raise NotUpgraded or BadResponse."""
    upgrade = [("Connection", "Upgrade"), ("Upgrade", SPDY), ("Content-Length", "0")]
    upgrade += [(STREAM_PROTOCOL, protocol) for protocol in protocols]
    writer.write(request_head("POST", target, [*headers, *upgrade]))
    await writer.drain()
    head = await read_response_head(reader)
    if head.code != SWITCHING:
        raise NotUpgraded(head, await read_response_body(reader, head))
    return StreamWire(reader, writer), head.get(STREAM_PROTOCOL)


class UpgradedWire:
    """A wire that aiohttp's protocol feeds like a parser."""

    def __init__(self, request: web.BaseRequest, protocol: RequestHandler) -> None:
        self._protocol, self._writer = protocol, request.writer
        self._inbox = ByteQueue(most=1 << 62)  # bounded by pausing the transport instead
        self._waiting = 0
        self._is_paused = False

    # -- called by aiohttp -------------------------------------------------------------------------------------------

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._waiting += len(data)
        self._inbox.put_nowait(data)
        transport = self._protocol.transport
        if self._waiting > MAX_BUFFERED_BYTES and not self._is_paused and transport is not None:
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
            raise ConnectionResetError("the client closed the connection")
        transport.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        if self._protocol.transport is not None:
            self._protocol.transport.close()


def take_over(request: web.BaseRequest) -> UpgradedWire:
    """Take over the connection of a request from aiohttp. From then on it is not an HTTP connection any more. The
    handler of the request must return a `TakenOverResponse`."""
    protocol = request.protocol
    assert isinstance(protocol, RequestHandler)
    wire = UpgradedWire(request, protocol)
    if protocol.transport is None:
        wire.feed_eof()
    else:
        protocol.set_parser(wire)  # type: ignore[arg-type]
    return wire


class TakenOverResponse(web.StreamResponse):
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


class WebSocketTunnel:
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
