"""Relays of TCP connections and UDP flows in user space.

`StreamRelay` accepts connections and copies bytes in both directions; each direction ends on its own (half-close), and
a receiver that does not keep up stops the sender (back-pressure). `DatagramRelay` has one upstream socket for each
client. Both bound what they keep: connections beyond the limit wait in the backlog of the kernel, and the flow that was
idle for the longest time makes room for a new one.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from sampan.network.accept_loop import MAX_CONNECTIONS, accept_connections

log = logging.getLogger(__name__)

MAX_FLOWS = 1024
IDLE_FLOW_S = 60.0
_BUFFER_BYTES = 1 << 16
"""Bytes that wait to be written in each direction before the sender is stopped."""
_MAX_QUEUED_DATAGRAMS = 16
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that resets a connection when it is closed."""

Upstream = Callable[[str], Awaitable[socket.socket]]
"""Returns a connected socket for the client with this address. Raises OSError if there is nothing to connect to."""


class StreamRelay:
    """Relays the connections of a listening socket. `run()` returns only when it is cancelled; it closes the socket."""

    def __init__(self, *, listener: socket.socket, upstream: Upstream, limit: asyncio.Semaphore | None = None) -> None:
        """`limit` bounds the connections of all relays that share it."""
        self._listener, self._upstream = listener, upstream
        self._limit = limit or asyncio.Semaphore(MAX_CONNECTIONS)

    async def run(self) -> None:
        try:
            await accept_connections(self._listener, self._limit, self._serve)
        finally:
            self._listener.close()

    async def _serve(self, client: socket.socket, peer: str) -> None:
        try:
            try:
                upstream = await self._upstream(peer)
            except OSError as error:
                log.debug("resetting a connection from %s: %s", peer, error)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                client.close()
            except BaseException:
                client.close()
                raise
            else:
                await relay_streams(client, upstream)
        except Exception:
            log.exception("cannot relay a connection from %s", peer)


async def relay_streams(first: socket.socket, second: socket.socket) -> None:
    """Copy between two connected sockets until both directions have ended, and close both."""
    loop = asyncio.get_running_loop()
    ends = _StreamEnd(), _StreamEnd()
    ends[0].other, ends[1].other = ends[1], ends[0]
    sockets = [first, second]
    try:
        for end in ends:
            connection = sockets[0]
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.connect_accepted_socket(lambda end=end: end, connection)  # type: ignore[misc]
            del sockets[0]
        for end in ends:
            end.flush()
        await asyncio.gather(*(end.is_lost.wait() for end in ends))
    finally:
        for end in ends:
            end.abort()
        for connection in sockets:
            connection.close()


class _StreamEnd(asyncio.Protocol):
    """One of the two connections of a relay. Data that it receives is written to the other one."""

    other: _StreamEnd

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        """Data that was received before the other connection had its transport: some event loops begin to read at
        once."""
        self._has_ended = False
        """Whether the sender of this connection has closed its direction."""
        self.is_lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_BUFFER_BYTES)

    def flush(self) -> None:
        """Write the data that was received early, once both connections have their transports."""
        early, self._early = self._early, []
        for data in early:
            self.data_received(data)
        if self._has_ended:
            self._end_other()
        if self.is_lost.is_set() and self.other._transport is not None:
            self.other._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.other._transport is None:
            self._early.append(data)
        elif not self.other._transport.is_closing():
            self.other._transport.write(data)

    def eof_received(self) -> bool:
        self._has_ended = True
        self._end_other()
        return True

    def _end_other(self) -> None:
        """Close the direction to the other side, or both connections if nothing more can be received."""
        other = self.other._transport
        if other is None:
            return
        if self.other._has_ended:
            self._close_both()
        elif not other.is_closing():
            other.write_eof()

    def pause_writing(self) -> None:
        if self.other._transport is not None and not self.other._transport.is_closing():
            self.other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other._transport is not None and not self.other._transport.is_closing():
            self.other._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost.set()
        other = self.other._transport
        if other is None or other.is_closing():
            return
        if exc is not None:
            other.abort()
        else:
            other.close()

    def _close_both(self) -> None:
        """Close both connections after all data that was received is written."""
        for transport in (self._transport, self.other._transport):
            if transport is not None:
                transport.close()


