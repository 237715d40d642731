"""One connection of a client: an explicit state, and one request at a time.

A request is handled by a task of its own. What the client sends meanwhile is the rest of its body, or waits as the
start of the next request. A client that is rejected while it is still sending gets the response nevertheless: what it
sends is discarded for a while before the connection is closed, since closing at once would reset it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import cast

from sampan.host.http.body import NO_BYTES, BadBody, BodyDecoder, ChunkDecoder, IncomingBytes, LengthDecoder
from sampan.host.http.head import BadHttpRequest, EdgeLimits, HeadReader, HttpRequestHead
from sampan.host.http.request import HttpRequest
from sampan.host.http.response import HttpResponse, StreamResponse, encode_head

log = logging.getLogger(__name__)

Handler = Callable[[HttpRequest], Awaitable[StreamResponse | None]]
"""Handles a request. It returns the response, which is sent unless the handler has sent it already, or None if it has
taken the connection over."""

_QUIET_S = 0.3
"""How long a closing connection waits for further data. A client that has sent nothing for this time has read the
response, or will still be able to."""
_LOGGED_PATH = 256
_BLANK_LINES = re.compile(rb"(?:\r\n)*")
_MAX_PIPELINED_BYTES = 256 << 10
_MAX_PENDING_BYTES = 64 << 10
"""Pieces of a response that are written within one turn of the event loop are joined up to this size."""


class State(Enum):
    HEAD = "head"
    """The connection waits for a request, or for the rest of its head."""
    BODY = "body"
    """A request is handled, and its body has not arrived completely."""
    RESPOND = "respond"
    """A request is handled."""
    STREAM = "stream"
    """A response is sent in pieces."""
    LINGER = "linger"
    """The response is complete, and what the client still sends is discarded."""
    UPGRADED = "upgraded"
    """A handler has taken the connection over."""
    CLOSED = "closed"


_HEAD, _BODY, _RESPOND, _STREAM = State.HEAD, State.BODY, State.RESPOND, State.STREAM
_LINGER, _UPGRADED, _CLOSED = State.LINGER, State.UPGRADED, State.CLOSED
_BUSY = frozenset((_BODY, _RESPOND, _STREAM, _UPGRADED))


class HttpConnection(asyncio.Protocol):
    """The protocol of one connection."""

    def __init__(self, connections: HttpConnections) -> None:
        self._connections, self._limits = connections, connections.limits
        self._loop = connections.loop
        self.state = _HEAD
        self.transport: asyncio.Transport | None = None
        self.peer: object = None
        """The address of the client."""
        self.is_tls = False
        self.has_ended = False
        """Whether the client has closed its side."""
        self.on_lost: Callable[[], object] | None = None
        """Called when the connection is lost. While it is set, a client that closes its side counts as gone."""
        self.on_drained: Callable[[], None] | None = None
        """Called once when the transport can be written to again."""
        self.response_status = 0
        """The status code of the current response; 0 before it is sent."""
        self.response_bytes = 0
        """The bytes of the current response's body that were written."""
        self.has_timed_out = False
        """Whether the handler was cancelled because of the time limit of the request."""
        self.is_congested = False
        """Whether the client has not read what was written."""
        self._reader = HeadReader(connections.limits)
        self._input = bytearray()
        """What has arrived and is not used yet: an incomplete head, or the requests that follow the current one."""
        self._is_paused = False
        self._decoder: BodyDecoder | None = None
        """Set until the body of the current request has arrived completely."""
        self._body: IncomingBytes | None = None
        self._incoming: IncomingBytes | None = None
        """What arrives on a connection that was taken over."""
        self._task: asyncio.Task[None] | None = None
        self._is_last = self._is_broken = False
        """Whether the connection is closed after the current response; whether nothing that arrives can be used."""
        self._deadline = 0.0
        """The time at which the state ends; 0 for no limit. One timer serves all deadlines of the connection: it runs
        until the first one, and looks then whether there is a later one."""
        self._timer: asyncio.TimerHandle | None = None
        self._linger_end = 0.0
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._drain_waiters: list[asyncio.Future[None]] = []

    @property
    def is_busy(self) -> bool:
        """Whether a request is in progress."""
        return self.state in _BUSY

    @property
    def closes_after_response(self) -> bool:
        """Whether the current response is the last one of the connection."""
        return self._is_last or self._is_broken or self._connections.is_stopping

    def close_after_response(self) -> None:
        self._is_last = True

    # -- transport callbacks -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.peer = transport.get_extra_info("peername")
        self.is_tls = transport.get_extra_info("sslcontext") is not None
        self._connections.add(self)
        self._set_deadline(self._limits.head_s)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.state, self.transport = _CLOSED, None
        self._clear_deadline(cancels_timer=True)
        for incoming in (self._body, self._incoming):
            if incoming is not None:
                incoming.end(
                    ConnectionResetError("the client closed the connection") if incoming is self._body else None
                )
        for waiter in self._drain_waiters:
            if not waiter.done():
                waiter.set_exception(ConnectionResetError("the client closed the connection"))
        self._drain_waiters.clear()
        self._pending.clear()
        call, self.on_lost = self.on_lost, None
        if call is not None:
            call()
        if self._task is not None and self._connections.cancels_handlers:
            self._task.cancel()
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        if self.state is _HEAD:
            if self._input:
                self._input += data
                data = b""
            self._read_head(data)
        elif self._decoder is not None:
            self._read_body(self._decoder, data)
        elif self.state is _UPGRADED:
            if self._incoming is not None:
                self._incoming.feed(data)
        elif self.state is _LINGER:
            self._deadline = min(self._loop.time() + _QUIET_S, self._linger_end)
        elif not self._is_broken:
            self._input += data
            if len(self._input) > _MAX_PIPELINED_BYTES and not self._is_paused:
                self._is_paused = True
                self._pause_reading()

    def eof_received(self) -> bool | None:
        """Handle that the client has closed its side. Pending requests are still answered if the transport allows
        half-closed connections (TLS does not), but the client of a long-running stream counts as gone, and any client
        of a server that cancels the handlers of lost connections."""
        if self.transport is None or not self.transport.can_write_eof():
            return None
        if self.on_lost is not None or self._connections.cancels_handlers:
            return None
        if self.state in (_LINGER, _UPGRADED, _CLOSED) or (self.state is _HEAD and not self._input):
            return None
        self.has_ended = True
        if self.state is _HEAD:
            self._refuse(BadHttpRequest())
        elif self._decoder is not None:
            self._break_body(BadBody("unexpected end of the request body"))
        return True

    def pause_writing(self) -> None:
        self.is_congested = True

    def resume_writing(self) -> None:
        self.is_congested = False
        for waiter in self._drain_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._drain_waiters.clear()
        call, self.on_drained = self.on_drained, None
        if call is not None:
            call()

    # -- requests ----------------------------------------------------------------------------------------------------

    def _read_head(self, data: bytes) -> None:
        """Start the request at the beginning of the input. `data` has arrived just now if the input is empty."""
        if (data or self._input)[:1] == b"\r":
            data = self._skip_blank_lines(data)
            if not data:
                return
        try:
            head = self._reader.read(data or self._input)
        except BadHttpRequest as error:
            self._refuse(error)
            return
        if head is None:
            if data:
                self._input += data
                self._set_deadline(self._limits.head_s)
            return
        if not data:
            del self._input[: head.size]
        elif len(data) > head.size:
            self._input += data[head.size :]
        self._start_request(head)

    def _skip_blank_lines(self, data: bytes) -> bytes:
        """Drop empty lines before a request, which some old clients send after a body, and return what follows."""
        received = data or bytes(self._input)
        self._input.clear()
        lines = _BLANK_LINES.match(received)
        received = received[lines.end() :] if lines is not None else received
        if received == b"\r":
            self._input += received
            return b""
        return received

    def _start_request(self, head: HttpRequestHead) -> None:
        block = head.block
        self._deadline, self.has_timed_out = 0.0, False
        self._is_last = not head.keep_alive
        self.response_status = self.response_bytes = 0
        has_body = bool(block.is_chunked or block.content_length)
        if has_body:
            self._body = body = IncomingBytes(self._pause_reading, self._resume_reading)
            decoder: BodyDecoder = (
                ChunkDecoder() if block.content_length is None else LengthDecoder(block.content_length)
            )
            self.state, self._decoder = _BODY, decoder
            if self._input:
                received = bytes(self._input)
                self._input.clear()
                self._read_body(decoder, received)
                if self._is_broken:
                    self._refuse(BadHttpRequest())
                    return
        else:
            self.state, body = _RESPOND, NO_BYTES
        request = HttpRequest(
            self,
            method=head.method,
            target=head.target,
            version=head.version,
            headers=block.headers,
            body=body,
            has_body=has_body,
            content_length=block.content_length,
        )
        self._task = self._loop.create_task(self._serve(request))

    def _read_body(self, decoder: BodyDecoder, data: bytes) -> None:
        try:
            content, remainder = decoder.decode(data)
        except BadBody as error:
            self._break_body(error)
            return
        body = self._body
        if body is not None:
            body.feed(content)
        if remainder is None:
            return
        self._decoder = None
        self._input += remainder
        if body is not None:
            body.end()
        if self.state is _BODY:
            self.state = _RESPOND
        elif self.state is _LINGER:
            self._await_next_request()

    def _break_body(self, error: BadBody) -> None:
        self._decoder, self._is_broken = None, True
        if self._body is not None:
            self._body.end(error)
        if self.state is _LINGER:
            self._close()

    async def _serve(self, request: HttpRequest) -> None:
        try:
            response = await self._connections.handler(request)
            if response is not None:
                response.send(request)
            if self.is_congested and self.transport is not None:
                await self.drain()
        except BadHttpRequest as error:
            self._respond_error(request, error)
        except ConnectionError as error:
            log.debug("%s %s: %s", request.method, request.raw_path[:_LOGGED_PATH], error)
            self._is_last = True
        except asyncio.CancelledError:
            self.abort()
        except Exception:
            log.exception("unexpected error in %s %s", request.method, request.raw_path[:_LOGGED_PATH])
            self._respond_error(request, BadHttpRequest(500))
        self._end_request()

    def _respond_error(self, request: HttpRequest, error: BadHttpRequest) -> None:
        if self.response_status:  # so that the client notices that the response is incomplete
            self.abort()
            return
        with suppress(ConnectionError):
            response = HttpResponse(status=error.code, text=error.response_text)
            response.is_last = True
            response.send(request)

    def _end_request(self) -> None:
        """Go on when a request has been handled."""
        self._task, self.on_lost, self._deadline = None, None, 0.0
        body, self._body = self._body, None
        if self.transport is None or self.transport.is_closing():
            return
        if body is not None:  # what its handler has not read
            body.end()
            body.read_nowait()
        if self._pending:
            self.flush()
        if self.state is _UPGRADED:
            self._close()
        elif self._is_broken:
            self._linger()
        elif self._decoder is not None:  # the rest of a body
            if self._connections.is_stopping:
                self._close()
            else:
                self.state = _LINGER
                self._linger_end = self._loop.time() + self._limits.linger_s
                self._set_deadline(self._limits.linger_s)
        else:
            self._await_next_request()

    def _await_next_request(self) -> None:
        if self.closes_after_response:
            self._close()
            return
        self.state = _HEAD
        if self._is_paused:
            self._is_paused = False
            self._resume_reading()
        self._set_deadline(self._limits.head_s if self._input else self._limits.idle_s)
        if self._input:
            self._read_head(b"")
        if self.has_ended and self.state is _HEAD:
            if self._input:
                self._refuse(BadHttpRequest())
            else:
                self._close()

    # -- rejected clients --------------------------------------------------------------------------------------------

    def _refuse(self, error: BadHttpRequest) -> None:
        """Respond to a head that cannot be read, and discard what follows."""
        self._is_broken = True
        self._input.clear()
        if self.transport is None:
            return
        log.debug("bad request from %s: %s", self.peer, error.text or error.code)
        self.response_status, body = error.code, error.response_text.encode()
        headers = (
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        )
        self.transport.write(encode_head(error.code, None, headers) + b"\r\n" + body)
        self._linger()

    def _linger(self) -> None:
        """Discard what the client sends until it pauses, disconnects or the time is over; then close the connection."""
        if self.transport is None or self.has_ended:
            self._close()
            return
        self.state, self._body, self._decoder = _LINGER, None, None
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._resume_reading()
        self._linger_end = self._loop.time() + self._limits.linger_s
        self._set_deadline(min(_QUIET_S, self._limits.linger_s))

    def _close(self) -> None:
        """Close the connection after what was written has been sent."""
        self.state = _CLOSED
        self._clear_deadline(cancels_timer=True)
        if self.transport is not None:
            self.transport.close()

    def stop(self) -> None:
        """Close the connection because the server stops."""
        self._close()

    def cancel(self) -> None:
        """Cancel the request in progress, because the server does not wait for it any longer."""
        if self._task is not None:
            self._task.cancel()
        else:
            self._close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            self.transport.abort()

    # -- deadlines ---------------------------------------------------------------------------------------------------

    def _set_deadline(self, seconds: float) -> None:
        self._deadline = deadline = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._check_deadline)

    def limit_request(self, seconds: float | None) -> None:
        """Cancel the handler of the current request after this time; None for no limit."""
        if seconds is None:
            self._deadline = 0.0
        elif self.transport is not None:
            self._set_deadline(seconds)

    def _clear_deadline(self, *, cancels_timer: bool) -> None:
        self._deadline = 0.0
        if cancels_timer and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_deadline(self) -> None:
        self._timer = None
        if not self._deadline:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._check_deadline)
        elif self._task is not None:
            self._deadline, self.has_timed_out = 0.0, True
            self._task.cancel()
        elif self.state is _HEAD and self._input and self._limits.answers_slow_heads:
            self._refuse(BadHttpRequest(408, "timed out waiting for the request headers"))
        else:
            self._close()

    # -- writing -----------------------------------------------------------------------------------------------------

    def send_response(self, status: int, data: bytes, body_bytes: int) -> None:
        """Send a complete response. Raise ConnectionError if the client is gone."""
        transport = self._open_transport()
        if self._pending:
            self.flush()
        self.response_status, self.response_bytes = status, body_bytes
        transport.write(data)

    def begin_response(self, status: int, head: bytes) -> None:
        """Send the head of a response whose body follows in pieces. Raise ConnectionError if the client is gone."""
        self.write(head, 0)
        self.response_status = status
        if self.state in (_BODY, _RESPOND):
            self.state = _STREAM

    def write(self, data: bytes, body_bytes: int) -> None:
        """Send a part of the response, together with what else is written in this turn of the event loop."""
        self._open_transport()
        self.response_bytes += body_bytes
        if not self._pending:
            self._loop.call_soon(self.flush)
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes > _MAX_PENDING_BYTES:
            self.flush()

    def write_pieces(self, pieces: Sequence[bytes], body_bytes: int) -> None:
        """Send parts of the response at once, without copying them."""
        transport = self._open_transport()
        self.flush()
        self.response_bytes += body_bytes
        transport.writelines(pieces)

    def flush(self) -> None:
        """Send what was written in this turn of the event loop."""
        if self._pending:
            data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
            self._pending.clear()
            self._pending_bytes = 0
            if self.transport is not None:
                self.transport.write(data)

    async def drain(self) -> None:
        """Wait until the transport can be written to again. Raise ConnectionError if the client is gone."""
        self._open_transport()
        if self.is_congested:
            waiter = self._loop.create_future()
            self._drain_waiters.append(waiter)
            await waiter

    def _open_transport(self) -> asyncio.Transport:
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("the client closed the connection")
        return self.transport

    # -- reading -----------------------------------------------------------------------------------------------------

    def _pause_reading(self) -> None:
        if self.transport is not None:
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self.transport is not None:
            self.transport.resume_reading()

    def forget_heads(self) -> None:
        """Free what is kept for the next requests, of which a long-running response expects none soon."""
        self._reader.forget()

    def take_over(self, head: bytes) -> UpgradedWire:
        transport = self._open_transport()
        self.flush()
        self._incoming = IncomingBytes(self._pause_reading, self._resume_reading)
        self.state, self._decoder = _UPGRADED, None
        self.response_status = int(head[9:12])
        transport.write(head)
        self._incoming.feed(bytes(self._input))
        self._input.clear()
        self._is_paused = False
        self._resume_reading()
        return UpgradedWire(self, self._incoming)


