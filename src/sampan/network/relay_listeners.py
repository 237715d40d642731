"""A set of relays that follows a desired set of addresses.

Relays are opened and closed, and opened again later if a port is in use.
"""

from __future__ import annotations

import asyncio
import errno
import heapq
import socket
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import NamedTuple

from sampan.api.limits import RELAYED_PORTS
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.network.accept_loop import MAX_CONNECTIONS
from sampan.network.http_port import bind_socket
from sampan.network.relay import DatagramRelay, StreamRelay

TCP, UDP = "TCP", "UDP"
PROTOCOLS = (TCP, UDP)
"""The protocols that can be relayed."""
_RETRY_S = 10.0
_NO_SUCH_ADDRESS = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


class RelayAddress(NamedTuple):
    """The protocol, address and port on which a relay listens."""

    protocol: str
    address: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}/{self.protocol}"


RelayUpstream = Callable[[RelayAddress, str], Awaitable[socket.socket]]
"""Returns a connected socket for a client of a listener. Raises OSError if there is nothing to connect to."""


class RelayListeners:
    """The open listeners. `async with` closes them and their connections at the end.

    `on_failure` is called once when a listener cannot be opened, for instance because another program has the port;
    it is tried again until it is not desired. Addresses that the namespace does not have are skipped silently, and
    tried again too.
    """

    def __init__(
        self,
        *,
        namespace: NetworkNamespace,
        upstream: RelayUpstream,
        on_failure: Callable[[RelayAddress, OSError], None],
    ) -> None:
        self._namespace, self._upstream, self._on_failure = namespace, upstream, on_failure
        self._desired: set[RelayAddress] = set()
        self._relays: dict[RelayAddress, asyncio.Task[None]] = {}
        self._reported: set[RelayAddress] = set()
        self._limit = asyncio.Semaphore(MAX_CONNECTIONS)
        self._group = asyncio.TaskGroup()
        self._retries: asyncio.Task[None] | None = None

    async def __aenter__(self) -> RelayListeners:
        await self._group.__aenter__()
        self._retries = self._group.create_task(self._retry())
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._retries is not None
        for task in (self._retries, *self._relays.values()):
            task.cancel()
        await self._group.__aexit__(None, None, None)

    def sync(self, desired: Collection[RelayAddress]) -> None:
        """Close the listeners that are not desired, and open those that are missing."""
        self._desired = set(desired)
        self._reported &= self._desired
        for address in [address for address in self._relays if address not in self._desired]:
            self._relays.pop(address).cancel()
        self._open_missing()

    def _open_missing(self) -> None:
        """Open ports up to the limit, and report the first one beyond it."""
        free_count = RELAYED_PORTS - len(self._relays)
        missing = heapq.nsmallest(free_count + 1, self._desired - self._relays.keys())
        for address in missing[:free_count]:
            kind = socket.SOCK_STREAM if address.protocol == TCP else socket.SOCK_DGRAM
            try:
                listener = bind_socket(self._namespace, address.address, address.port, kind)
            except OSError as error:
                self._report(address, error)
            else:
                self._reported.discard(address)
                self._relays[address] = task = self._group.create_task(self._run(address, listener))
                task.add_done_callback(partial(_close, listener))
        for address in missing[free_count:]:
            message = f"the node has {RELAYED_PORTS} open ports of services, the most; further ones are not opened"
            self._report(address, OSError(errno.EMFILE, message))

    def _report(self, address: RelayAddress, error: OSError) -> None:
        if error.errno not in _NO_SUCH_ADDRESS and address not in self._reported:
            self._reported.add(address)
            self._on_failure(address, error)

    async def _run(self, address: RelayAddress, listener: socket.socket) -> None:
        async def upstream(client: str) -> socket.socket:
            return await self._upstream(address, client)

        relay: StreamRelay | DatagramRelay
        if address.protocol == TCP:
            relay = StreamRelay(listener=listener, upstream=upstream, limit=self._limit)
        else:
            relay = DatagramRelay(listener=listener, upstream=upstream)
        await relay.run()

    async def _retry(self) -> None:
        while True:
            await asyncio.sleep(_RETRY_S)
            self._open_missing()


def _close(listener: socket.socket, _: asyncio.Task[None]) -> None:
    """Close the socket of a relay that has ended, even if its task was cancelled before it started."""
    listener.close()
