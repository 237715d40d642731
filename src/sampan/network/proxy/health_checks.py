"""Health-check node ports of services with the external traffic policy Local.

A load balancer probes the port on every node, and sends traffic only to nodes with a local endpoint. The response is
that of `pkg/proxy/healthcheck` of the real kube-proxy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sampan.api.go_compat import gotext
from sampan.api.types.core_v1 import ObjectReference
from sampan.machinery.events.recorder import WARNING, EventRecorder
from sampan.machinery.network_namespace import NetworkNamespace
from sampan.machinery.object_key import NamespacedName
from sampan.network.http_port import bound_socket, serve_http
from sampan.network.proxy.services import ServicePortState
from sampan.network.proxy.tracker import ServiceChange

if TYPE_CHECKING:
    from aiohttp import web

log = logging.getLogger(__name__)

_REASON = "FailedToStartServiceHealthcheck"


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
        async def handle(request: web.BaseRequest) -> web.Response:
            return self._response(service, check)

        try:
            for address in self._addresses:
                listener = bound_socket(self._namespace, address, check.port)
                await check.running.enter_async_context(serve_http(listener, handle))
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
        about = ObjectReference(kind="Service", namespace=service.namespace, name=service.name, uid=str(service))
        self._events.event(about, WARNING, _REASON, message)

    async def _close(self, service: NamespacedName) -> None:
        check = self._checks.pop(service)
        await check.running.aclose()
        log.info("closed the health-check node port %d of service %s", check.port, service)

    def _response(self, service: NamespacedName, check: _HealthCheck) -> web.Response:
        from aiohttp import web

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
        return web.Response(status=status, body="\n".join(lines).encode(), headers=headers)


def _port_of(states: Sequence[ServicePortState]) -> int:
    return next((state.info.health_check_node_port for state in states if state.info.health_check_node_port), 0)
