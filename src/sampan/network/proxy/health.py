"""The health of a proxy: /healthz and /livez, with the codes and bodies of the real kube-proxy.

A proxy is unhealthy if a change waits for longer than a timeout to be applied. /healthz also fails if the node is about
to be deleted, so that load balancers drain it; /livez does not, because a restart would not help.

Services with the external traffic policy Local have health-check node ports: a load balancer probes the port on every
node, and sends traffic only to nodes with a local endpoint. The response is that of `pkg/proxy/healthcheck`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from sampan.api.go_compat import gotext
from sampan.api.types.core_v1 import Node, ObjectReference
from sampan.api.values import times
from sampan.host.clock import Clock
from sampan.host.http import HttpRequest, HttpResponse, serve_http
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.object_key import NamespacedName
from sampan.network.http_port import bind_socket
from sampan.network.proxy.metrics import ProxyMetrics
from sampan.network.proxy.services import ServicePortState
from sampan.network.proxy.tracker import ServiceChange

TO_BE_DELETED_TAINT = "ToBeDeletedByClusterAutoscaler"
_HEADERS = {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}
log = logging.getLogger(__name__)

_REASON = "FailedToStartServiceHealthcheck"


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
        """Return whether all IP families are healthy, and the time of the last sync: of an unhealthy family, or else
        the newest one."""
        now = self._clock.monotonic()
        for family, last_updated in self._last_updated.items():
            if now - self._oldest_pending.get(family, now) >= self._timeout_s:
                return False, last_updated
        return True, max(self._last_updated.values(), default=0.0)

    def _response(self, is_healthy: bool, last_updated: float, more: str) -> HealthResponse:
        """Return the response of a health check.

        The time of the last update of a healthy proxy is the current time, as older clients expect it to advance.
        """
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

    async def handle(request: HttpRequest) -> HttpResponse:
        responses = {"/healthz": health.healthz, "/livez": health.livez}
        if request.path not in responses:
            return HttpResponse(status=404, text="404 page not found\n")
        response = responses[request.path]()
        return HttpResponse(status=response.status, body=response.body.encode(), headers=_HEADERS)

    async with serve_http(handle, address=bind_socket(namespace, address, port)):
        yield


@dataclass(slots=True)
class _HealthCheck:
    port: int
    local_endpoints: int
    running: AsyncExitStack
    is_listening: bool = False
    is_failure_reported: bool = False


class ServiceHealthChecks:
    """The open health-check node ports of a node. `async with` closes them at the end."""

    def __init__(
        self,
        *,
        node_name: str,
        namespace: NetworkNamespace,
        is_proxy_healthy: Callable[[], bool],
        events: EventRecorder,
        addresses: Sequence[str] = ("0.0.0.0",),
    ) -> None:
        """`addresses` are those of the node that accept connections to node ports."""
        self._node_name, self._namespace, self._addresses = node_name, namespace, addresses
        self._is_proxy_healthy, self._events = is_proxy_healthy, events
        self._checks: dict[NamespacedName, _HealthCheck] = {}

    async def __aenter__(self) -> ServiceHealthChecks:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for service in list(self._checks):
            await self._close(service)

    async def on_changes(self, changes: Sequence[ServiceChange]) -> None:
        """Open, close and update the ports of changed services. Ports are closed first: another service may get them.
        A port that could not be opened is tried again."""
        for change in changes:
            check = self._checks.get(change.service)
            if check is not None and check.port != _port_of(change.current):
                await self._close(change.service)
        for change in changes:
            port = _port_of(change.current)
            if not port:
                continue
            count = len(frozenset().union(*(state.local_ready_addresses for state in change.current)))
            check = self._checks.setdefault(change.service, _HealthCheck(port, 0, AsyncExitStack()))
            check.local_endpoints = count
        for service, check in self._checks.items():
            if not check.is_listening:
                await self._open(service, check)

    async def _open(self, service: NamespacedName, check: _HealthCheck) -> None:
        async def handle(request: HttpRequest) -> HttpResponse:
            return self._response(service, check)

        try:
            for address in self._addresses:
                listener = bind_socket(self._namespace, address, check.port)
                await check.running.enter_async_context(serve_http(handle, address=listener))
        except OSError as error:
            await check.running.aclose()
            if not check.is_failure_reported:
                check.is_failure_reported = True
                self._report(service, check.port, error)
        else:
            check.is_listening = True
            log.info("opened the health-check node port %d of service %s", check.port, service)

    def _report(self, service: NamespacedName, port: int, error: OSError) -> None:
        message = (
            f"node {self._node_name} failed to start healthcheck {gotext.quote(str(service))} on port {port}: "
            f"{error.strerror or error}"
        )
        log.error("%s", message)
        reference = ObjectReference(kind="Service", namespace=service.namespace, name=service.name, uid=str(service))
        self._events.event(reference, WARNING, _REASON, message)

    async def _close(self, service: NamespacedName) -> None:
        check = self._checks.pop(service)
        await check.running.aclose()
        log.info("closed the health-check node port %d of service %s", check.port, service)

    def _response(self, service: NamespacedName, check: _HealthCheck) -> HttpResponse:
        count, is_proxy_healthy = check.local_endpoints, self._is_proxy_healthy()
        lines = (
            "{",
            '\t"service": {',
            f'\t\t"namespace": {gotext.quote(service.namespace)},',
            f'\t\t"name": {gotext.quote(service.name)}',
            "\t},",
            f'\t"localEndpoints": {count},',
            f'\t"serviceProxyHealthy": {"true" if is_proxy_healthy else "false"}',
            "}",
        )
        headers = {
            "Content-Type": "application/json",
            "X-Content-Type-Options": "nosniff",
            "X-Load-Balancing-Endpoint-Weight": str(count),
        }
        status = 200 if count and is_proxy_healthy else 503
        return HttpResponse(status=status, body="\n".join(lines).encode(), headers=headers)


def _port_of(states: Sequence[ServicePortState]) -> int:
    return next((state.info.health_check_node_port for state in states if state.info.health_check_node_port), 0)