# -- UDP ---------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _UdpFlow:
    last_used: float
    waiting: list[bytes] = field(default_factory=list)
    """Datagrams that arrived before the upstream socket was connected."""
    transport: asyncio.DatagramTransport | None = None


class DatagramRelay:
    """Relays the datagrams of a bound socket. `run()` returns only when it is cancelled; it closes the socket."""

    def __init__(
        self,
        *,
        listener: socket.socket,
        upstream: Upstream,
        idle_s: float = IDLE_FLOW_S,
        max_flows: int = MAX_FLOWS,
    ) -> None:
        self._listener, self._upstream, self._idle_s, self._max_flows = listener, upstream, idle_s, max_flows
        self._flows: dict[Any, _UdpFlow] = {}
        """Flows by the address of the client, the one that was idle for the longest time first."""
        self._transport: asyncio.DatagramTransport | None = None
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as self._group:
                self._transport, _ = await loop.create_datagram_endpoint(
                    lambda: _DatagramEnd(self._on_client), sock=self._listener
                )
                while True:
                    await asyncio.sleep(self._idle_s / 4)
                    self._remove_idle(loop.time() - self._idle_s)
        finally:
            for client in list(self._flows):
                self._remove(client)
            if self._transport is not None:
                self._transport.close()
            self._listener.close()

    def _on_client(self, data: bytes, client: Any) -> None:
        now = asyncio.get_running_loop().time()
        flow = self._flows.pop(client, None)
        if flow is None:
            if len(self._flows) >= self._max_flows:
                self._remove(next(iter(self._flows)))
            flow = _UdpFlow(now)
            assert self._group is not None
            self._group.create_task(self._connect(client, flow))
        self._flows[client] = flow
        flow.last_used = now
        if flow.transport is not None:
            flow.transport.sendto(data)
        elif len(flow.waiting) < _MAX_QUEUED_DATAGRAMS:
            flow.waiting.append(data)

    async def _connect(self, client: Any, flow: _UdpFlow) -> None:
        try:
            connected = await self._upstream(str(client[0]))
        except OSError as error:
            log.debug("dropping datagrams from %s: %s", client[0], error)
            self._remove(client)
            return
        except Exception:
            log.exception("cannot relay datagrams from %s", client[0])
            self._remove(client)
            return
        loop = asyncio.get_running_loop()

        def reply(data: bytes, _: Any) -> None:
            flow.last_used = loop.time()
            if self._transport is not None and not self._transport.is_closing():
                self._transport.sendto(data, client)

        transport, _ = await loop.create_datagram_endpoint(
            lambda: _DatagramEnd(reply, on_error=lambda: self._remove(client)), sock=connected
        )
        if self._flows.get(client) is not flow:
            transport.close()
            return
        flow.transport = transport
        for data in flow.waiting:
            transport.sendto(data)
        flow.waiting.clear()

    def _remove_idle(self, before: float) -> None:
        for client in [client for client, flow in self._flows.items() if flow.last_used < before]:
            self._remove(client)

    def _remove(self, client: Any) -> None:
        """Remove a flow; the next datagram of the client begins a new one, perhaps to another endpoint."""
        flow = self._flows.pop(client, None)
        if flow is not None and flow.transport is not None:
            flow.transport.close()


class _DatagramEnd(asyncio.DatagramProtocol):
    def __init__(self, receive: Callable[[bytes, Any], None], on_error: Callable[[], None] = lambda: None) -> None:
        self._receive, self._on_error = receive, on_error

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._receive(data, addr)

    def error_received(self, exc: Exception) -> None:
        """Call `on_error`, which ends the flow whose peer refuses datagrams.

        The listening socket has no such callback, as its client is gone.
        """
        self._on_error()
