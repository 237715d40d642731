"""Room for connections: how many there may be, from one peer and in all, and who gives way when there is none.

The number of connections stays below the limit on open files, so that the store, the kubelet and the logs always get
theirs. A connection is proven once a request on it was authenticated. When there is no room, one that is not proven
and has no request under way gives way to a new one: it is taken from the peer that has most of them, the oldest first.
So somebody without credentials who holds many connections open shuts out nobody but himself.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable

from sampan.apiserver.http.limits import HttpLimits

_LEAST_PER_PEER = 64
"""A server with few descriptors still gives a single machine so many connections, if it has them at all."""
_PEER_PART = 0.75
_IPV6_NETWORK = 64
"""Whoever has one IPv6 address mostly has all of its /64 network."""


class Place:
    """The place of one connection, from being accepted until it is closed."""

    __slots__ = ("_is_free", "_is_proven", "_room", "drop", "is_busy", "peer")

    def __init__(self, room: Room, peer: str) -> None:
        self._room, self.peer = room, peer
        self._is_proven = self._is_free = False
        self.drop: Callable[[], object] = lambda: None
        """Closes the connection at once."""
        self.is_busy: Callable[[], bool] = lambda: False
        """Whether a request is under way."""

    def prove(self) -> None:
        """A request on this connection was authenticated: it never gives way."""
        if not self._is_proven:
            self._is_proven = True
            self._room.forget_suspect(self)

    def leave(self) -> None:
        """The connection is closed."""
        if not self._is_free:
            self._is_free = True
            self._room.free(self)


class Room:
    def __init__(self, *, total: int, per_peer: int) -> None:
        self.total, self.per_peer = total, per_peer
        self._used = 0
        self._of_peer: dict[str, int] = {}
        self._suspects: dict[str, dict[Place, None]] = {}
        """By peer: the connections that are not proven, oldest first."""
        self._waiting: list[asyncio.Future[None]] = []
        self.refused = 0
        """Connections that were refused because their peer has too many."""

    async def enter(self, peer: str) -> Place | None:
        """A place for a connection, once there is one; None if its peer has too many."""
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
        """Drop one connection that is not proven, if there is one without a request under way."""
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
    """The room that a process with so many descriptors has: some are kept for everything else that it opens."""
    reserve = max(min(descriptors // 4, limits.reserved_descriptors), 1)
    total = max(min(limits.connections, descriptors - reserve), 1)
    per_peer = min(limits.connections_per_peer, max(int(total * _PEER_PART), _LEAST_PER_PEER))
    return Room(total=total, per_peer=per_peer)


def peer_of(address: object) -> str:
    """What counts as one peer: an IPv4 address, or the network of an IPv6 address."""
    host = str(address[0]) if isinstance(address, tuple) and address else ""
    if ":" not in host:
        return host
    try:
        found = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found), _IPV6_NETWORK), strict=False))


__all__ = ["Place", "Room", "peer_of", "room"]
