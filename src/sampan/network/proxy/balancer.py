"""The choice of an endpoint for a connection in user space: round-robin, with session affinity. No input or output."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.machinery.clock import Clock
from sampan.network.proxy.services import EndpointInfo, ServicePortInfo, ServicePortName

_MOST_SESSIONS = 10_000

_PortKey = tuple[ServicePortName, str]
"""A service port in one IP family."""


class EndpointBalancer:
    """Balances connections of service ports over their endpoints."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._next: dict[_PortKey, int] = {}
        self._sessions: dict[tuple[_PortKey, str], tuple[tuple[str, int], float]] = {}
        """The endpoint of a client and the time until which it is used, the session used least recently first."""

    def candidates(self, info: ServicePortInfo, endpoints: Sequence[EndpointInfo], client: str) -> list[EndpointInfo]:
        """Return the endpoints in the order in which they should be tried, that of the session first. Advance the
        round-robin."""
        if not endpoints:
            return []
        key = (info.name, info.family)
        start = self._next.get(key, 0) % len(endpoints)
        ordered = [*endpoints[start:], *endpoints[:start]]
        session = self._session(info, client)
        if session is not None and any((e.address, e.port) == session for e in ordered):
            ordered.sort(key=lambda e: (e.address, e.port) != session)
        else:
            self._next[key] = start + 1
        return ordered

    def on_connected(self, info: ServicePortInfo, endpoint: EndpointInfo, client: str) -> None:
        """Record the endpoint of a new connection for the session affinity of its client."""
        if not info.affinity_timeout_s:
            return
        key = ((info.name, info.family), client)
        self._sessions.pop(key, None)
        if len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        until = self._clock.monotonic() + info.affinity_timeout_s
        self._sessions[key] = ((endpoint.address, endpoint.port), until)

    def forget(self, name: ServicePortName, family: str) -> None:
        """Forget a service port that was deleted. Its sessions expire."""
        self._next.pop((name, family), None)

    def _session(self, info: ServicePortInfo, client: str) -> tuple[str, int] | None:
        if not info.affinity_timeout_s:
            return None
        endpoint, until = self._sessions.get(((info.name, info.family), client), (None, 0.0))
        return endpoint if self._clock.monotonic() < until else None
