"""The interface of a metrics source. All values are in thousandths of their unit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sampan.api.labels import Selector
from sampan.api.types.autoscaling_v2 import CrossVersionObjectReference


class MetricsUnavailable(Exception):
    """No samples are available; the message states the reason."""


@dataclass(frozen=True, slots=True)
class PodMetric:
    value: int
    timestamp: float = 0.0
    window_s: float = 0.0
    """The length, in seconds, of the window that ends at the timestamp and over which the value is averaged."""


PodMetrics = Mapping[str, PodMetric]
"""Samples by pod name."""


class MetricsSource(Protocol):
    """A source of metrics. Every method raises MetricsUnavailable if it has no samples."""

    async def resource(self, resource: str, namespace: str, pods: Selector, container: str) -> PodMetrics:
        """Return the resource usage per pod, or that of the named container if `container` is not empty."""

    async def of_pods(self, metric: str, namespace: str, pods: Selector, selector: Selector) -> PodMetrics: ...

    async def of_object(
        self, metric: str, namespace: str, described: CrossVersionObjectReference, selector: Selector
    ) -> int: ...

    async def external(self, metric: str, namespace: str, selector: Selector) -> Sequence[int]: ...