class UpgradedWire:
    """A connection that was taken over, as bytes in both directions."""

    def __init__(self, connection: HttpConnection, incoming: IncomingBytes) -> None:
        self._connection, self._incoming = connection, incoming

    async def read(self) -> bytes:
        """Return the received data; empty at the end."""
        return await self._incoming.read()

    async def write(self, data: bytes) -> None:
        """Write data and wait until there is room for more. Raise ConnectionError if the client is gone."""
        self._connection.write(data, 0)
        if self._connection.is_congested:
            await self._connection.drain()

    async def close(self) -> None:
        """Close the connection after the data that was written has been sent."""
        self._connection.flush()
        if self._connection.transport is not None:
            self._connection.transport.close()


class HttpConnections:
    """The connections of one server."""

    def __init__(self, handler: Handler, *, limits: EdgeLimits | None = None, cancels_handlers: bool = True) -> None:
        """With `cancels_handlers` the handler of a request is cancelled when its connection is lost."""
        self.handler, self.limits, self.cancels_handlers = handler, limits or EdgeLimits(), cancels_handlers
        self.loop = asyncio.get_running_loop()
        self.is_stopping = False
        self._alive: set[HttpConnection] = set()
        self._change: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._alive)

    def add(self, connection: HttpConnection) -> None:
        self._alive.add(connection)

    def discard(self, connection: HttpConnection) -> None:
        self._alive.discard(connection)
        if not self._alive and self._change is not None and not self._change.done():
            self._change.set_result(None)

    async def close(self, grace_s: float) -> None:
        """Let requests in progress finish within the grace period, then close all connections."""
        self.is_stopping = True
        for connection in list(self._alive):
            if not connection.is_busy:
                connection.stop()
        await self._wait_for_end(grace_s)
        for connection in list(self._alive):
            connection.cancel()
        await self._wait_for_end(_QUIET_S)
        for connection in list(self._alive):
            connection.abort()
        await self._wait_for_end(_QUIET_S)

    async def _wait_for_end(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._alive:
                    self._change = self.loop.create_future()
                    await self._change
