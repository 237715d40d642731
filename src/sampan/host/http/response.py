"""Responses: their head, and their body in one piece or in several."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from email.utils import formatdate
from http import HTTPStatus

from multidict import CIMultiDict

from sampan.host.http.request import HttpRequest

_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_NO_CONTENT_LENGTH = frozenset({*range(100, 200), 204, 304})
"""The status codes whose responses have no body."""
_CONTROL = dict.fromkeys((*range(9), *range(10, 32), 127))
_JOINED_BYTES = 64 << 10
"""Pieces up to this size are copied to be sent together with their frame."""


def phrase_of(code: int) -> str:
    return _PHRASES.get(code, "")


class _Date:
    second, text = 0, b""


def date_line() -> bytes:
    """Return the Date header, which is formatted once a second."""
    second = int(time.time())
    if second != _Date.second:
        _Date.second, _Date.text = second, f"Date: {formatdate(second, usegmt=True)}\r\n".encode()
    return _Date.text


def encode_head(status: int, reason: str | None, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return the head of a response without the empty line at its end. Control characters are dropped, so that no
    header can end early."""
    first = f"HTTP/1.1 {status} {phrase_of(status) if reason is None else reason}".translate(_CONTROL)
    lines = [f"{name}: {value}".translate(_CONTROL) for name, value in headers]
    return "\r\n".join((first, *lines, "")).encode("utf-8", "surrogateescape")


class StreamResponse:
    """A response whose body is written in pieces. Without a content length it is chunked, or ends with the connection
    of a client that knows no chunks."""

    content_length: int | None = None

    def __init__(
        self,
        *,
        status: int = 200,
        reason: str | None = None,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ) -> None:
        self.status, self.reason = status, reason
        self.headers: CIMultiDict[str] = CIMultiDict(headers)
        self.is_last = False
        """Whether the connection is closed after the response."""
        self.is_started = False
        self._request: HttpRequest | None = None
        self._is_chunked = self._is_finished = False
        self._has_body = True

    def start(self, request: HttpRequest) -> None:
        """Send the head. Raise ConnectionError if the client is gone."""
        request.connection.begin_response(self.status, self._start(request))

    async def write(self, data: bytes) -> None:
        """Send a piece of the body and wait until there is room for more. Raise ConnectionError if the client is
        gone."""
        assert self._request is not None
        connection = self._request.connection
        if data and self._has_body:
            if self._is_chunked:
                if len(data) <= _JOINED_BYTES:
                    connection.write(b"%x\r\n%b\r\n" % (len(data), data), len(data))
                else:
                    connection.write_pieces((b"%x\r\n" % len(data), data, b"\r\n"), len(data))
            else:
                connection.write(data, len(data))
        if connection.is_congested:
            await connection.drain()

    def finish(self) -> None:
        """Send the end of the body. Raise ConnectionError if the client is gone."""
        assert self._request is not None
        if not self._is_finished:
            self._is_finished = True
            connection = self._request.connection
            if self._is_chunked:
                connection.write(b"0\r\n\r\n", 0)
            connection.flush()

    def send(self, request: HttpRequest) -> None:
        """Send all that is missing: the head if it was not sent yet, and the end."""
        if not self.is_started:
            self.start(request)
        self.finish()

    def _start(self, request: HttpRequest) -> bytes:
        if request.prepare_response is not None:
            request.prepare_response(self)
        self.is_started, self._request = True, request
        headers, connection = self.headers, request.connection
        headers.popall("Transfer-Encoding", None)
        headers.popall("Connection", None)
        self._has_body = request.method != "HEAD" and self.status not in _NO_CONTENT_LENGTH
        if self.status not in _NO_CONTENT_LENGTH and self.content_length != 0:
            headers.setdefault("Content-Type", "application/octet-stream")
        if self.status in _NO_CONTENT_LENGTH:
            headers.popall("Content-Length", None)
        elif self.content_length is not None:
            headers["Content-Length"] = str(self.content_length)
        elif "Content-Length" not in headers and self._has_body:
            if request.version == (1, 0):
                self.is_last = True
            else:
                self._is_chunked = True
                headers["Transfer-Encoding"] = "chunked"
        if self.is_last:
            connection.close_after_response()
        if connection.closes_after_response:
            headers["Connection"] = "close"
        elif request.version == (1, 0):
            headers["Connection"] = "keep-alive"
        date = b"" if "Date" in headers else date_line()
        return b"%b%b\r\n" % (encode_head(self.status, self.reason, headers.items()), date)


class HttpResponse(StreamResponse):
    """A response with a complete body."""

    def __init__(
        self,
        *,
        status: int = 200,
        reason: str | None = None,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        text: str | None = None,
        content_type: str = "",
    ) -> None:
        super().__init__(status=status, reason=reason, headers=headers)
        if text is not None:
            body = text.encode()
            content_type = f"{content_type or 'text/plain'}; charset=utf-8"
        if content_type:
            self.headers["Content-Type"] = content_type
        self.body, self.content_length = body, len(body)

    def send(self, request: HttpRequest) -> None:
        if self.is_started:
            return
        head = self._start(request)
        body = self.body if self._has_body else b""
        self._is_finished = True
        connection = request.connection
        if len(body) <= _JOINED_BYTES:
            connection.send_response(self.status, head + body, len(body))
        else:
            connection.begin_response(self.status, head)
            connection.write(body, len(body))
            connection.flush()
