"""HTTP client sessions that leave no connection open."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.eventually import eventually


@asynccontextmanager
async def open_session(**options: Any) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield a client session. At the end, wait until its connections are closed: the session itself does not wait for
    those that have left its pool, such as WebSockets."""
    sockets: list[socket.socket] = []

    def make_socket(address: Any) -> socket.socket:
        sockets.append(socket.socket(*address[:3]))
        return sockets[-1]

    connector = aiohttp.TCPConnector(socket_factory=make_socket)
    async with aiohttp.ClientSession(connector=connector, **options) as session:
        yield session
    await eventually(lambda: all(connection.fileno() == -1 for connection in sockets))
