"""The addresses on which the API server listens, and the one at which clients reach it."""

from __future__ import annotations

import errno
import logging
import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

from sampan.apiserver.http.server import HttpServer, Listener
from sampan.apiserver.http.tls import tls_context
from sampan.apiserver.request.call import MASTERS, UserInfo

if TYPE_CHECKING:
    from sampan.apiserver.config.server_config import ServerConfig

log = logging.getLogger(__name__)

INSECURE_USER = UserInfo("system:unsecured", groups=(MASTERS, "system:authenticated"))


class ListenError(OSError):
    """The server cannot listen on an address and port."""

    def __init__(self, error: OSError, listener: Listener) -> None:
        super().__init__(error.errno, error.strerror)
        self.host, self.port, self.is_secure = listener.host, listener.port, listener.tls is not None


class ApiServerAddress:
    """The address of a server. The ports are 0 until `listen` has returned, and for a listener that is disabled."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self.secure_port = self.insecure_port = 0

    @property
    def host(self) -> str:
        """The address at which clients reach the server."""
        return self._config.advertise_address or find_default_route_address()

    @property
    def port(self) -> int:
        return self.secure_port or self.insecure_port or 443

    def host_port(self) -> str:
        return f"{self.host}:{self.secure_port or self.insecure_port}"

    async def listen(self, http: HttpServer) -> None:
        config = self._config
        if config.tls is not None and (config.secure_port or config.any_secure_port):
            tls, port = tls_context(config.tls, config.proxy_ca), 0 if config.any_secure_port else config.secure_port
            for address in (config.bind_address, *config.other_bind_addresses):
                self.secure_port = port = await self._open(http, Listener(address, port, tls))
        if config.insecure_port or config.any_insecure_port:
            port = 0 if config.any_insecure_port else config.insecure_port
            listener = Listener(config.insecure_bind_address, port, user=INSECURE_USER)
            self.insecure_port = await self._open(http, listener)
            log.warning("serving plain HTTP without authentication on %s:%d", listener.host, self.insecure_port)

    async def _open(self, http: HttpServer, listener: Listener) -> int:
        """Listen on an address in each network that has it, on the same port, and return the port."""
        port, failure = 0, OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        for network in self._config.networks:
            try:
                port = (await http.listen([replace(listener, port=port or listener.port, network=network)]))[0]
            except OSError as error:
                failure = error
                if error.errno != errno.EADDRNOTAVAIL:
                    raise ListenError(error, listener) from None
        if not port:
            raise ListenError(failure, listener) from None
        return port


def find_default_route_address() -> str:
    """Return the address of this machine's default route, or the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
