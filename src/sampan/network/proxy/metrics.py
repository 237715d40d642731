"""The metrics of kube-proxy, with the names, labels and buckets of the real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from time import perf_counter

import msgspec

from sampan.host.clock import Clock
from sampan.host.http import HttpRequest, HttpResponse, serve_http
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.telemetry.health import RESET_TEXT, HealthMetrics, HealthPath
from sampan.machinery.telemetry.metrics import CONTENT_TYPE, Histogram, MetricFamily, Metrics
from sampan.network.http_port import bind_socket
from sampan.network.proxy.services import FAMILIES, ServicePortState
from sampan.network.proxy.tracker import ServiceChange

_SYNC_BUCKETS = tuple(0.001 * 2**power for power in range(15))
_PROGRAMMING_BUCKETS = (
    0.25,
    0.5,
    *(float(second) for second in range(1, 60)),
    *(float(second) for second in range(60, 120, 5)),
    *(float(second) for second in range(120, 301, 30)),
)
_CONNTRACK_BUCKETS = tuple(0.001 * 2**power for power in range(15))
_FAMILY_LABELS = ("ip_family",)


class ProxyMetrics:
    """The counters of one proxy. `families` are the IP families that it serves."""

    def __init__(self, metrics: Metrics, *, clock: Clock, families: Iterable[str] = FAMILIES) -> None:
        self._clock, self._families = clock, tuple(families)
        self._durations = _durations(metrics, "sync_proxy_rules", "SyncProxyRules latency in seconds")
        self._full = _durations(metrics, "sync_full_proxy_rules", "SyncProxyRules latency in seconds for full resyncs")
        self._partial = _durations(
            metrics, "sync_partial_proxy_rules", "SyncProxyRules latency in seconds for partial resyncs"
        )
        self._last = metrics.gauge(
            "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
            "The last time proxy rules were successfully synced",
            _FAMILY_LABELS,
        )
        self._last_queued = metrics.gauge(
            "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
            "The last time a sync of proxy rules was queued",
            _FAMILY_LABELS,
        )
        self._programming = metrics.histogram(
            "kubeproxy_network_programming_duration_seconds",
            "In Cluster Network Programming Latency in seconds",
            _FAMILY_LABELS,
            buckets=_PROGRAMMING_BUCKETS,
        )
        self._services_pending = metrics.gauge(
            "kubeproxy_sync_proxy_rules_service_changes_pending", "Pending proxy rules Service changes"
        ).labels()
        self._services_total = metrics.counter(
            "kubeproxy_sync_proxy_rules_service_changes_total", "Cumulative proxy rules Service changes"
        ).labels()
        self._endpoints_pending = metrics.gauge(
            "kubeproxy_sync_proxy_rules_endpoint_changes_pending", "Pending proxy rules Endpoint changes"
        ).labels()
        self._endpoints_total = metrics.counter(
            "kubeproxy_sync_proxy_rules_endpoint_changes_total", "Cumulative proxy rules Endpoint changes"
        ).labels()
        self._sync_failures = metrics.counter(
            "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
            "Cumulative proxy nftables sync failures",
            _FAMILY_LABELS,
        )
        self._cleanup_failures = metrics.counter(
            "kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total",
            "Cumulative proxy nftables cleanup failures",
            _FAMILY_LABELS,
        )
        self._no_local_endpoints = metrics.gauge(
            "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
            "Number of services with a Local traffic policy and no endpoints",
            ("ip_family", "traffic_policy"),
        )
        self._conntrack_durations = metrics.histogram(
            "kubeproxy_conntrack_reconciler_sync_duration_seconds",
            "ReconcileConntrackFlowsLatency latency in seconds",
            _FAMILY_LABELS,
            buckets=_CONNTRACK_BUCKETS,
        )
        self._conntrack_deleted = metrics.counter(
            "kubeproxy_conntrack_reconciler_deleted_entries_total",
            "Cumulative conntrack flows deleted by conntrack reconciler",
            _FAMILY_LABELS,
        )
        self.healthz = metrics.counter(
            "kubeproxy_proxy_healthz_total", "Cumulative proxy healthz HTTP status", ("code",)
        )
        self.livez = metrics.counter("kubeproxy_proxy_livez_total", "Cumulative proxy livez HTTP status", ("code",))
        for family in self._families:
            self._sync_failures.labels(family)
            self._cleanup_failures.labels(family)
            self._conntrack_deleted.labels(family)

    # -- changes -----------------------------------------------------------------------------------------------------

    def on_service_change(self) -> None:
        self._services_total.inc()
        self._services_pending.inc()

    def on_endpoint_change(self) -> None:
        self._endpoints_total.inc()
        self._endpoints_pending.inc()

    def on_queued(self) -> None:
        """Count a sync that was requested."""
        for family in self._families:
            self._last_queued.labels(family).set(self._clock.now())

    def on_taken(self) -> None:
        """Count the pending changes as taken by a sync."""
        self._services_pending.set(0)
        self._endpoints_pending.set(0)

    # -- syncs -------------------------------------------------------------------------------------------------------

    def on_synced(
        self, *, duration_s: float, is_full: bool, changes: Sequence[ServiceChange], family: str | None = None
    ) -> None:
        """Count a successful sync of one IP family, or of all if `family` is None."""
        now = self._clock.now()
        for label in self._families if family is None else (family,):
            self._durations.labels(label).observe(duration_s)
            (self._full if is_full else self._partial).labels(label).observe(duration_s)
            self._last.labels(label).set(now)
            programming = self._programming.labels(label)
            for time in (time for change in changes for time in change.trigger_times):
                programming.observe(max(0.0, now - time.timestamp()))

    def on_failed(self, family: str | None = None) -> None:
        """Count a failed sync."""
        for label in self._families if family is None else (family,):
            self._sync_failures.labels(label).inc()

    def on_cleanup_failed(self, family: str | None = None) -> None:
        """Count a failed deletion of stale chains."""
        for label in self._families if family is None else (family,):
            self._cleanup_failures.labels(label).inc()

    def show_without_local_endpoints(self, states: Iterable[ServicePortState]) -> None:
        """Count the service ports with the traffic policy Local that have endpoints, but none on this node."""
        counts = {(family, policy): 0 for family in self._families for policy in ("internal", "external")}
        for state in states:
            if state.categories.local or not state.categories.has_any:
                continue
            if state.info.is_internal_policy_local:
                counts[state.info.family, "internal"] += 1
            if state.info.is_external_policy_local and state.info.is_externally_accessible:
                counts[state.info.family, "external"] += 1
        for (family, policy), count in counts.items():
            self._no_local_endpoints.labels(family, policy).set(count)

    def on_conntrack_synced(self, family: str, *, start: float, deleted: int) -> None:
        """Count a pass over the conntrack table that began at `start` of the performance counter."""
        self._conntrack_durations.labels(family).observe(perf_counter() - start)
        self._conntrack_deleted.labels(family).inc(deleted)


def _durations(metrics: Metrics, name: str, help: str) -> MetricFamily[Histogram]:
    return metrics.histogram(f"kubeproxy_{name}_duration_seconds", help, _FAMILY_LABELS, buckets=_SYNC_BUCKETS)


GROUP = "kubeproxy.config.k8s.io"


@asynccontextmanager
async def metrics_port(
    metrics: Metrics,
    *,
    mode: str,
    configuration: Mapping[str, object],
    namespace: NetworkNamespace,
    address: str,
    port: int,
) -> AsyncIterator[None]:
    """Serve the port for the duration of the block. Raise OSError if it cannot be bound."""
    slis = HealthMetrics()
    health = HealthPath("healthz", tuple, metrics=slis)

    async def handle(request: HttpRequest) -> HttpResponse:
        if request.path == "/metrics/slis":
            if request.method == "DELETE":
                slis.reset()
                return HttpResponse(text=RESET_TEXT)
            if request.method in ("GET", "HEAD"):
                return HttpResponse(body=slis.text().encode(), headers={"Content-Type": CONTENT_TYPE})
        if request.method not in ("GET", "HEAD"):
            return HttpResponse(status=405, text="405 method not allowed\n")
        if request.path == "/metrics":
            return HttpResponse(body=metrics.text().encode(), headers={"Content-Type": CONTENT_TYPE})
        if request.path == "/proxyMode":
            return HttpResponse(text=mode, headers={"X-Content-Type-Options": "nosniff"})
        if request.path == "/configz":
            return HttpResponse(body=msgspec.json.encode({GROUP: configuration}), content_type="application/json")
        first, _, check = request.path[1:].partition("/")
        if first == health.path:
            excluded = set(request.query.getall("exclude", ()))
            response = await health.run(check, excluded=excluded, is_verbose="verbose" in request.query)
            if response is not None:
                headers = {"X-Content-Type-Options": "nosniff"}
                return HttpResponse(status=response.code, text=response.text, headers=headers)
        return HttpResponse(status=404, text="404 page not found\n")

    async with serve_http(handle, address=bind_socket(namespace, address, port)):
        yield
