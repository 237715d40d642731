"""Metrics of requests and watch caches, under the names of kube-apiserver.

`RequestMetrics.record_request` runs for every request, so it makes a single look-up by the label values and then only
adds. The metrics of watch caches are computed when /metrics is requested.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.request.call import Call
from sampan.machinery.telemetry.metrics import DURATION_BUCKETS, Histogram, Labels, MetricNumber, Metrics
from sampan.storage.cacher import CacherStats

_REQUEST_LABELS = ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component")
_LONG_RUNNING_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component")
_RESOURCE_LABELS = ("group", "version", "resource")
_SLI_BUCKETS = DURATION_BUCKETS[2:]
_SIZES = tuple(1000.0 * 10**power for power in range(7))
_VERBS = {
    "create": "POST",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
    "get": "GET",
    "list": "LIST",
    "patch": "PATCH",
    "update": "PUT",
    "watch": "WATCH",
}
_KNOWN_PATHS = frozenset(
    {"/", "/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"}
)
"""Paths that are used as a label value. Any other path would let clients create unlimited label values."""
_APPLY = "application/apply-patch+yaml"
_APISERVER = "apiserver"


class _RequestSeries:
    """The metrics of requests with the same labels; each response code has a counter."""

    __slots__ = ("codes", "delays", "duration", "labels", "size")

    def __init__(self, labels: tuple[str, ...], duration: Histogram, size: Histogram) -> None:
        self.labels, self.duration, self.size = labels, duration, size
        self.codes: dict[int, MetricNumber] = {}
        self.delays: Histogram | None = None
        """What the durations without delays have more, or less, than the durations; None if no request was delayed."""

    def exclude(self, seconds: float, excluded_s: float) -> None:
        """Exclude a delay from the duration of a request, as far as the service level is concerned."""
        if self.delays is None:
            self.delays = Histogram(self.duration.bounds)
        delays, bounds = self.delays, self.duration.bounds
        delays.counts[bisect_left(bounds, seconds)] -= 1
        delays.observe(seconds - excluded_s)
        delays.total -= seconds


class RequestMetrics:
    def __init__(self, *, metrics: Metrics) -> None:
        self._total = metrics.counter(
            "apiserver_request_total",
            "Requests by verb, resource, scope and response code.",
            (*_REQUEST_LABELS, "code"),
        )
        self._duration = metrics.histogram(
            "apiserver_request_duration_seconds",
            "Duration of requests, without watches and other long-running requests.",
            _REQUEST_LABELS,
        )
        metrics.distributions(
            "apiserver_request_sli_duration_seconds",
            "Duration of requests without the time in queues of flow control and in admission webhooks.",
            self._sum_sli_durations,
            _LONG_RUNNING_LABELS,
        )
        self._terminations = metrics.counter(
            "apiserver_request_terminations_total",
            "Requests that the server has terminated in self-defense, with a timeout or because it was overloaded.",
            (*_LONG_RUNNING_LABELS, "code"),
        )
        self._sizes = metrics.histogram(
            "apiserver_response_sizes", "Size of responses in bytes.", _LONG_RUNNING_LABELS, _SIZES
        )
        self._long = metrics.gauge(
            "apiserver_longrunning_requests",
            "Long-running requests in progress, such as watches.",
            _LONG_RUNNING_LABELS,
        )
        self._in_flight = metrics.gauge(
            "apiserver_current_inflight_requests",
            "Requests in progress, without long-running requests.",
            ("request_kind",),
        )
        self._events = metrics.counter(
            "apiserver_watch_events_total", "Watch events sent to clients.", _RESOURCE_LABELS
        )
        self._event_bytes = metrics.counter(
            "apiserver_watch_events_bytes_total", "Bytes of watch events sent to clients.", _RESOURCE_LABELS
        )
        self._kept: dict[tuple[str, ...], _RequestSeries] = {}
        self.mutating = self._in_flight.labels("mutating")
        self.read_only = self._in_flight.labels("readOnly")
        """The number of requests in progress, which the HTTP server increments and decrements."""

    def record_request(self, call: Call, code: int, seconds: float, size: int) -> None:
        """Record a finished request, other than a watch."""
        series = self._find(call)
        counter = series.codes.get(code)
        if counter is None:
            counter = series.codes[code] = self._total.labels(*series.labels, str(code))
        counter.value += 1
        series.duration.observe(seconds)
        if call.excluded_s:
            series.exclude(seconds, call.excluded_s)
        series.size.observe(size)

    def record_termination(self, call: Call, code: int) -> None:
        """Record that the server has ended a request with a timeout, or rejected it because of its load."""
        verb, _, *other_labels = self._find(call).labels
        self._terminations.labels(verb, *other_labels, str(code)).inc()

    def _sum_sli_durations(self) -> Iterator[tuple[Labels, Histogram]]:
        """Yield the durations without delays, over dry runs and other requests."""
        sums: dict[Labels, Histogram] = {}
        for (verb, _, *other_labels), series in self._kept.items():
            durations = sums.setdefault((verb, *other_labels), Histogram(_SLI_BUCKETS))
            durations.add(series.duration)
            if series.delays is not None:
                durations.add(series.delays)
        yield from sums.items()

    @contextmanager
    def watching(self, call: Call) -> Iterator[WatchCount]:
        """Record a watch that lasts as long as the block."""
        series = self._find(call)
        verb, _, *other_labels = series.labels
        open_now = self._long.labels(verb, *other_labels)
        open_now.inc()
        try:
            resource = tuple(other_labels[:3])
            yield WatchCount(self._events.labels(*resource), self._event_bytes.labels(*resource))
        finally:
            open_now.dec()
            self._total.labels(*series.labels, "200").inc()

    def _find(self, call: Call) -> _RequestSeries:
        resource, verb = call.resource, _verb(call)
        dry_run = "All" if call.query and "dryRun" in call.query else ""
        if resource is None:
            path = call.path if call.path in _KNOWN_PATHS else ""
            labels = (verb, "", "", "", "", path, "", _APISERVER)
        else:
            target = (resource.group, resource.version, resource.plural, call.subresource)
            labels = (verb, dry_run, *target, _scope(call), _APISERVER)
        series = self._kept.get(labels)
        if series is None:
            sizes = self._sizes.labels(verb, *labels[2:])
            series = self._kept[labels] = _RequestSeries(labels, self._duration.labels(*labels), sizes)
        return series


class WatchCount:
    __slots__ = ("_bytes", "_events")

    def __init__(self, events: MetricNumber, bytes: MetricNumber) -> None:
        self._events, self._bytes = events, bytes

    def record_sent(self, events: int, bytes: int) -> None:
        self._events.value += events
        self._bytes.value += bytes


def _verb(call: Call) -> str:
    if call.resource is None:
        return call.method if call.method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE") else "OTHER"
    if call.verb == "patch" and call.headers.get("Content-Type", "").startswith(_APPLY):
        return "APPLY"
    return _VERBS.get(call.verb, "OTHER")


def _scope(call: Call) -> str:
    if call.name or call.verb == "create":
        return "resource"
    return "namespace" if call.namespace else "cluster"


Sample = tuple[Labels, float]
_LABELS = ("group", "resource")


def export_storage(metrics: Metrics, registry: Registry) -> None:
    def reader_of(value: Callable[[CacherStats], float]) -> Callable[[], Iterator[Sample]]:
        def read() -> Iterator[Sample]:
            for store in registry.stores():
                shape = store.cacher.shape
                yield (shape.group, shape.plural), value(store.cacher.stats())

        return read

    objects = "Objects in the watch cache."
    metrics.function("apiserver_resource_objects", objects, reader_of(lambda stats: stats.items), _LABELS)
    metrics.function("apiserver_storage_objects", objects, _make_qualified_reader(registry), ("resource",))
    sizes = "Bytes of the objects in the watch cache."
    metrics.function(
        "apiserver_resource_size_estimate_bytes", sizes, reader_of(lambda stats: stats.item_bytes), _LABELS
    )
    for name, help, value, kind in (
        ("watch_cache_capacity", "Events in the history of the watch cache.", lambda s: s.history_events, "gauge"),
        ("watch_cache_resource_version", "Current resource version of the watch cache.", lambda s: s.revision, "gauge"),
        (
            "terminated_watchers_total",
            "Watchers terminated because they were too slow.",
            lambda s: s.cut_off,
            "counter",
        ),
        ("init_events_total", "Number of times that the watch cache was filled.", lambda s: s.fills, "counter"),
    ):
        metrics.function(f"apiserver_{name}", help, reader_of(value), _LABELS, kind)
    metrics.function(
        "apiserver_registered_watchers", "Registered watchers by resource.", reader_of(lambda s: s.watchers), _LABELS
    )


def _make_qualified_reader(registry: Registry) -> Callable[[], Iterator[Sample]]:
    """Return samples for the older metric, whose only label combines the resource and the group."""

    def read() -> Iterator[Sample]:
        for store in registry.stores():
            shape = store.cacher.shape
            name = f"{shape.plural}.{shape.group}" if shape.group else shape.plural
            yield (name,), store.cacher.stats().items

    return read
