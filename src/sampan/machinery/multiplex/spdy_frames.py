"""SPDY/3.1 framing, without I/O. Each direction of a connection has its own `SpdyFrameWriter` and `SpdyFrameReader`,
because the compression of headers depends on earlier headers."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FIN, UNIDIRECTIONAL = 1, 2
PROTOCOL_ERROR, INVALID_STREAM, REFUSED_STREAM, CANCEL, STREAM_ALREADY_CLOSED = 1, 2, 3, 5, 9
_CONTROL, _VERSION = 0x8000, 3
_MAX_FRAME_BYTES = (1 << 24) - 1
_MAX_CONTROL_FRAME_BYTES = 1 << 20
"""The largest control frame, in bytes; data frames may have as many as the protocol allows."""
_MAX_HEADERS_BYTES = 16 << 10
"""The largest uncompressed headers, in bytes: those of real clients have a few hundred, but 50 compressed bytes can
expand to this many."""
_MAX_HEADER_COUNT = 100

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
    "Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 "
    "Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec "
    "00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8"
    "charset=iso-8859-1,utf-,*,enq=0."
)


def _dictionary() -> bytes:
    """Return the compression dictionary for headers that the protocol defines."""
    words = [word.replace("_", " ").encode() for word in _WORDS.split()]
    return b"".join(struct.pack(">I", len(word)) + word for word in words) + _REST.encode()


DICTIONARY = _dictionary()


class BadSpdyFrame(ValueError):
    """The peer of a SPDY connection violates the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpdyFrame:
    """One frame; `kind` 0 is data."""

    kind: int = 0
    stream: int = 0
    """The number of the stream, or of a ping."""
    flags: int = 0
    data: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 0

    @property
    def is_last(self) -> bool:
        """Whether nothing follows in this direction of the stream."""
        return bool(self.flags & FIN) and self.kind in (0, SYN_STREAM, SYN_REPLY, HEADERS)


class SpdyFrameWriter:
    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def data(self, stream: int, data: bytes, *, is_last: bool = False) -> bytes:
        if len(data) > _MAX_FRAME_BYTES:
            raise ValueError("the payload is too large for one SPDY frame")
        return struct.pack(">II", stream, (FIN if is_last else 0) << 24 | len(data)) + data

    def syn_stream(self, stream: int, headers: Mapping[str, str], *, is_last: bool = False) -> bytes:
        content = struct.pack(">IIBB", stream, 0, 0, 0) + self._headers(headers)
        return _control(SYN_STREAM, content, FIN if is_last else 0)

    def syn_reply(self, stream: int, headers: Mapping[str, str], *, is_last: bool = False) -> bytes:
        return _control(SYN_REPLY, struct.pack(">I", stream) + self._headers(headers), FIN if is_last else 0)

    def rst_stream(self, stream: int, status: int) -> bytes:
        return _control(RST_STREAM, struct.pack(">II", stream, status))

    def ping(self, number: int) -> bytes:
        return _control(PING, struct.pack(">I", number))

    def goaway(self, last: int, status: int = 0) -> bytes:
        return _control(GOAWAY, struct.pack(">II", last, status))

    def _headers(self, headers: Mapping[str, str]) -> bytes:
        parts = [struct.pack(">I", len(headers))]
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                parts += (struct.pack(">I", len(text)), text)
        return self._deflate.compress(b"".join(parts)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def _control(kind: int, content: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", _CONTROL | _VERSION, kind, flags << 24 | len(content)) + content


class SpdyFrameReader:
    """Takes bytes as they arrive and returns complete frames; unknown kinds are skipped."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> list[SpdyFrame]:
        self._data += data
        frames: list[SpdyFrame] = []
        while len(self._data) >= 8:
            first, second = struct.unpack_from(">II", self._data)
            size, flags = second & _MAX_FRAME_BYTES, second >> 24
            is_control = bool(first >> 31)
            if is_control and size > _MAX_CONTROL_FRAME_BYTES:
                raise BadSpdyFrame(f"a SPDY control frame of {size} bytes is too large")
            if len(self._data) < 8 + size:
                break
            content = bytes(self._data[8 : 8 + size])
            del self._data[: 8 + size]
            if not is_control:
                frames.append(SpdyFrame(stream=first, flags=flags, data=content))
            elif (frame := self._control(first, flags, content)) is not None:
                frames.append(frame)
        return frames

    def _control(self, first: int, flags: int, content: bytes) -> SpdyFrame | None:
        version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
        if version != _VERSION:
            raise BadSpdyFrame(f"unsupported SPDY version {version}")
        try:
            return self._parse_control_frame(kind, flags, content)
        except struct.error:
            raise BadSpdyFrame(f"a SPDY frame of type {kind} is too short") from None

    def _parse_control_frame(self, kind: int, flags: int, content: bytes) -> SpdyFrame | None:
        if kind == SYN_STREAM:
            (stream, _, _) = struct.unpack_from(">IIH", content)
            headers = self._headers(content[10:])
            return SpdyFrame(kind=kind, stream=stream & 0x7FFFFFFF, flags=flags, headers=headers)
        if kind in (SYN_REPLY, HEADERS):
            (stream,) = struct.unpack_from(">I", content)
            headers = self._headers(content[4:])
            return SpdyFrame(kind=kind, stream=stream & 0x7FFFFFFF, flags=flags, headers=headers)
        if kind in (RST_STREAM, GOAWAY):
            stream, status = struct.unpack_from(">II", content)
            return SpdyFrame(kind=kind, stream=stream & 0x7FFFFFFF, status=status)
        if kind == PING:
            return SpdyFrame(kind=kind, stream=struct.unpack_from(">I", content)[0])
        return None

    def _headers(self, content: bytes) -> dict[str, str]:
        try:
            raw = self._inflate.decompress(content, _MAX_HEADERS_BYTES)
        except zlib.error as error:
            raise BadSpdyFrame(f"cannot decompress SPDY headers: {error}") from None
        if self._inflate.unconsumed_tail:
            raise BadSpdyFrame("the SPDY headers are too long")
        (count,) = struct.unpack_from(">I", raw)
        if count > _MAX_HEADER_COUNT:
            raise BadSpdyFrame("there are too many SPDY headers")
        texts, position = [], 4
        for _ in range(2 * count):
            (size,) = struct.unpack_from(">I", raw, position)
            if position + 4 + size > len(raw):
                raise BadSpdyFrame("the SPDY headers are truncated")
            texts.append(raw[position + 4 : position + 4 + size].decode("utf-8", "replace"))
            position += 4 + size
        return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}
