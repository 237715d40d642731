"""Health, readiness and metrics of the DNS server of a node over HTTP: /health, /ready and /metrics.

The metrics have the names of CoreDNS, so that its dashboards work.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

from sampan.host.http import HttpRequest, HttpResponse, serve_http
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.telemetry.metrics import CONTENT_TYPE, Histogram, Metrics, Sample
from sampan.network.dns.forwarder import Forwarder
from sampan.network.dns.record_table import RecordTable
from sampan.network.dns.server import DnsServer
from sampan.network.dns.wire import RCODE_NAMES, TYPE_NAMES

METRICS_PORT = 9153
_SERVER = "dns://:53"


@asynccontextmanager
async def status_port(
    *,
    namespace: NetworkNamespace,
    address: str,
    metrics: Metrics,
    is_ready: Callable[[], bool],
    admits: Callable[[str], bool],
) -> AsyncIterator[int]:
    """Serve /health, /ready and /metrics for the duration of the block. The value of the block is the port: 9153, or a
    free port if 9153 is taken."""

    async def handle(request: HttpRequest) -> HttpResponse:
        if not request.remote or not admits(request.remote):
            return HttpResponse(status=403, text="this address is not that of a node or pod of the cluster\n")
        if request.path == "/metrics":
            return HttpResponse(body=metrics.text().encode(), headers={"Content-Type": CONTENT_TYPE})
        if request.path in ("/health", "/livez", "/healthz"):
            return HttpResponse(text="OK")
        if request.path in ("/ready", "/readyz"):
            return HttpResponse(text="OK") if is_ready() else HttpResponse(status=503, text="not synced\n")
        return HttpResponse(status=404, text="404 page not found\n")

    endpoint = await asyncio.to_thread(namespace.run, lambda: _open_listener(address))
    async with serve_http(handle, address=endpoint) as port:
        yield port


def _open_listener(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    endpoint = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            endpoint.bind((address, METRICS_PORT))
            endpoint.listen(16)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            endpoint.close()
            endpoint = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
            endpoint.bind((address, 0))
            endpoint.listen(16)
    except BaseException:
        endpoint.close()
        raise
    return endpoint


def duration_metric(metrics: Metrics) -> Callable[[str, str], Histogram]:
    """Register the metric for the durations of requests, with the buckets of CoreDNS.

    Return a function that returns the durations of a protocol and family.
    """
    family = metrics.histogram(
        "coredns_dns_request_duration_seconds",
        "How long DNS requests took.",
        ("server", "zone", "view", "proto", "family"),
        tuple(0.00025 * 2**power for power in range(16)),
    )
    return lambda protocol, address_family: family.labels(_SERVER, ".", "", protocol, address_family)


def export_dns(metrics: Metrics, *, server: DnsServer, forwarder: Forwarder, table: RecordTable) -> None:
    """Register the metrics of a node's DNS server. The metrics of the forwarder cover all nodes of the process."""
    counts = forwarder.counts

    def list_requests() -> Iterator[Sample]:
        totals: dict[tuple[str, ...], float] = {}
        for transport in server.transports:
            for packed, number in transport.requests.items():
                type = TYPE_NAMES.get(int.from_bytes(packed, "big"), "other")
                labels = (_SERVER, ".", "", transport.protocol, transport.family, type)
                totals[labels] = totals.get(labels, 0) + number
        yield from totals.items()

    def list_responses() -> Iterator[Sample]:
        totals: dict[tuple[str, ...], float] = {}
        for transport in server.transports:
            for rcode, number in transport.responses.items():
                labels = (_SERVER, ".", "", RCODE_NAMES.get(rcode, str(rcode)), "")
                totals[labels] = totals.get(labels, 0) + number
        yield from totals.items()

    def list_forwarded() -> Iterator[Sample]:
        for (upstream, result), number in list(counts.requests.items()):
            rcode = RCODE_NAMES.get(int(result), result) if result.isdecimal() else result
            yield (upstream, rcode), number

    metrics.function(
        "coredns_dns_requests_total",
        "DNS requests by protocol, family and type.",
        list_requests,
        ("server", "zone", "view", "proto", "family", "type"),
        kind="counter",
    )
    metrics.function(
        "coredns_dns_responses_total",
        "DNS responses by rcode.",
        list_responses,
        ("server", "zone", "view", "rcode", "plugin"),
        kind="counter",
    )
    metrics.function(
        "coredns_cache_hits_total",
        "Responses from the cache.",
        lambda: [((_SERVER, "success", "."), counts.cache_hits), ((_SERVER, "denial", "."), counts.cache_denial_hits)],
        ("server", "type", "zones"),
        kind="counter",
    )
    metrics.function(
        "coredns_cache_misses_total",
        "Forwarded queries that were not in the cache.",
        lambda: [((_SERVER, "."), counts.cache_misses)],
        ("server", "zones"),
        kind="counter",
    )
    metrics.function(
        "coredns_cache_entries",
        "Responses in the cache.",
        lambda: [((_SERVER, "."), forwarder.cache_entries)],
        ("server", "zones"),
    )
    metrics.function(
        "coredns_forward_responses_total",
        "Responses and failures of upstream resolvers.",
        list_forwarded,
        ("to", "rcode"),
        kind="counter",
    )
    metrics.function(
        "coredns_forward_max_concurrent_rejects_total",
        "Queries that were refused because too many were under way.",
        lambda: counts.rejected,
        kind="counter",
    )
    metrics.function(
        "sampan_dns_upstream_loop",
        "Upstream resolvers that forward to this server and are not used.",
        lambda: [((str(upstream),), 1.0) for upstream in sorted(forwarder.looping, key=str)],
        ("to",),
    )
    metrics.function("sampan_dns_record_sets", "Record sets of services.", lambda: len(table.record_sets))
