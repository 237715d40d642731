"""HTTP/1.1 connections over TLS that are kept for further POST requests.

A review is a small request that waits for a small response, and sending it through an `aiohttp.ClientSession` takes
more CPU time than everything else that a webhook costs. Here a request is one write, and aiohttp's parser reads the
response. Redirects are returned, not followed; proxies of the environment are not used.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from aiohttp import ClientPayloadError
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpResponseParser, RawResponseMessage
from aiohttp.streams import StreamReader

_OK, _PARTIAL_CONTENT = 200, 206


class DialFailed(Exception):
    """No connection to the server of the webhook was established."""

    def __init__(self, os_error: OSError) -> None:
        super().__init__(str(os_error))
        self.os_error = os_error


class ExchangeFailed(Exception):
    """The connection was closed, or the response was invalid or too large."""


class ConnectionClosed(ExchangeFailed):
    """The server closed the connection before it sent a response."""


class Destination(NamedTuple):
    """Where to connect to. Connections are kept for equal destinations."""

    host: str
    port: int
    server_name: str
    """The name that the certificate of the server must have."""
    context: ssl.SSLContext


class WebhookHttpResponse(NamedTuple):
    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        return _OK <= self.status <= _PARTIAL_CONTENT


class ResponseLimits(NamedTuple):
    """How much of a response is read."""

    body_bytes: int
    """A larger body is an error."""
    error_body_bytes: int
    """A larger body of a response that reports an error is truncated."""


class _Connection(BaseProtocol):
    """A connection, which serves one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: ResponseLimits) -> None:
        super().__init__(loop)
        self._limits = limits
        self._responses = HttpResponseParser(
            self,
            loop,
            limits.body_bytes,
            payload_exception=ClientPayloadError,
            response_with_body=True,
            read_until_eof=True,
            auto_decompress=False,
        )
        self._message: RawResponseMessage | None = None
        self._payload: StreamReader | None = None
        self._response: asyncio.Future[WebhookHttpResponse] | None = None
        self.closed: asyncio.Future[None] = loop.create_future()
        self.is_reusable = True
        self.idle_since = 0.0

    def send(self, data: bytes) -> asyncio.Future[WebhookHttpResponse]:
        """Write a request. Raise `ConnectionClosed` if the connection is closed."""
        if self.transport is None or self.transport.is_closing():
            raise ConnectionClosed("EOF")
        self._message = self._payload = None
        self._response = self._loop.create_future()
        self.transport.write(data)
        return self._response

    def abort(self) -> None:
        self.is_reusable = False
        if self.transport is not None:
            self.transport.abort()

    def pause_reading(self) -> None:
        """Do nothing: `ResponseLimits` limits how much of a response is kept in memory."""

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Do nothing, because reading is never paused."""

    def data_received(self, data: bytes) -> None:
        if self._response is None or self._response.done():
            self.abort()  # the server sends data without a request
            return
        try:
            messages, _, _ = self._responses.feed_data(data)
        except (HttpProcessingError, ClientPayloadError) as error:
            self._fail(_invalid_response(error))
            return
        for message, payload in messages:
            if message.code >= _OK:  # informational responses precede the actual one
                self._message, self._payload = message, payload
        self._read()

    def _read(self) -> None:
        """Complete the response if enough of it has been received."""
        message, payload = self._message, self._payload
        if message is None or payload is None:
            return
        if (error := payload.exception()) is not None:
            self._fail(_invalid_response(error))
        elif message.compression is not None:
            self._fail(ExchangeFailed(f"the response has the content encoding {message.compression}"))
        elif message.code > _PARTIAL_CONTENT and payload.total_bytes > self._limits.error_body_bytes:
            self.is_reusable = False
            self._complete(WebhookHttpResponse(message.code, payload.read_nowait(self._limits.error_body_bytes)))
        elif payload.total_bytes > self._limits.body_bytes:
            self._fail(ExchangeFailed(f"the response has more than {self._limits.body_bytes} bytes"))
        elif payload.is_eof():
            if message.should_close or (self.transport is not None and self.transport.get_write_buffer_size()):
                self.is_reusable = False
            self._complete(WebhookHttpResponse(message.code, payload.read_nowait()))

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.is_reusable = False
        if not self.closed.done():
            self.closed.set_result(None)
        if self._response is None or self._response.done():
            return
        if self._message is None:
            self._fail(ConnectionClosed("EOF"))
            return
        with suppress(HttpProcessingError):
            self._responses.feed_eof()  # the end of a response without a length
            self._read()
        self._fail(ExchangeFailed("unexpected EOF"))

    def _complete(self, response: WebhookHttpResponse) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_result(response)

    def _fail(self, error: ExchangeFailed) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(error)
        self.abort()


def _invalid_response(error: BaseException) -> ExchangeFailed:
    text = next(iter(str(error).splitlines()), "malformed HTTP response")
    return ExchangeFailed(f"net/http: HTTP/1.x transport connection broken: {text}")


class _DestinationPool:
    """The connections to one destination."""

    def __init__(self, connections: int) -> None:
        self.turns = asyncio.Semaphore(connections)
        self.idle: list[_Connection] = []
        """Connections without a request, in the order of their last use."""
        self.users = 0


class KeptConnections:
    """The connections to all destinations. They must be closed with `close()`."""

    def __init__(self, *, keep_s: float, connections_per_host: int, limits: ResponseLimits) -> None:
        self._keep_s, self._connections_per_host, self._limits = keep_s, connections_per_host, limits
        self._hosts: dict[Destination, _DestinationPool] = {}
        self._open: set[_Connection] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def close(self) -> None:
        """Close all connections and wait until they are closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        connections = list(self._open)
        for connection in connections:
            connection.abort()
        for connection in connections:
            await connection.closed

    async def post(self, destination: Destination, request: bytes) -> WebhookHttpResponse:
        """Send an encoded request and return the response. Raise `DialFailed` or `ExchangeFailed`.

        A server may close an idle connection when the request is being sent. Then the request is sent again, at the
        latest on a new connection when all kept ones have failed.
        """
        with self._host(destination) as host:
            async with host.turns:
                while True:
                    remaining_connection = self._take(host)
                    connection = remaining_connection or await self._connect(destination)
                    try:
                        response = await connection.send(request)
                    except ConnectionClosed:
                        if remaining_connection is None:
                            raise
                        continue
                    except asyncio.CancelledError:
                        connection.abort()
                        raise
                    self._release(host, connection)
                    return response

    @contextmanager
    def _host(self, destination: Destination) -> Iterator[_DestinationPool]:
        host = self._hosts.get(destination)
        if host is None:
            host = self._hosts[destination] = _DestinationPool(self._connections_per_host)
        host.users += 1
        try:
            yield host
        finally:
            host.users -= 1
            if not host.users and not host.idle:
                del self._hosts[destination]

    def _take(self, host: _DestinationPool) -> _Connection | None:
        while host.idle:
            connection = host.idle.pop()
            if connection.is_reusable:
                return connection
        return None

    async def _connect(self, destination: Destination) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(
                lambda: _Connection(loop, self._limits),
                destination.host,
                destination.port,
                ssl=destination.context,
                server_hostname=destination.server_name,
            )
        except OSError as error:
            raise DialFailed(error) from None
        self._open.add(connection)
        connection.closed.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    def _release(self, host: _DestinationPool, connection: _Connection) -> None:
        if not connection.is_reusable:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        host.idle.append(connection)
        if self._timer is None:
            self._timer = loop.call_later(self._keep_s, self._close_idle)

    def _close_idle(self) -> None:
        """Close the connections that have been idle for too long, and schedule the next call for the time when the next
        connection expires."""
        loop = asyncio.get_running_loop()
        self._timer = None
        oldest = loop.time() - self._keep_s
        next_idle_since: list[float] = []
        for destination, host in list(self._hosts.items()):
            for connection in host.idle:
                if connection.idle_since <= oldest:
                    connection.abort()
            host.idle = [connection for connection in host.idle if connection.is_reusable]
            next_idle_since += [connection.idle_since for connection in host.idle[:1]]
            if not host.users and not host.idle:
                del self._hosts[destination]
        if next_idle_since:
            self._timer = loop.call_at(min(next_idle_since) + self._keep_s, self._close_idle)
