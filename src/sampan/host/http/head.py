"""The head of a request: its grammar, its limits and what it says about body and connection. Pure.

The grammar is that of RFC 9112 without its exceptions for old clients: lines end with CR LF, a header is not folded, no
space precedes a colon, and there is one way at most to tell the length of a body. A head that two servers could read
differently is refused. Clients repeat their headers with every request of a connection, so the block of headers is
parsed once and compared with the previous ones afterwards: this takes 1 microsecond for a head of nine headers instead
of 4, with llhttp and a multidict 2 to 4, with h11 24.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus

from multidict import CIMultiDict, CIMultiDictProxy


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeLimits:
    """The limits of a server for slow and oversized requests."""

    line_bytes: int = 8190
    """The maximum size of the request line: method, target and version."""
    field_bytes: int = 8190
    """The maximum size of one header."""
    fields: int = 128
    head_bytes: int = 256 << 10
    """The maximum size of the request line and all headers together."""
    oversize_code: int = 431
    """The status code of the response to a head that exceeds one of these limits."""
    head_s: float = 60
    """How long a client may take to send the head of a request."""
    idle_s: float = 75
    """How long an idle connection is kept open."""
    linger_s: float = 10
    """How long the rest of a rejected request is read and discarded, so that the client gets the response."""
    answers_slow_heads: bool = True
    """Whether a client that does not send its head in time gets a response before its connection is closed."""


class BadHttpRequest(ValueError):
    """The client violates HTTP or exceeds a limit, and gets a response with this status code and text."""

    def __init__(self, code: int = 400, text: str = "") -> None:
        super().__init__(text)
        self.code, self.text = code, text

    @property
    def response_text(self) -> str:
        title = f"{self.code} {HTTPStatus(self.code).phrase}"
        return f"{title}: {self.text}" if self.text else title


@dataclass(frozen=True, slots=True)
class HeaderBlock:
    """The headers of a request, and what they say about its body and its connection."""

    headers: CIMultiDictProxy[str]
    hosts: int
    content_length: int | None
    """None if the header is absent."""
    is_chunked: bool
    connection: frozenset[str]
    """The options of the Connection header in lower case."""


@dataclass(slots=True)
class HttpRequestHead:
    method: str
    target: str
    version: tuple[int, int]
    block: HeaderBlock
    size: int
    """The length of the head in bytes."""

    @property
    def keep_alive(self) -> bool:
        """Whether the client lets the connection stay open."""
        options = self.block.connection
        return "keep-alive" in options if self.version == (1, 0) else "close" not in options


_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_FIRST_BYTES = frozenset(b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_LINE = re.compile(rf"({_TOKEN}) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])".encode())
_FIELDS = re.compile(rf"(?:{_TOKEN}:[^\x00-\x08\x0a-\x1f\x7f]*\r\n)*".encode())
"""Each part of a header excludes the character that ends it, so that matching takes time linear in the block."""
_VERSIONS = {(b"1", b"1"): (1, 1), (b"1", b"0"): (1, 0)}
_END = b"\r\n\r\n"
_MAX_KNOWN_BLOCKS, _MAX_KNOWN_BYTES = 4, 4 << 10
_MAX_LENGTH_DIGITS = 18


class HeadReader:
    """Reads the heads of one connection. `read` gets all bytes from the start of a head, as often as more arrive."""

    __slots__ = ("_has_line", "_known", "_limits", "_scanned")

    def __init__(self, limits: EdgeLimits) -> None:
        self._limits = limits
        self._scanned = 0
        """The number of bytes of an incomplete head that were checked."""
        self._has_line = False
        self._known: dict[bytes, HeaderBlock] = {}

    def read(self, data: bytes | bytearray) -> HttpRequestHead | None:
        """Return the head at the start of the data; None if it is incomplete. Raise BadHttpRequest."""
        end = data.find(_END, max(self._scanned - 3, 0))
        if end < 0:
            self._check_incomplete(data)
            return None
        self._scanned, self._has_line = 0, False
        line_end = data.find(b"\r\n", 0, end + 2)
        method, target, version = self._read_line(data, line_end)
        raw = bytes(data[line_end + 2 : end + 2])
        block = self._known.get(raw)
        if block is None:
            block = self._read_block(raw)
        if block.hosts != 1 and (block.hosts or version != (1, 0)):
            raise BadHttpRequest(400, "" if block.hosts else "missing required Host header")
        if block.is_chunked and version == (1, 0):
            raise BadHttpRequest
        return HttpRequestHead(method, target, version, block, end + 4)

    def forget(self) -> None:
        """Drop what is kept for the next heads of a connection that is not going to have any for a while."""
        self._known.clear()

    def _read_line(self, data: bytes | bytearray, end: int) -> tuple[str, str, tuple[int, int]]:
        if end > self._limits.line_bytes:
            raise BadHttpRequest(self._limits.oversize_code)
        match = _LINE.fullmatch(data, 0, end)
        if match is None:
            raise BadHttpRequest
        method, target, major, minor = match.groups()
        version = _VERSIONS.get((bytes(major), bytes(minor)))
        if version is None:
            raise BadHttpRequest(505, "only HTTP/1.0 and HTTP/1.1 are supported")
        if method == b"CONNECT":
            raise BadHttpRequest
        return method.decode("ascii"), target.decode("ascii"), version

    def _read_block(self, raw: bytes) -> HeaderBlock:
        limits = self._limits
        if len(raw) > limits.head_bytes or raw.count(b"\r\n") > limits.fields:
            raise BadHttpRequest(limits.oversize_code)
        if _FIELDS.fullmatch(raw) is None:
            raise BadHttpRequest
        block = _parse_block(raw, limits)
        if len(raw) <= _MAX_KNOWN_BYTES:
            if len(self._known) >= _MAX_KNOWN_BLOCKS:
                self._known.clear()
            self._known[raw] = block
        return block

    def _check_incomplete(self, data: bytes | bytearray) -> None:
        """Refuse a head as soon as it is wrong, since its sender may wait for a response."""
        size, limits = len(data), self._limits
        if size and data[0] not in _FIRST_BYTES:
            raise BadHttpRequest
        if not self._has_line:
            line_end = data.find(b"\r\n", max(self._scanned - 1, 0))
            if line_end >= 0:
                self._read_line(data, line_end)
                self._has_line = True
            elif size > limits.line_bytes:
                raise BadHttpRequest(limits.oversize_code)
        if size > limits.head_bytes + limits.line_bytes:
            raise BadHttpRequest(limits.oversize_code)
        if data.count(b"\n", self._scanned) != data.count(b"\r\n", max(self._scanned - 1, 0)):
            raise BadHttpRequest
        self._scanned = size


def _parse_block(raw: bytes, limits: EdgeLimits) -> HeaderBlock:
    pairs = []
    for line in raw.decode("utf-8", "surrogateescape").split("\r\n")[:-1]:
        if len(line) > limits.field_bytes:
            raise BadHttpRequest(limits.oversize_code)
        name, _, value = line.partition(":")
        pairs.append((name, value.strip(" \t")))
    headers = CIMultiDict(pairs)
    lengths, encodings = headers.getall("Content-Length", ()), headers.getall("Transfer-Encoding", ())
    if len(lengths) + len(encodings) > 1 or (encodings and encodings[0].lower() != "chunked"):
        raise BadHttpRequest
    length = None
    if lengths:
        if not (lengths[0].isascii() and lengths[0].isdigit() and len(lengths[0]) <= _MAX_LENGTH_DIGITS):
            raise BadHttpRequest
        length = int(lengths[0])
    options = frozenset(
        option.strip().lower() for value in headers.getall("Connection", ()) for option in value.split(",")
    )
    hosts = len(headers.getall("Host", ()))
    return HeaderBlock(CIMultiDictProxy(headers), hosts, length, bool(encodings), options)
