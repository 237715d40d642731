"""The sockets of the DNS server of a node: UDP and TCP on the addresses of the node."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
import time
from collections.abc import Callable, Sequence

from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.telemetry.metrics import Histogram
from sampan.network.client_counts import ClientCounts
from sampan.network.dns.config import DnsServerConfig
from sampan.network.dns.forwarder import Forwarder
from sampan.network.dns.responder import DnsTransport, ForwardDecision, Responder
from sampan.network.dns.wire import REFUSED, SERVFAIL, labels_of, response

log = logging.getLogger(__name__)

_BATCH = 128
"""The number of datagrams that are read before other tasks run."""
_MAX_QUERY = 4096
_RECEIVE_BUFFER = 4 << 20
_PORT_ATTEMPTS = 20


class DnsServer:
    """Serves DNS on one port of the node's addresses. `run()` responds until it is cancelled."""

    def __init__(
        self,
        *,
        config: DnsServerConfig,
        namespace: NetworkNamespace,
        addresses: Sequence[str],
        responder: Responder,
        forwarder: Forwarder,
        alias_ttl_s: int,
        durations: Callable[[str, str], Histogram],
        admits: Callable[[str], bool],
    ) -> None:
        """Create the server. `durations` returns the metric for a protocol and family. `admits` returns whether an
        address may query."""
        self._config, self._namespace, self._addresses = config, namespace, addresses
        self._responder, self._forwarder, self._alias_ttl_s = responder, forwarder, alias_ttl_s
        self._durations, self._admits = durations, admits
        self.port = 0
        """The port on which the server listens."""
        self.transports: list[DnsTransport] = []
        self._pending = ClientCounts(maximum=config.max_pending, max_per_client=config.max_pending_per_client)
        """The numbers of forwarded queries over UDP that are in progress, by client."""
        self._connections = ClientCounts(
            maximum=config.max_connections, max_per_client=config.max_connections_per_client
        )
        """The numbers of TCP connections by client."""
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self, listening: asyncio.Event) -> None:
        """Open the sockets, set `listening`, and respond until cancelled."""
        loop = asyncio.get_running_loop()
        datagrams, streams = await asyncio.to_thread(self._open)
        servers: list[asyncio.Server] = []
        try:
            async with asyncio.TaskGroup() as self._tasks:
                for endpoint in datagrams:
                    transport = self._transport("udp", endpoint)
                    loop.add_reader(endpoint.fileno(), self._on_datagrams, endpoint, transport)
                for listener in streams:
                    transport = self._transport("tcp", listener)
                    servers.append(await self._serve_streams(listener, transport))
                listening.set()
                await asyncio.get_running_loop().create_future()
        finally:
            self._tasks = None
            for endpoint in datagrams:
                loop.remove_reader(endpoint.fileno())
                endpoint.close()
            for server in servers:
                server.close()
            for listener in streams:
                listener.close()

    def _transport(self, protocol: str, endpoint: socket.socket) -> DnsTransport:
        family = "2" if endpoint.family == socket.AF_INET6 else "1"
        transport = DnsTransport(protocol=protocol, family=family, durations=self._durations(protocol, family))
        self.transports.append(transport)
        return transport

    # -- sockets -------------------------------------------------------------------------------------------------------

    def _open(self) -> tuple[list[socket.socket], list[socket.socket]]:
        """Open UDP and TCP sockets on all addresses with the same port: the preferred port, or a free one if it is
        taken."""
        return self._namespace.run(self._open_inside)

    def _open_inside(self) -> tuple[list[socket.socket], list[socket.socket]]:
        for port in (self._config.port, *[0] * _PORT_ATTEMPTS):
            try:
                sockets = self._open_port(port)
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise
                continue
            self.port = int(sockets[0][0].getsockname()[1])
            return sockets
        raise OSError(errno.EADDRINUSE, "no port is free for both UDP and TCP")

    def _open_port(self, port: int) -> tuple[list[socket.socket], list[socket.socket]]:
        datagrams: list[socket.socket] = []
        streams: list[socket.socket] = []
        try:
            for address in self._addresses:
                datagrams.append(_open_socket(address, port, socket.SOCK_DGRAM))
                port = int(datagrams[-1].getsockname()[1])
                streams.append(_open_socket(address, port, socket.SOCK_STREAM))
        except BaseException:
            for endpoint in (*datagrams, *streams):
                endpoint.close()
            raise
        return datagrams, streams

    # -- UDP -----------------------------------------------------------------------------------------------------------

    def _on_datagrams(self, endpoint: socket.socket, transport: DnsTransport) -> None:
        """Respond to the datagrams that wait in the socket."""
        receive, send, respond, admits = endpoint.recvfrom, endpoint.sendto, self._responder.respond, self._admits
        for _ in range(_BATCH):
            try:
                message, peer = receive(_MAX_QUERY)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # an ICMP message about an earlier response
                continue
            if not admits(peer[0]):
                continue
            try:
                began = time.perf_counter()
                result = respond(message, transport)
                if isinstance(result, ForwardDecision):
                    result = self._respond_or_defer(result, transport, endpoint, peer)
                if result is not None:
                    send(result, peer)
                    transport.durations.observe(time.perf_counter() - began)
            except OSError:  # the client is gone, or the send buffer is full: clients repeat their queries
                continue
            except Exception:
                log.exception("cannot respond to a DNS query of %d bytes from %s over UDP", len(message), peer[0])

    def _respond_or_defer(
        self, forward: ForwardDecision, transport: DnsTransport, endpoint: socket.socket, peer: tuple[str, int]
    ) -> bytes | None:
        """Return the response to a query that is forwarded, if it is known at once. Otherwise return None and send the
        response later."""
        message = self._forwarder.cached_response(forward)
        if message is None and self._tasks is not None:
            if self._pending.enter(peer[0]):
                self._tasks.create_task(self._send_later(forward, transport, endpoint, peer))
                return None
            message = response(forward.query, rcode=REFUSED)
        return self._responder.finish_response(forward.query, message, transport) if message is not None else None

    async def _send_later(
        self, forward: ForwardDecision, transport: DnsTransport, endpoint: socket.socket, peer: tuple[str, int]
    ) -> None:
        try:
            message = await self._resolve(forward, transport)
            endpoint.sendto(message, peer)
        except OSError:
            pass  # the client is gone, or the send buffer is full
        finally:
            self._pending.leave(peer[0])

    async def _resolve(self, forward: ForwardDecision, transport: DnsTransport) -> bytes:
        began = time.perf_counter()
        try:
            message = await self._forwarder.resolve(forward, ttl_s=self._alias_ttl_s)
        except Exception:
            log.exception("cannot resolve the DNS query for %r", b".".join(labels_of(forward.query.name)))
            message = response(forward.query, rcode=SERVFAIL)
        transport.durations.observe(time.perf_counter() - began)
        return self._responder.finish_response(forward.query, message, transport)

    # -- TCP -----------------------------------------------------------------------------------------------------------

    async def _serve_streams(self, listener: socket.socket, transport: DnsTransport) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client: str) -> None:
            try:
                await self._serve_connection(reader, writer, transport)
            finally:
                self._connections.leave(client)
                writer.close()

        def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = writer.get_extra_info("peername")
            if self._tasks is None or peer is None or not self._admits(peer[0]):
                writer.transport.abort()
                return
            if not self._connections.enter(peer[0]):
                writer.transport.abort()
                return
            self._tasks.create_task(serve(reader, writer, peer[0]))

        return await asyncio.start_server(on_connection, sock=listener, limit=_MAX_QUERY * 4)

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, transport: DnsTransport
    ) -> None:
        pipelined = asyncio.Semaphore(self._config.max_pipelined)
        try:
            async with asyncio.TaskGroup() as group:
                while (message := await self._read_message(reader)) is not None:
                    began = time.perf_counter()
                    result = self._responder.respond(message, transport)
                    if isinstance(result, ForwardDecision):
                        await pipelined.acquire()
                        group.create_task(self._write_later(result, transport, writer, pipelined))
                    elif result is not None:
                        await self._write(writer, result)
                        transport.durations.observe(time.perf_counter() - began)
        except* (OSError, TimeoutError):
            pass  # the client is gone or does not read its responses
        except* Exception:
            log.exception("cannot respond to a DNS query from %s over TCP", writer.get_extra_info("peername"))

    async def _read_message(self, reader: asyncio.StreamReader) -> bytes | None:
        """Return the next message of a connection; None if it ended or was idle for too long."""
        try:
            async with asyncio.timeout(self._config.idle_s):
                size = int.from_bytes(await reader.readexactly(2), "big")
                return await reader.readexactly(size)
        except (asyncio.IncompleteReadError, TimeoutError):
            return None

    async def _write_later(
        self,
        forward: ForwardDecision,
        transport: DnsTransport,
        writer: asyncio.StreamWriter,
        pipelined: asyncio.Semaphore,
    ) -> None:
        try:
            message = self._forwarder.cached_response(forward)
            if message is None:
                message = await self._resolve(forward, transport)
            else:
                message = self._responder.finish_response(forward.query, message, transport)
            await self._write(writer, message)
        finally:
            pipelined.release()

    async def _write(self, writer: asyncio.StreamWriter, message: bytes) -> None:
        writer.write(len(message).to_bytes(2, "big") + message)
        async with asyncio.timeout(self._config.idle_s):
            await writer.drain()


def _open_socket(address: str, port: int, kind: socket.SocketKind) -> socket.socket:
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    endpoint = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        if family == socket.AF_INET6:
            endpoint.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if kind == socket.SOCK_STREAM:
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        else:
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        endpoint.bind((address, port))
        if kind == socket.SOCK_STREAM:
            endpoint.listen(128)
    except BaseException:
        endpoint.close()
        raise
    return endpoint
