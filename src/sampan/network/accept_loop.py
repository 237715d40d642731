"""Accepts the connections of a listening socket, up to a limit. Further connections wait in the backlog of the
kernel."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 1024
_PAUSE_S = 0.1

ServeConnection = Callable[[socket.socket, str], Awaitable[None]]
"""A function that serves a connection from the client with this address until it ends, and closes the socket."""


async def accept_connections(listener: socket.socket, limit: asyncio.Semaphore, serve: ServeConnection) -> None:
    """Serve connections until cancelled.

    The semaphore `limit` bounds the connections of all listeners that share it. It is released when a connection has
    ended.
    """
    loop = asyncio.get_running_loop()

    async def serve_and_release(client: socket.socket, peer: str) -> None:
        try:
            await serve(client, peer)
        finally:
            limit.release()

    async with asyncio.TaskGroup() as group:
        while True:
            await limit.acquire()
            try:
                client, peer = await loop.sock_accept(listener)
            except OSError as error:
                limit.release()
                await _wait_after(error, listener)
            except BaseException:
                limit.release()
                raise
            else:
                group.create_task(serve_and_release(client, str(peer[0])))


async def _wait_after(error: OSError, listener: socket.socket) -> None:
    """Wait before the next attempt, if connections cannot be accepted for lack of descriptors or memory."""
    if error.errno == errno.EBADF:
        raise error
    if error.errno not in (errno.ECONNABORTED, errno.EINTR):
        log.warning("cannot accept connections on %s: %s", listener.getsockname(), error.strerror)
        await asyncio.sleep(_PAUSE_S)
