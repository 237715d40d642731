"""The handlers of non-resource paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from sampan.apiserver.nonresource.debug import (
    FLIGHT_RECORDER_PATH,
    SLIS_PATH,
    STORE_STATUS_PATH,
    DebugHandler,
    DebugHandlers,
    FlightRecorderHandler,
    MetricsHandler,
    StoreStatusHandler,
)
from sampan.apiserver.nonresource.discovery import DiscoveryHandler, RemoteDiscovery
from sampan.apiserver.nonresource.health import HealthHandler, store_check, writable_store_check
from sampan.apiserver.nonresource.openapi import OpenApiHandler
from sampan.apiserver.nonresource.openapi.handler import RemoteDocuments
from sampan.apiserver.nonresource.server_info import CONFIGURATION, KEYS, IndexHandler, OpenIdHandler, VersionHandler
from sampan.machinery.telemetry.health import LOG, PING, HealthCheck, HealthMetrics

if TYPE_CHECKING:
    from sampan.apiserver.registry.registry import Registry
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ApiResponse
    from sampan.machinery.telemetry.flight_recorder import FlightRecorder
    from sampan.machinery.telemetry.metrics import Metrics


class AggregatedServers(RemoteDiscovery, RemoteDocuments, Protocol):
    """The API groups and OpenAPI documents of other servers, which are added to those of this server."""


NonResourceHandler = Callable[["Call"], Awaitable["ApiResponse"]]


def nonresource_handlers(
    registry: Registry,
    *,
    address: Callable[[], str] = lambda: "",
    checks: Sequence[HealthCheck] = (),
    live_checks: Sequence[HealthCheck] = (),
    first_ready_checks: Sequence[HealthCheck] = (),
    last_ready_checks: Sequence[HealthCheck] = (),
    component_failures: Callable[[], Mapping[str, str]] = dict,
    metrics: Metrics | None = None,
    recorder: FlightRecorder | None = None,
    debug: DebugHandlers | None = None,
    openid: OpenIdHandler | None = None,
    remotes: AggregatedServers | None = None,
) -> Mapping[str, NonResourceHandler]:
    """Return the handlers by the first element of their path. `address` returns where clients reach the server
    (host:port); `checks` are additional health checks, `live_checks` do not apply to readiness, and the ready checks
    only to that, before or after the others. `component_failures` is that of `HealthHandler`. `debug` has
    further handlers below /debug. `remotes` are the API groups and documents of other servers."""
    discovery = DiscoveryHandler(scheme=registry.scheme, address=address, remotes=remotes)
    backend, slis = registry.backend, HealthMetrics()
    health = HealthHandler(
        live=[PING, LOG, *live_checks, store_check(backend), *checks],
        ready=[
            PING,
            LOG,
            writable_store_check(backend),
            writable_store_check(backend, "etcd-readiness"),
            *first_ready_checks,
            *checks,
            *last_ready_checks,
        ],
        component_failures=component_failures,
        metrics=slis,
    )
    handlers: dict[str, NonResourceHandler] = {
        "api": discovery.core,
        "apis": discovery.groups,
        "healthz": health.handle,
        "livez": health.handle,
        "openapi": OpenApiHandler(registry=registry, remotes=remotes).handle,
        "readyz": health.handle,
        "version": VersionHandler(registry.feature_gates).handle,
    }
    if metrics is not None:
        handlers["metrics"] = MetricsHandler(metrics=metrics, slis=slis).handle
    if recorder is not None:
        handlers["debug"] = DebugHandler(
            {
                FLIGHT_RECORDER_PATH: FlightRecorderHandler(recorder).handle,
                STORE_STATUS_PATH: StoreStatusHandler(registry).handle,
            },
            debug if debug is not None else DebugHandlers(),
        ).handle
    if openid is not None:
        handlers["openid"] = handlers[".well-known"] = openid.handle
    more = ["/metrics", SLIS_PATH] if metrics is not None else []
    if openid is not None:
        more += [CONFIGURATION, KEYS]
    handlers[""] = IndexHandler(scheme=registry.scheme, health=health, more=more).handle
    return handlers
