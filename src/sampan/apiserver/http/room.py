"""Limits on connections, in total and per peer, and which connection is dropped when the limit is reached.

The total stays below the limit on open files, so that storage, kubelet and logs always get descriptors. A connection is
proven once a request on it was authenticated. When the limit is reached, an unproven connection without a request in
progress is dropped in favour of a new one: the oldest of the peer that has most of them. So a client without
credentials that holds many connections open locks out only itself.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable

from sampan.apiserver.http.limits import HttpLimits

_LEAST_PER_PEER = 64
"""The minimum limit per peer, for a server with few file descriptors, if it has so many at all."""
_PEER_PART = 0.75
_IPV6_NETWORK = 64
"""The prefix length that counts as one peer, because a host with one IPv6 address usually has its whole /64 network."""


class Place:
    """The slot of one connection, from accept until it is closed."""

    __slots__ = ("_is_free", "_is_proven", "_room", "drop", "is_busy", "peer")

    def __init__(self, room: Room, peer: str) -> None:
        self._room, self.peer = room, peer
        self._is_proven = self._is_free = False
        self.drop: Callable[[], object] = lambda: None
        """Closes the connection at once."""
        self.is_busy: Callable[[], bool] = lambda: False
        """Whether a request is in progress."""

    def prove(self) -> None:
        """Mark the connection as authenticated, so that it is never dropped for another."""
        if not self._is_proven:
            self._is_proven = True
            self._room.forget_suspect(self)

    def leave(self) -> None:
        """Release the slot of a closed connection."""
        if not self._is_free:
            self._is_free = True
            self._room.free(self)


class Room:
    def __init__(self, *, total: int, per_peer: int) -> None:
        self.total, self.per_peer = total, per_peer
        self._used = 0
        self._of_peer: dict[str, int] = {}
        self._suspects: dict[str, dict[Place, None]] = {}
        """Unproven connections by peer, oldest first."""
        self._waiting: list[asyncio.Future[None]] = []
        self.refused = 0
        """How many connections were rejected because their peer has too many."""

    async def enter(self, peer: str) -> Place | None:
        """Return a slot for a connection, waiting for one if necessary; None if its peer has too many."""
        if self._of_peer.get(peer, 0) >= self.per_peer:
            self.refused += 1
            return None
        while self._used >= self.total:
            self._make_room()
            if self._used >= self.total:
                await self._wait()
        place = Place(self, peer)
        self._used += 1
        self._of_peer[peer] = self._of_peer.get(peer, 0) + 1
        self._suspects.setdefault(peer, {})[place] = None
        return place

    def forget_suspect(self, place: Place) -> None:
        suspects = self._suspects.get(place.peer, {})
        suspects.pop(place, None)
        if not suspects:
            self._suspects.pop(place.peer, None)

    def free(self, place: Place) -> None:
        self.forget_suspect(place)
        self._used -= 1
        self._of_peer[place.peer] -= 1
        if not self._of_peer[place.peer]:
            del self._of_peer[place.peer]
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    def _make_room(self) -> None:
        """Drop one unproven connection that has no request in progress, if there is any."""
        for peer in sorted(self._suspects, key=lambda peer: len(self._suspects[peer]), reverse=True):
            for place in self._suspects[peer]:
                if not place.is_busy():
                    self.forget_suspect(place)
                    place.drop()
                    return

    async def _wait(self) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting


def room(limits: HttpLimits, descriptors: int) -> Room:
    """Return the limits for a process with this many file descriptors; some are reserved for everything else that it
    opens."""
    reserve = max(min(descriptors // 4, limits.reserved_descriptors), 1)
    total = max(min(limits.connections, descriptors - reserve), 1)
    per_peer = min(limits.connections_per_peer, max(int(total * _PEER_PART), _LEAST_PER_PEER))
    return Room(total=total, per_peer=per_peer)


def peer_of(address: object) -> str:
    """Return what counts as one peer: an IPv4 address, or the /64 network of an IPv6 address."""
    host = str(address[0]) if isinstance(address, tuple) and address else ""
    if ":" not in host:
        return host
    try:
        ipv6 = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if ipv6.ipv4_mapped is not None:
        return str(ipv6.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(ipv6), _IPV6_NETWORK), strict=False))
