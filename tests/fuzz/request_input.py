"""Requests as clients send them, read by the server's own parser and compared with another one (llhttp, in aiohttp)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParser

from sampan.host.http.body import BadBody, BodyDecoder, ChunkDecoder, LengthDecoder
from sampan.host.http.head import BadHttpRequest, EdgeLimits, HeadReader, HttpRequestHead

ERRORS = (BadHttpRequest, BadBody)
_LIMITS = EdgeLimits(line_bytes=8000, field_bytes=8000, fields=100)
_KNOWN_METHODS = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
_CHUNKED = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
REQUESTS = (
    b"\xffGET /a%20b?c=d HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\nGET http://x/ HTTP/1.0\r\n\r\n",
    b"\x05POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nX: \xff\r\n\r\n{}\r\nPUT /b HTTP/1.1\r\nHost: y\r\n\r\n",
    b"\xff" + _CHUNKED + b"2;a=b\r\n{}\r\n0\r\nX: y\r\n\r\nDELETE / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x02" + _CHUNKED + b"1\r\n{\r\n001\r\n}\r\n0\r\n\r\n",
)


def read_requests(data: bytes) -> None:
    """Read the requests of a connection. The first byte is the size of the pieces in which they arrive."""
    size, data = 1 + data[0] if data else 1, data[1:]
    for head, body, raw in _requests(data, size):
        _check(head, body, raw)


def _requests(data: bytes, size: int) -> Iterator[tuple[HttpRequestHead, bytes, bytes]]:
    """Yield each complete request: its head, its body and all of its bytes."""
    reader = HeadReader(_LIMITS)
    while data:
        while data.startswith(b"\r\n"):
            data = data[2:]
        head = _read_head(reader, data, size)
        if head is None:
            return
        body, end = _read_body(head, data, size)
        if end is None:
            return
        yield head, body, data[:end]
        data = data[end:]


def _read_head(reader: HeadReader, data: bytes, size: int) -> HttpRequestHead | None:
    for end in range(size, len(data) + size, size):
        if (head := reader.read(bytearray(data[:end]))) is not None:
            return head
    return None


def _read_body(head: HttpRequestHead, data: bytes, size: int) -> tuple[bytes, int | None]:
    block = head.block
    if not (block.is_chunked or block.content_length):
        return b"", head.size
    decoder: BodyDecoder = ChunkDecoder() if block.content_length is None else LengthDecoder(block.content_length)
    content = b""
    for start in range(head.size, len(data), size):
        piece = data[start : start + size]
        part, surplus = decoder.decode(piece)
        content += part
        if surplus is not None:
            return content, start + len(piece) - len(surplus)
    return content, None


def _check(head: HttpRequestHead, body: bytes, raw: bytes) -> None:
    """Check that another parser reads the same bytes as the same single request, or refuses them."""
    if head.method not in _KNOWN_METHODS:
        return
    loop = asyncio.new_event_loop()
    try:
        parser: Any = HttpRequestParser(Mock(_reading_paused=False), loop, 1 << 16, max_headers=100)
        try:
            messages, is_upgrade, tail = parser.feed_data(raw)
        except HttpProcessingError:
            return
        assert [(message.method, message.path) for message, _ in messages] == [(head.method, head.target)]
        if is_upgrade:  # llhttp leaves all that follows the head to the upgraded protocol
            return
        assert not tail
        payload = messages[0][1]
        assert payload.is_eof()
        assert payload.exception() is not None or payload.read_nowait() == body
    finally:
        loop.close()
