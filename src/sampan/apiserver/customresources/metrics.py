"""Metrics of CustomResourceDefinitions and their conversion webhooks, under the names of kube-apiserver.

The counterparts are `pkg/apiserver/conversion/metrics.go` and `pkg/controller/openapi*/metrics.go` of
`k8s.io/apiextensions-apiserver`.
"""

from __future__ import annotations

from typing import Final, Literal

from sampan.machinery.telemetry.metrics import LabelNames, Metrics

RegenerationReason = Literal["add", "update", "remove"]
CALL_FAILURE: Final = "conversion_webhook_call_failure"
MALFORMED_RESPONSE: Final = "conversion_webhook_malformed_response_failure"
PARTIAL_RESPONSE: Final = "conversion_webhook_partial_response_failure"
INVALID_OBJECT: Final = "conversion_webhook_invalid_converted_object_failure"
_BUCKETS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 45, 60)
_DEFINITION_BUCKETS: Final = tuple(0.001 * 2**power for power in range(15))


class CustomResourceMetrics:
    def __init__(self, *, metrics: Metrics) -> None:
        self._names = LabelNames()
        result = ("result", "failure_type")
        self._conversions = metrics.counter(
            "apiserver_conversion_webhook_request_total", "Requests to conversion webhooks by result.", result
        )
        self._conversion_duration = metrics.histogram(
            "apiserver_conversion_webhook_duration_seconds",
            "Duration of requests to conversion webhooks.",
            result,
            _BUCKETS,
        )
        self._definition_duration = metrics.histogram(
            "apiserver_crd_conversion_webhook_duration_seconds",
            "Duration of conversions by webhooks, by definition and versions.",
            ("crd_name", "from_version", "to_version", "succeeded"),
            _DEFINITION_BUCKETS,
        )
        self._v2_regenerations = metrics.counter(
            "apiextensions_openapi_v2_regeneration_count",
            "Changes of the OpenAPI v2 document by the definition that caused them.",
            ("crd", "reason"),
        )
        self._v3_regenerations = metrics.counter(
            "apiextensions_openapi_v3_regeneration_count",
            "Changes of OpenAPI v3 documents by the definition that caused them.",
            ("group", "version", "crd", "reason"),
        )

    def record_conversion(
        self, definition: str, from_version: str, to_version: str, *, failure_type: str, seconds: float
    ) -> None:
        """Record a request to a conversion webhook; `failure_type` is empty if it has succeeded."""
        result = ("failure" if failure_type else "success", failure_type)
        self._conversions.labels(*result).inc()
        self._conversion_duration.labels(*result).observe(seconds)
        labels = (self._names.label(definition), from_version, to_version, "false" if failure_type else "true")
        self._definition_duration.labels(*labels).observe(seconds)

    def record_regeneration(self, definition: str, group: str, version: str, reason: RegenerationReason) -> None:
        """Record a change of the OpenAPI documents by one version of a definition."""
        name = self._names.label(definition)
        self._v2_regenerations.labels(name, reason).inc()
        if name == definition:  # groups and versions of further definitions would be unbounded as well
            self._v3_regenerations.labels(group, version, name, reason).inc()
