"""The Ingress server of a node: listens on the node's addresses, in the network namespace of the node."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack

from sampan.api.limits import INGRESS_CLIENT_CONNECTIONS
from sampan.host.http import Handler, HttpRequest, StreamResponse
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.network.accept_loop import MAX_CONNECTIONS
from sampan.network.client_counts import ClientCounts
from sampan.network.http_port import bind_socket
from sampan.network.ingress.forwarder import ClientSide, IngressForwarder
from sampan.network.ingress.listener import HttpListener
from sampan.network.ingress.publication import HTTP, HTTPS, IngressConfig, describe_ingress_server
from sampan.network.server_publication import PublishedServer

log = logging.getLogger(__name__)

_HTTP_PORT, _HTTPS_PORT = 10880, 10843
"""The preferred ports of the servers. A free port is used instead of one that another program has."""
_ATTEMPTS = 5


class NodeIngress:
    """The Ingress server of one node. `run()` serves until it is cancelled, and may be called again."""

    def __init__(
        self,
        *,
        config: IngressConfig,
        node: str,
        namespace: NetworkNamespace,
        addresses: Sequence[str],
        make_forwarder: Callable[[], IngressForwarder],
        tls: ssl.SSLContext,
        is_synced: asyncio.Event,
        publish: Callable[[PublishedServer], Awaitable[None]],
    ) -> None:
        """Create the server. `is_synced` is set once the routing table is complete. `publish` publishes the server
        until it is cancelled."""
        self.listening = asyncio.Event()
        self.listen_addresses: list[tuple[str, int]] = []
        """The addresses and ports on which the server accepts connections."""
        self._config, self._node, self._namespace, self._addresses = config, node, namespace, addresses
        self._make_forwarder, self._tls, self._is_synced, self._publish = make_forwarder, tls, is_synced, publish

    async def run(self) -> None:
        """Serve HTTP and HTTPS. The server is published once the routing table is complete."""
        self.listening.clear()
        forwarder, limit = self._make_forwarder(), asyncio.Semaphore(MAX_CONNECTIONS)
        clients = ClientCounts(maximum=MAX_CONNECTIONS, max_per_client=INGRESS_CLIENT_CONNECTIONS)
        with ExitStack() as sockets:
            http_port, plain = await asyncio.to_thread(listen, self._namespace, self._addresses, _HTTP_PORT)
            https_port, secure = await asyncio.to_thread(listen, self._namespace, self._addresses, _HTTPS_PORT)
            for listener in (*plain, *secure):
                sockets.callback(listener.close)
            sides = (
                (plain, ClientSide(HTTP, self._config.http_port), None),
                (secure, ClientSide(HTTPS, self._config.https_port), self._tls),
            )
            try:
                async with asyncio.TaskGroup() as group:
                    for listeners, side, tls in sides:
                        handler = _handler(forwarder, side)
                        for listener in listeners:
                            server = HttpListener(
                                listener=listener, handler=handler, limit=limit, clients=clients, tls=tls
                            )
                            group.create_task(server.run())
                    self.listen_addresses = [
                        (address, port) for port in (http_port, https_port) for address in self._addresses
                    ]
                    self.listening.set()
                    await self._is_synced.wait()
                    log.info("Ingress server of node %s listens on ports %d and %d", self._node, http_port, https_port)
                    await self._publish(
                        describe_ingress_server(
                            node=self._node, addresses=self._addresses, http_port=http_port, https_port=https_port
                        )
                    )
            finally:
                await forwarder.close()


def _handler(forwarder: IngressForwarder, side: ClientSide) -> Handler:
    async def handle(request: HttpRequest) -> StreamResponse | None:
        return await forwarder.handle(request, side)

    return handle


def listen(namespace: NetworkNamespace, addresses: Sequence[str], preferred: int) -> tuple[int, list[socket.socket]]:
    """Return a port and sockets that listen on it, one for each address. The call blocks. Raise OSError if an address
    cannot be bound."""
    for attempt in range(_ATTEMPTS):
        listeners: list[socket.socket] = []
        port = preferred if attempt == 0 else 0
        try:
            for address in addresses:
                listeners.append(bind_socket(namespace, address, port))
                port = listeners[0].getsockname()[1]
        except OSError as error:
            for listener in listeners:
                listener.close()
            if error.errno != errno.EADDRINUSE or attempt == _ATTEMPTS - 1:
                raise
        else:
            return port, listeners
    raise OSError(errno.EADDRINUSE, "no port is free on all addresses of the node")
