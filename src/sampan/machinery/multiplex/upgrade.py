"""Connections that start as an HTTP request and are upgraded to another protocol.

A client requests the upgrade: it writes the head of the request and reads the head of the response. A server takes the
connection of a request over. `WebSocketTunnel` is a wire over the binary messages of a WebSocket, for another protocol
inside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sampan.api.values.integers import parse_int64
from sampan.host.http import HttpRequest
from sampan.machinery.multiplex.handshake import SPDY, STREAM_PROTOCOL, accept_handshake
from sampan.machinery.multiplex.websocket import BINARY, MAX_MESSAGE_BYTES, WebSocket, accept_key, generate_key
from sampan.machinery.multiplex.wire import StreamWire

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
    version, _, remainder = first.partition(" ")
    code, _, phrase = remainder.partition(" ")
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


def accept_websocket(request: HttpRequest, protocol: str, *, max_message_bytes: int = MAX_MESSAGE_BYTES) -> WebSocket:
    """Take the connection of a request over as a WebSocket with this subprotocol, if it is not empty. Raise
    UpgradeRefused if the handshake is not valid."""
    agreement = accept_handshake(request.values, protocol)
    wire = request.take_over(agreement.head)
    return WebSocket(wire, is_server=True, protocol=protocol, max_message_bytes=max_message_bytes)


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
