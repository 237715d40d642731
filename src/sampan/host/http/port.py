"""A port for a handler, without limits on the number of connections."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sampan.host.http.connection import Handler, HttpConnection, HttpConnections
from sampan.host.http.head import EdgeLimits

_CLOSE_S = 1.0


@asynccontextmanager
async def serve_http(
    handler: Handler,
    *,
    address: tuple[str, int] | socket.socket,
    tls: ssl.SSLContext | None = None,
    limits: EdgeLimits | None = None,
) -> AsyncIterator[int]:
    """Serve on an address, or on a bound socket, for the duration of the block; yield the port. Raise OSError if the
    address cannot be bound."""
    connections = HttpConnections(handler, limits=limits)
    loop = asyncio.get_running_loop()

    def make() -> HttpConnection:
        return HttpConnection(connections)

    if isinstance(address, socket.socket):
        server = await loop.create_server(make, sock=address, ssl=tls)
    else:
        server = await loop.create_server(make, *address, ssl=tls, reuse_address=True)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await connections.close(_CLOSE_S)
