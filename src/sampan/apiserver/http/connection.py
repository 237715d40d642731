"""One connection: aiohttp's HTTP/1.1 protocol with limits for slow and oversized heads and readable errors.

A client that is rejected while it is still sending gets the response nevertheless: what it sends is discarded for a
while before the connection is closed, since closing at once would reset it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from aiohttp import http_exceptions, web
from aiohttp.http_parser import HttpRequestParserPy
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import RequestHandler, RequestPayloadError, _ErrInfo

from sampan.apiserver.http.connection_limits import ConnectionSlot, HttpLimits
from sampan.apiserver.http.response_writer import text_response
from sampan.apiserver.http.tls import classify_client_certificate
from sampan.machinery.pki.server_tls import PeerCertificate, read_peer

log = logging.getLogger(__name__)

_QUIET_S = 0.3
"""How long a closing connection waits for further data. A client that has sent nothing for this time has read the
response, or will still be able to."""
_IDLE_CHECK_S = 0.02
_COMMON_METHOD_PREFIXES = frozenset((b"GET ", b"POST", b"PUT ", b"PATC", b"DELE", b"HEAD", b"OPTI"))
"""The first four bytes of nearly all requests."""
_C_PARSER_METHODS = frozenset((b"CONNECT", b"TRACE", b"PRI"))
"""Other methods that aiohttp's C parser handles, or must reject."""
_MAX_METHOD_LENGTH = 32
_HEAD_END = b"\r\n\r\n"
_MISSING_HOST = "missing required Host header"


