"""The contract of those who know the load. Values are in thousandths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sampan.api.labels import Selector
from sampan.api.types.autoscaling_v2 import CrossVersionObjectReference


class MetricsUnavailable(Exception):
    """There are no figures; the message says why."""


@dataclass(frozen=True, slots=True)
class PodMetric:
    value: int
    timestamp: float = 0.0
    window_s: float = 0.0
    """The time before the timestamp that the value is the mean of."""


PodMetrics = Mapping[str, PodMetric]
"""By the pods' names."""


class MetricsSource(Protocol):
    """Every method raises MetricsUnavailable where it has nothing to say."""

    async def resource(self, resource: str, namespace: str, pods: Selector, container: str) -> PodMetrics:
        """How much of a resource each pod uses, or its container of that name if one is given."""

    async def of_pods(self, metric: str, namespace: str, pods: Selector, selector: Selector) -> PodMetrics: ...

    async def of_object(
        self, metric: str, namespace: str, described: CrossVersionObjectReference, selector: Selector
    ) -> int: ...

    async def external(self, metric: str, namespace: str, selector: Selector) -> Sequence[int]: ...


__all__ = ["MetricsSource", "MetricsUnavailable", "PodMetric", "PodMetrics"]
