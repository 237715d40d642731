"""The metrics of the requests that a client sends, under the names of client-go (`k8s.io/client-go/tools/metrics`)."""

from __future__ import annotations

from time import perf_counter
from types import TracebackType

from sampan.machinery import errors
from sampan.machinery.telemetry.metrics import Metrics

_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
_NO_RESPONSE = "<error>"
"""The code of a request without a response."""
LOOPBACK = "loopback"
"""The host of requests to an API server in the same process."""


class ClientRequestMetrics:
    """The requests of one client, or of several clients of one process. They are exported with `export`."""

    def __init__(self, *, host: str = LOOPBACK) -> None:
        """`host` is the host and port of the server."""
        metrics, self._host = Metrics(), host
        self._total = metrics.counter(
            "rest_client_requests_total",
            "Requests to the API server by status code, method and host.",
            ("code", "method", "host"),
        )
        self._duration = metrics.histogram(
            "rest_client_request_duration_seconds",
            "Duration of requests to the API server by method and host.",
            ("verb", "host"),
            _BUCKETS,
        )

    def export(self, metrics: Metrics) -> None:
        metrics.include(self._total)
        metrics.include(self._duration)

    def measure(self, method: str) -> RequestMeasurement:
        """Return a context manager that records a request, which lasts as long as its block."""
        return RequestMeasurement(self, method)

    def record(self, method: str, code: str, seconds: float) -> None:
        self._total.labels(code, method, self._host).value += 1
        self._duration.labels(method, self._host).observe(seconds)


class RequestMeasurement:
    __slots__ = ("_began", "_method", "_metrics", "code")

    def __init__(self, metrics: ClientRequestMetrics, method: str) -> None:
        self._metrics, self._method = metrics, method
        self._began, self.code = 0.0, 200

    def __enter__(self) -> RequestMeasurement:
        self._began = perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        code = self.code if error is None else error.code if isinstance(error, errors.ApiError) else None
        self._metrics.record(self._method, _NO_RESPONSE if code is None else str(code), perf_counter() - self._began)
