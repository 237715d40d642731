"""Accepting connections: limits their number and checks that clients speak TLS on a TLS port.

An error of a single connection never stops the accept loop. A TLS port peeks at the first byte before the handshake, so
that a client that speaks plain HTTP gets a readable error.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from sampan.apiserver.http.connection_limits import ConnectionLimiter, ConnectionSlot, HttpLimits, peer_of
from sampan.apiserver.http.tls import classify_client_certificate
from sampan.host.http import HttpConnection, HttpConnections
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.pki.server_tls import PeerCertificate, read_peer

log = logging.getLogger(__name__)

_BACKLOG = 1024
_PAUSE_S = 1.0
"""The pause after a failed accept, which is mostly caused by a lack of file descriptors."""
_WRONG_PORT = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


class ApiConnection(HttpConnection):
    """A connection of the API server, with the client certificate and a slot among all connections."""

    def __init__(self, connections: HttpConnections, slot: ConnectionSlot) -> None:
        super().__init__(connections)
        self.slot = slot
        self.client_certificate: PeerCertificate | None = None
        """The client certificate, if it was verified against the client CA."""
        self.proxy_certificate: PeerCertificate | None = None
        """The client certificate, if it was verified against the CA of front proxies."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        if certificate:
            tls = transport.get_extra_info("ssl_object")
            self.client_certificate, self.proxy_certificate = classify_client_certificate(tls, read_peer(certificate))
        self.slot.drop, self.slot.is_busy = self.abort, lambda: self.is_busy

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.slot.drop = self.slot.is_busy = lambda: False
        self.slot.leave()


class Acceptor:
    def __init__(
        self,
        *,
        listening: socket.socket,
        make: Callable[[ConnectionSlot], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None,
        limiter: ConnectionLimiter,
        limits: HttpLimits,
    ) -> None:
        """`make` returns the protocol of a connection, which must call `ConnectionSlot.leave` when it is closed."""
        self._listening, self._make, self.tls = listening, make, tls
        self._limiter, self._limits = limiter, limits
        self._arriving: set[socket.socket] = set()
        """Sockets that are accepted, but whose connection is not set up yet."""
        self._options: dict[str, Any] = {}
        if tls is not None:
            self._options = {"ssl_handshake_timeout": limits.handshake_s, "ssl_shutdown_timeout": limits.linger_s}

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    async def run(self) -> None:
        """Accept connections until cancelled; connections that are then still being set up are dropped."""
        async with asyncio.TaskGroup() as arriving:
            while True:
                try:
                    await self._accept_one(arriving)
                except Exception:
                    log.exception("unexpected error while accepting a connection; the listener continues")
                    await asyncio.sleep(_PAUSE_S)

    async def _accept_one(self, arriving: asyncio.TaskGroup) -> None:
        client, address = await self._accept()
        self._arriving.add(client)
        slot = None
        try:
            slot = await self._limiter.enter(peer_of(address))
        finally:
            if slot is None:
                self._arriving.discard(client)
                client.close()
        if slot is None:
            log.debug("refused a connection from %s: too many connections from this address", address)
            return
        task = arriving.create_task(self._admit(client, slot))
        slot.drop = task.cancel

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """Use another TLS context for new connections; without effect on a plain HTTP port."""
        if self.tls is not None:
            self.tls = tls

    def close(self) -> None:
        """Close the listening socket and pending ones, after `run` has been cancelled."""
        for sock in (self._listening, *self._arriving):
            sock.close()

    async def _accept(self) -> tuple[socket.socket, object]:
        while True:
            try:
                return await asyncio.get_running_loop().sock_accept(self._listening)
            except OSError as error:
                log.warning("cannot accept a connection: %s", error)
                await asyncio.sleep(_PAUSE_S)

    async def _admit(self, client: socket.socket, slot: ConnectionSlot) -> None:
        is_admitted = False
        try:
            if self.tls is None or await self._speaks_tls(client):
                loop = asyncio.get_running_loop()
                make = partial(self._make, slot)
                await loop.connect_accepted_socket(make, client, ssl=self.tls, **self._options)
                is_admitted = True
        except (OSError, TimeoutError) as error:
            log.debug("cannot set up a connection: %s", error)
        except Exception:
            log.exception("unexpected error while setting up a connection")
        finally:
            self._arriving.discard(client)
            if not is_admitted:
                client.close()
                slot.leave()

    async def _speaks_tls(self, client: socket.socket) -> bool:
        async with asyncio.timeout(self._limits.handshake_s):
            await _readable(client)
            first = client.recv(1, socket.MSG_PEEK)
            if not first.isalpha():
                return bool(first)
            await _send_and_linger(client, _WRONG_PORT)
            return False


async def _readable(client: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(client, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(client)


async def _send_and_linger(client: socket.socket, text: bytes) -> None:
    """Send an error and wait until the client closes, because closing at once could reset the connection before it was
    read."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, text)
    client.shutdown(socket.SHUT_WR)
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            while await loop.sock_recv(client, 65536):
                pass


def listen(host: str, port: int, network: NetworkNamespace) -> socket.socket:
    """Return a listening socket. Raise OSError if the address cannot be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = network.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        listening.bind((host, port))
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
