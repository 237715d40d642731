"""Serves the HTTP connections of clients, with limits on the size of request heads and on idle times."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from contextlib import suppress
from functools import partial

from sampan.api.addresses import client_network
from sampan.host.http import EdgeLimits, Handler, HttpConnection, HttpConnections
from sampan.network.accept_loop import accept_connections
from sampan.network.client_counts import ClientCounts

log = logging.getLogger(__name__)

_HANDSHAKE_S = 10.0
_IDLE_S = 60.0
"""How long a client may take to send the head of a request, and how long its connection may be idle."""
_HEADER_BYTES, _HEADERS = 8190, 100
_LINGER_S = 5.0
_SHUTDOWN_S = 1.0
_TOO_MANY_CONNECTIONS_RESPONSE = (
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 38\r\n\r\ntoo many connections from this address"
)


class HttpListener:
    """Serves a listening socket. `run()` returns only when it is cancelled; it closes the socket."""

    def __init__(
        self,
        *,
        listener: socket.socket,
        handler: Handler,
        limit: asyncio.Semaphore,
        clients: ClientCounts,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Create the listener. `limit` bounds the connections of all listeners that share it, and `clients` those of
        each client address."""
        self._listener, self._handler, self._limit, self._tls = listener, handler, limit, tls
        self._clients = clients

    async def run(self) -> None:
        limits = EdgeLimits(
            line_bytes=_HEADER_BYTES,
            field_bytes=_HEADER_BYTES,
            fields=_HEADERS,
            oversize_code=400,
            head_s=_IDLE_S,
            idle_s=_IDLE_S,
            linger_s=_LINGER_S,
            answers_slow_heads=False,
        )
        connections = HttpConnections(self._handler, limits=limits)
        try:
            await accept_connections(self._listener, self._limit, partial(self._serve, connections))
        finally:
            self._listener.close()
            await connections.close(_SHUTDOWN_S)

    async def _serve(self, connections: HttpConnections, client: socket.socket, peer: str) -> None:
        """Serve a connection until it ends. Refuse it if its client has too many connections."""
        network = client_network(peer)
        if not self._clients.enter(network):
            log.debug("refused a connection from %s: too many connections from this address", peer)
            _refuse(client, is_plain=self._tls is None)
            return
        try:
            await self._serve_admitted(connections, client, peer)
        finally:
            self._clients.leave(network)

    async def _serve_admitted(self, connections: HttpConnections, client: socket.socket, peer: str) -> None:
        loop = asyncio.get_running_loop()
        connection = _IngressConnection(connections)
        try:
            await loop.connect_accepted_socket(
                lambda: connection,
                client,
                ssl=self._tls,
                ssl_handshake_timeout=_HANDSHAKE_S if self._tls is not None else None,
            )
            await connection.is_lost.wait()
        except (OSError, ssl.SSLError) as error:  # a failed handshake, or one that takes too long
            client.close()
            log.debug("the connection of the client %s failed: %s", peer, error)


def _refuse(client: socket.socket, *, is_plain: bool) -> None:
    """Close a connection at once. Data that the client has sent so far is read first, because the response would be
    lost otherwise."""
    with client, suppress(OSError):
        if is_plain:
            client.send(_TOO_MANY_CONNECTIONS_RESPONSE)
            client.shutdown(socket.SHUT_WR)
            client.recv(_HEADER_BYTES)


class _IngressConnection(HttpConnection):
    def __init__(self, connections: HttpConnections) -> None:
        super().__init__(connections)
        self.is_lost = asyncio.Event()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.is_lost.set()
