"""The health of a proxy: /healthz and /livez, with the codes and bodies of the real kube-proxy.

A proxy is unhealthy if a change waits for longer than a timeout to be applied. /healthz also fails if the node is about
to be deleted, so that load balancers drain it; /livez does not, because a restart would not help.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sampan.api import times
from sampan.api.types.core_v1 import Node
from sampan.machinery.clock import Clock
from sampan.machinery.network_namespace import NetworkNamespace
from sampan.network.http_port import bound_socket, serve_http
from sampan.network.proxy.metrics import ProxyMetrics

if TYPE_CHECKING:
    from aiohttp import web

TO_BE_DELETED_TAINT = "ToBeDeletedByClusterAutoscaler"
_HEADERS = {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class HealthResponse:
    status: int
    body: str


class ProxyHealth:
    """Knows whether the packet rules of each IP family are up to date."""

    def __init__(self, *, node_name: str, clock: Clock, timeout_s: float, metrics: ProxyMetrics) -> None:
        self._node_name, self._clock, self._timeout_s, self._metrics = node_name, clock, timeout_s, metrics
        self._last_updated: dict[str, float] = {}
        """When each IP family was last synced. A family is healthy until its first sync."""
        self._oldest_pending: dict[str, float] = {}
        """Since when each IP family has changes that are not applied, in monotonic time."""
        self._is_node_eligible = True

    def on_queued(self, family: str) -> None:
        """Record that a change of an IP family waits to be applied."""
        self._oldest_pending.setdefault(family, self._clock.monotonic())

    def on_synced(self, family: str) -> None:
        """Record that the rules of an IP family reflect all changes."""
        self._oldest_pending.pop(family, None)
        self._last_updated[family] = self._clock.now()

    def on_node(self, old: Node | None, new: Node | None) -> None:
        """Follow the proxy's own node; a handler for an informer."""
        if new is None or new.metadata.name != self._node_name:
            return
        is_tainted = any(taint.key == TO_BE_DELETED_TAINT for taint in new.spec.taints)
        self._is_node_eligible = new.metadata.deletionTimestamp is None and not is_tainted

    @property
    def is_healthy(self) -> bool:
        """Whether the rules are up to date, whatever the state of the node."""
        return self._state()[0]

    def healthz(self) -> HealthResponse:
        is_healthy, last_updated = self._state()
        response = self._response(
            is_healthy and self._is_node_eligible,
            last_updated,
            f', "nodeEligible": {"true" if self._is_node_eligible else "false"}',
        )
        self._metrics.healthz.labels(str(response.status)).inc()
        return response

    def livez(self) -> HealthResponse:
        response = self._response(*self._state(), "")
        self._metrics.livez.labels(str(response.status)).inc()
        return response

    def _state(self) -> tuple[bool, float]:
        """Return whether all IP families are healthy, and when the unhealthy or else the newest one was synced."""
        now = self._clock.monotonic()
        for family, last_updated in self._last_updated.items():
            if now - self._oldest_pending.get(family, now) >= self._timeout_s:
                return False, last_updated
        return True, max(self._last_updated.values(), default=0.0)

    def _response(self, is_healthy: bool, last_updated: float, more: str) -> HealthResponse:
        """The time of the last update of a healthy proxy is the current time, as older clients expect it to advance."""
        now = _go_time(self._clock.now())
        last = now if is_healthy else _go_time(last_updated)
        body = f'{{"lastUpdated": "{last}","currentTime": "{now}"{more}}}'
        return HealthResponse(200 if is_healthy else 503, body)


def _go_time(seconds: float) -> str:
    """Return a time in the default format of Go, which the real kube-proxy prints."""
    stamp = times.format_micro_time(seconds)
    return f"{stamp[:10]} {stamp[11:26]} +0000 UTC"


@asynccontextmanager
async def health_port(health: ProxyHealth, namespace: NetworkNamespace, address: str, port: int) -> AsyncIterator[None]:
    """Serve /healthz and /livez for the duration of the block. Raise OSError if the port cannot be bound."""
    from aiohttp import web

    async def handle(request: web.BaseRequest) -> web.Response:
        responses = {"/healthz": health.healthz, "/livez": health.livez}
        if request.path not in responses:
            return web.Response(status=404, text="404 page not found\n")
        response = responses[request.path]()
        return web.Response(status=response.status, body=response.body.encode(), headers=_HEADERS)

    async with serve_http(bound_socket(namespace, address, port), handle):
        yield
