"""The limits of the HTTP server, and which connection is dropped when the limit on connections is reached.

The total of connections stays below the limit on open files, so that storage, kubelet and logs always get descriptors.
A connection is proven once a request on it was authenticated. When the limit is reached, an unproven connection without
a request in progress is dropped in favor of a new one: the oldest of the peer that has most of them. So a client
without credentials that holds many connections open locks out only itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from sampan.api.addresses import client_network
from sampan.api.limits import REQUEST_BODY_BYTES
from sampan.host.http import EdgeLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits(EdgeLimits):
    body_bytes: int = REQUEST_BODY_BYTES
    line_bytes: int = 128 << 10
    field_bytes: int = 64 << 10
    fields: int = 256
    head_bytes: int = 1 << 20
    head_s: float = 32
    idle_s: float = 90
    linger_s: float = 5
    request_s: float = 60
    """The timeout of a request, from its head to the end of the response; long-running requests are exempt."""
    handshake_s: float = 10
    """The timeout of the TLS handshake."""
    connections: int = 16_000
    """The maximum number of connections, if file descriptors suffice; further ones wait until one is closed."""
    connections_per_peer: int = 12_000
    """The maximum number of connections from one address, and at most three quarters of all: enough for 10,000 watches
    from a machine that simulates a large cluster. Further ones are closed as soon as they are accepted."""
    reserved_descriptors: int = 1_024
    """File descriptors reserved for storage, kubelet, logs and outgoing connections, but at most a quarter of all."""
    reading: int = 400
    """The maximum number of concurrent read-only requests, not counting long-running ones."""
    writing: int = 200
    """The maximum number of concurrent mutating requests."""


_MIN_CONNECTIONS_PER_PEER = 64
"""The lower bound of the limit per peer, for a server with few file descriptors. The total limit may be even lower."""
_PEER_PART = 0.75


class ConnectionSlot:
    """The slot of one connection, from accept until it is closed."""

    __slots__ = ("_is_free", "_is_proven", "_limiter", "drop", "is_busy", "peer")

    def __init__(self, limiter: ConnectionLimiter, peer: str) -> None:
        self._limiter, self.peer = limiter, peer
        self._is_proven = self._is_free = False
        self.drop: Callable[[], object] = lambda: None
        """Closes the connection at once."""
        self.is_busy: Callable[[], bool] = lambda: False
        """Whether a request is in progress."""

    def mark_authenticated(self) -> None:
        """Mark the connection as authenticated, so that it is never dropped for another."""
        if not self._is_proven:
            self._is_proven = True
            self._limiter.forget_suspect(self)

    def leave(self) -> None:
        """Release the slot of a closed connection."""
        if not self._is_free:
            self._is_free = True
            self._limiter.free(self)


class ConnectionLimiter:
    def __init__(self, *, total: int, per_peer: int) -> None:
        self.total, self.per_peer = total, per_peer
        self._used = 0
        self._of_peer: dict[str, int] = {}
        self._suspects: dict[str, dict[ConnectionSlot, None]] = {}
        """Unproven connections by peer, oldest first."""
        self._waiting: list[asyncio.Future[None]] = []
        self.refused = 0
        """How many connections were rejected because their peer has too many."""

    async def enter(self, peer: str) -> ConnectionSlot | None:
        """Return a slot for a connection, waiting for one if necessary; None if its peer has too many."""
        if self._of_peer.get(peer, 0) >= self.per_peer:
            self.refused += 1
            return None
        while self._used >= self.total:
            self._drop_unproven()
            if self._used >= self.total:
                await self._wait()
        slot = ConnectionSlot(self, peer)
        self._used += 1
        self._of_peer[peer] = self._of_peer.get(peer, 0) + 1
        self._suspects.setdefault(peer, {})[slot] = None
        return slot

    def forget_suspect(self, slot: ConnectionSlot) -> None:
        suspects = self._suspects.get(slot.peer, {})
        suspects.pop(slot, None)
        if not suspects:
            self._suspects.pop(slot.peer, None)

    def free(self, slot: ConnectionSlot) -> None:
        self.forget_suspect(slot)
        self._used -= 1
        self._of_peer[slot.peer] -= 1
        if not self._of_peer[slot.peer]:
            del self._of_peer[slot.peer]
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    def _drop_unproven(self) -> None:
        """Drop one unproven connection that has no request in progress, if there is any."""
        for peer in sorted(self._suspects, key=lambda peer: len(self._suspects[peer]), reverse=True):
            for slot in self._suspects[peer]:
                if not slot.is_busy():
                    self.forget_suspect(slot)
                    slot.drop()
                    return

    async def _wait(self) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting


def connection_limiter(limits: HttpLimits, descriptors: int) -> ConnectionLimiter:
    """Return the limiter for a process with this many file descriptors. Some of them are reserved for files and
    connections other than those of clients."""
    reserve = max(min(descriptors // 4, limits.reserved_descriptors), 1)
    total = max(min(limits.connections, descriptors - reserve), 1)
    per_peer = min(limits.connections_per_peer, max(int(total * _PEER_PART), _MIN_CONNECTIONS_PER_PEER))
    return ConnectionLimiter(total=total, per_peer=per_peer)


def peer_of(address: object) -> str:
    """Return the peer of an address: the IPv4 address itself, or the /64 network of an IPv6 address."""
    return client_network(str(address[0])) if isinstance(address, tuple) and address else ""
