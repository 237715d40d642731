"""Connections to the endpoints of services, made in the network namespace of a node."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

from sampan.host.clock import Clock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.network.proxy.services import TCP, EndpointInfo, ServicePortInfo, ServicePortName, ServicePortState

_MAX_SESSIONS = 10_000

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
        if len(self._sessions) >= _MAX_SESSIONS:
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


_TIMEOUTS_S = (0.5, 1.0, 2.0, 4.0)
"""The timeout of each attempt to connect. An endpoint that does not answer may be one whose node has died."""


class EndpointSockets:
    """Connects to endpoints of service ports. `close()` ends its thread; open connections stay open."""

    def __init__(self, *, namespace: NetworkNamespace, clock: Clock) -> None:
        self.balancer = EndpointBalancer(clock=clock)
        self._executor: ThreadPoolExecutor = namespace.executor("endpoint-sockets")
        self._is_own = namespace.path is None

    def close(self) -> None:
        self._executor.shutdown(wait=False)

    async def connect(self, state: ServicePortState, endpoints: Sequence[EndpointInfo], client: str) -> socket.socket:
        """Return a socket that is connected to one of the endpoints; if one fails, the next one is tried. Raise OSError
        if there is none that accepts the connection."""
        candidates = self.balancer.candidates(state.info, endpoints, client)
        error: OSError = ConnectionRefusedError(errno.ECONNREFUSED, f"{state.info.name} has no endpoints")
        for endpoint, timeout_s in zip(cycle(candidates), _TIMEOUTS_S, strict=False):
            try:
                connected = await self._connect(state, endpoint, timeout_s)
            except OSError as failure:
                error = failure
            else:
                self.balancer.on_connected(state.info, endpoint, client)
                return connected
        raise error

    async def _connect(self, state: ServicePortState, endpoint: EndpointInfo, timeout_s: float) -> socket.socket:
        loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in endpoint.address else socket.AF_INET
        kind = socket.SOCK_STREAM if state.info.protocol == TCP else socket.SOCK_DGRAM
        if self._is_own:
            connection = socket.socket(family, kind)
        else:
            connection = await loop.run_in_executor(self._executor, socket.socket, family, kind)
        try:
            connection.setblocking(False)
            async with asyncio.timeout(timeout_s):
                await loop.sock_connect(connection, (endpoint.address, endpoint.port))
        except TimeoutError:
            connection.close()
            raise OSError(errno.ETIMEDOUT, f"endpoint {endpoint} does not answer") from None
        except BaseException:
            connection.close()
            raise
        return connection