class HttpConnection(RequestHandler):
    __slots__ = (
        "_discarded_bytes",
        "_discards_input",
        "_head_bytes",
        "_head_timer",
        "_is_lingering",
        "_last_end",
        "_limits",
        "_lost",
        "client_certificate",
        "has_ended",
        "on_drained",
        "on_lost",
        "proxy_certificate",
        "slot",
    )

    def __init__(
        self, manager: HttpConnections, *, limits: HttpLimits, slot: ConnectionSlot, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(
            manager,
            loop=loop,
            keepalive_timeout=limits.idle_s,
            access_log=None,  # type: ignore[arg-type]
            logger=log,
            max_line_size=limits.line_bytes,
            max_field_size=limits.field_bytes,
            max_headers=limits.fields,
            lingering_time=limits.linger_s,
            auto_decompress=False,
        )
        self._limits = limits
        self.slot = slot
        self._head_bytes = 0
        self._last_end = _HEAD_END
        """The last four bytes of the previous data, which tell whether the next data start a new request."""
        self._head_timer: asyncio.TimerHandle | None = None
        self._discards_input = False
        """Whether further incoming data are discarded."""
        self._is_lingering = False
        """Whether the response is complete and the connection only waits for the client to read it."""
        self.has_ended = False
        """Whether the client has closed its side."""
        self._discarded_bytes = 0
        self._lost: asyncio.Event | None = None
        self.on_lost: Callable[[], None] | None = None
        """Called when the connection is lost."""
        self.on_drained: Callable[[], None] | None = None
        """Called once when the transport can be written to again."""
        self.client_certificate: PeerCertificate | None = None
        """The client certificate, if it was verified against the client CA."""
        self.proxy_certificate: PeerCertificate | None = None
        """The client certificate, if it was verified against the CA of front proxies."""

    # -- transport callbacks -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        if certificate:
            tls = transport.get_extra_info("ssl_object")
            self.client_certificate, self.proxy_certificate = classify_client_certificate(tls, read_peer(certificate))
        self.slot.drop, self.slot.is_busy = self._drop, lambda: not self._is_idle
        self._await_head()

    def _drop(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._head_received()
        super().connection_lost(exc)
        self.slot.drop = self.slot.is_busy = lambda: False
        if self._lost is not None:
            self._lost.set()
        if self.on_lost is not None:
            self.on_lost()
            self.on_lost = None

    def data_received(self, data: bytes) -> None:
        if self._discards_input:
            self._discarded_bytes += len(data)
            return
        if (
            data[:4] not in _COMMON_METHOD_PREFIXES
            and self._is_idle
            and not self._messages
            and self._last_end == _HEAD_END
        ):
            self._read_any_method(data)
        self._last_end = data[-4:]
        super().data_received(data)
        if self._messages and isinstance(self._messages[-1][0], _ErrInfo):
            self._discards_input = True
            self._cut_bodies()
        if self._head_timer is not None and (self._messages or not self._is_idle):
            self._head_received()
        elif self._is_idle and not self._messages:
            self._head_grew(len(data))

    def _read_any_method(self, data: bytes) -> None:
        """Use aiohttp's Python parser for a method that its C parser does not know. Call this only if a new request
        starts with `data`: a head that the C parser has partly consumed cannot be handed over."""
        method, blank, _ = data[:_MAX_METHOD_LENGTH].partition(b" ")
        if not blank or not method.isalpha() or not method.isupper() or method in _C_PARSER_METHODS:
            return
        limits = self._limits
        self._parser = HttpRequestParserPy(
            self,
            self._loop,
            self._read_bufsize,
            max_line_size=limits.line_bytes,
            max_field_size=limits.field_bytes,
            max_headers=limits.fields,
            payload_exception=RequestPayloadError,
            auto_decompress=False,
        )

    @property
    def _is_idle(self) -> bool:
        """Whether no request is being served."""
        return not self._waiter.done() if self._waiter is not None else self._request_count == 0

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.on_drained is not None:
            call, self.on_drained = self.on_drained, None
            call()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Handle that the client has closed its side. Pending requests are still answered if the transport allows
        half-closed connections (TLS does not), but the client of a long-running stream counts as gone."""
        if self.transport is None or not self.transport.can_write_eof() or self.on_lost is not None:
            return None
        if self._is_lingering or (self._is_idle and not self._head_bytes):
            return None
        self._discards_input = self.has_ended = True
        if self._is_idle:
            self._refuse(
                http_exceptions.BadHttpMessage("the connection was closed before the end of the request headers")
            )
        else:
            self._cut_bodies()
            self._close_when_idle()
        return True

    def _cut_bodies(self, tries: int = 5) -> None:
        """Fail pending reads of bodies, since no more usable data will arrive and the readers would wait forever."""
        for _, payload in self._messages:
            _cut_body(payload)
        if self._current_request is not None:
            _cut_body(self._current_request.content)
        elif tries and not self._is_idle:  # its task may not have started yet
            self._loop.call_soon(self._cut_bodies, tries - 1)

    def _close_when_idle(self) -> None:
        if self.transport is None:
            return
        if self._is_idle and not self._messages:
            self.force_close()
        else:
            self._loop.call_later(_IDLE_CHECK_S, self._close_when_idle)

    @property
    def is_last(self) -> bool:
        """Whether the current request is the last one of the connection."""
        return self._discards_input and not self._messages

    # -- heads -------------------------------------------------------------------------------------------------------

    def _await_head(self) -> None:
        self._head_bytes = 0
        self._head_timer = self._loop.call_later(self._limits.head_s, self._head_timed_out)

    def _head_grew(self, size: int) -> None:
        if self._head_timer is None:
            self._await_head()
        self._head_bytes += size
        if self._head_bytes > self._limits.head_bytes:
            self._refuse(http_exceptions.LineTooLong(b"", self._limits.head_bytes))

    def _head_received(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        self._head_bytes = 0

    def _head_timed_out(self) -> None:
        if self._head_bytes:
            self._refuse(_HeadTimeout(message="timed out waiting for the request headers"))
        else:
            self.force_close()

    def _refuse(self, error: http_exceptions.HttpProcessingError) -> None:
        """Respond with an error to a head that cannot be read completely."""
        self._head_received()
        self._discards_input = True
        self._messages.append((_ErrInfo(error.code, error, error.message), EMPTY_PAYLOAD))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- responses to invalid requests -------------------------------------------------------------------------------

    def _make_error_handler(self, err_info: Any) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            log.debug("bad request from %s: %s", self.peername, err_info.message)
            response = _error_response(err_info.exc)
            await response.prepare(request)
            await response.write_eof()
            await self.linger()
            return response

        return handler

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Log an exception that escaped the request handler, which is a bug: the handler reports every error itself."""
        log.error("unexpected error in %s %s", request.method, request.path, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the headers of the response have already been sent")
        return text_response(status, f"{status} {HTTPStatus(status).phrase}\n")

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log errors of aiohttp's connection handling at debug level: they are caused by clients."""
        log.debug(*args, **kw)

    async def linger(self) -> None:
        """Discard what the client sends until it pauses, disconnects or the time is over."""
        self._discards_input = self._is_lingering = True
        if self.transport is None or self.has_ended:
            return
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._lost, until = asyncio.Event(), self._loop.time() + self._limits.linger_s
        before = -1
        while before < self._discarded_bytes and self._loop.time() < until and not self._lost.is_set():
            before = self._discarded_bytes
            with suppress(TimeoutError):
                async with asyncio.timeout(_QUIET_S):
                    await self._lost.wait()


def _cut_body(payload: StreamReader) -> None:
    if not payload.is_eof():
        payload.set_exception(http_exceptions.PayloadEncodingError("unexpected end of the request body"))


class _HeadTimeout(http_exceptions.HttpProcessingError):
    code = 408


class HttpConnections(web.Server):
    """The connections of one listener."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        *,
        limits: HttpLimits,
    ) -> None:
        super().__init__(handler)
        self._limits = limits
        self._alive: dict[RequestHandler, asyncio.Transport] = {}
        self._none_left = asyncio.Event()

    def __call__(self, slot: ConnectionSlot) -> HttpConnection:  # type: ignore[override]
        return HttpConnection(self, limits=self._limits, slot=slot, loop=self._loop)

    def __len__(self) -> int:
        return len(self._alive)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._alive[handler] = transport

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        del self._alive[handler]
        if isinstance(handler, HttpConnection):
            handler.slot.leave()
        if not self._alive:
            self._none_left.set()

    async def close(self, grace_s: float) -> None:
        """Let requests in progress finish within the grace period, then close all connections."""
        self.pre_shutdown()  # connections without a request are closed at once
        await self.shutdown(grace_s)
        self._none_left.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_QUIET_S):
                while self._alive:
                    await self._none_left.wait()
        for transport in list(self._alive.values()):
            transport.abort()


def _error_response(error: BaseException) -> web.Response:
    code, why = _status_of(error)
    text = f"{code} {HTTPStatus(code).phrase}"
    return text_response(code, f"{text}: {why}" if why else text)


def _status_of(error: BaseException) -> tuple[int, str]:
    message = getattr(error, "message", "")
    if isinstance(error, http_exceptions.LineTooLong) or "Too many headers" in message:
        return 431, ""
    if "Missing 'Host'" in message:
        return 400, _MISSING_HOST
    if isinstance(error, _HeadTimeout):
        return 408, message
    if isinstance(error, http_exceptions.BadStatusLine) and "Invalid HTTP version" in message:
        return 505, "only HTTP/1.0 and HTTP/1.1 are supported"
    return 400, ""
