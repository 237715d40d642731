"""Accepts HTTP connections of clients, at most so many at a time: the others wait in the backlog of the kernel."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 1024
_HANDSHAKE_S = 10.0
_IDLE_S = 60.0
"""How long a client may take to send the head of a request, and how long its connection may be idle."""
_HEADER_BYTES, _HEADERS = 8190, 100
_LINGER_S = 5.0
_SHUTDOWN_S = 1.0
_PAUSE_S = 0.1

RequestFunction = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HttpListener:
    """Serves a listening socket. `run()` returns only when it is cancelled; it closes the socket."""

    def __init__(
        self,
        *,
        listener: socket.socket,
        handler: RequestFunction,
        limit: asyncio.Semaphore,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`limit` bounds the connections of all listeners that share it."""
        self._listener, self._handler, self._limit, self._tls = listener, handler, limit, tls

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        server = web.Server(self._handler, handler_cancellation=True)
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._limit.acquire()
                    try:
                        client, _ = await loop.sock_accept(self._listener)
                    except OSError as error:
                        self._limit.release()
                        await self._wait_after(error)
                    except BaseException:
                        self._limit.release()
                        raise
                    else:
                        group.create_task(self._serve(server, client))
        finally:
            self._listener.close()
            await server.shutdown(_SHUTDOWN_S)

    async def _wait_after(self, error: OSError) -> None:
        """Wait before the next attempt, if connections cannot be accepted for lack of descriptors or memory."""
        if error.errno == errno.EBADF:
            raise error
        if error.errno not in (errno.ECONNABORTED, errno.EINTR):
            log.warning("cannot accept connections on %s: %s", self._listener.getsockname(), error.strerror)
            await asyncio.sleep(_PAUSE_S)

    async def _serve(self, server: web.Server, client: socket.socket) -> None:
        """Serve a connection until it ends."""
        loop = asyncio.get_running_loop()
        connection = _Connection(server, loop)
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
            log.debug("a client connection failed: %s", error)
        finally:
            self._limit.release()


class _Connection(RequestHandler):
    __slots__ = ("is_lost",)

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=_IDLE_S,
            access_log=None,  # type: ignore[arg-type]
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
            max_headers=_HEADERS,
            lingering_time=_LINGER_S,
            auto_decompress=False,
        )
        self.is_lost = asyncio.Event()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.is_lost.set()
