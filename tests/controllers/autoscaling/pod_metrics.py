"""Pods and metrics for tests of autoscaling."""

from collections.abc import Sequence
from typing import Any

from sampan.api.codec import json as codec
from sampan.api.selectors.labels import Selector
from sampan.api.types.autoscaling_v2 import CrossVersionObjectReference
from sampan.api.types.core_v1 import Pod
from sampan.api.values.times import format_time
from sampan.controllers.autoscaling.metrics import MetricsUnavailable, PodMetric, PodMetrics

NOW = 1_767_225_600.0


def pod(
    name: str,
    *,
    phase: str = "Running",
    ready: bool | None = True,
    started_s: float = 3600.0,
    changed_s: float = 3600.0,
    request: str | None = "100m",
    is_deleted: bool = False,
) -> Pod:
    """A pod that started `started_s` and changed its readiness `changed_s` seconds before NOW."""
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": format_time(NOW - changed_s),
    }
    requests = {} if request is None else {"cpu": request}
    meta: dict[str, Any] = {"name": name, "namespace": "default", "labels": {"app": "web"}}
    if is_deleted:
        meta["deletionTimestamp"] = format_time(NOW)
    value = {
        "metadata": meta,
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]},
        "status": {
            "phase": phase,
            "startTime": format_time(NOW - started_s),
            "conditions": [] if ready is None else [condition],
        },
    }
    return codec.from_value(value, Pod)


class FakeMetrics:
    """A MetricsSource with the values that the test sets; other metrics are not available."""

    def __init__(self) -> None:
        self.pod_values: dict[str, int] = {}
        """Usage by pod name, in thousandths."""
        self.object_value: int | None = None
        self.external_values: Sequence[int] = ()

    async def get_resource_metric(self, resource: str, namespace: str, pods: Selector, container: str) -> PodMetrics:
        return self._values_of_pods("resource")

    async def get_pods_metric(self, metric: str, namespace: str, pods: Selector, selector: Selector) -> PodMetrics:
        return self._values_of_pods("custom")

    async def get_object_metric(
        self, metric: str, namespace: str, described: CrossVersionObjectReference, selector: Selector
    ) -> int:
        if self.object_value is None:
            raise MetricsUnavailable("no metrics returned from custom metrics API")
        return self.object_value

    async def get_external_metric(self, metric: str, namespace: str, selector: Selector) -> Sequence[int]:
        if not self.external_values:
            raise MetricsUnavailable("no metrics returned from external metrics API")
        return self.external_values

    def _values_of_pods(self, api: str) -> PodMetrics:
        if not self.pod_values:
            raise MetricsUnavailable(f"no metrics returned from {api} metrics API")
        return {name: PodMetric(value, timestamp=1e12) for name, value in self.pod_values.items()}
