"""Grouping of pods by whether their samples count, and the resource requests of pods. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sampan.api import quantity
from sampan.api.semantics.conditions import READY
from sampan.api.semantics.pod_resources import pod_requests
from sampan.api.semantics.pods import FAILED, PENDING, long_running_containers, pod_condition
from sampan.api.times import parse_time
from sampan.api.types.core_v1 import Container, Pod
from sampan.controllers.autoscaling.metrics import MetricsUnavailable, PodMetric, PodMetrics

CPU, MEMORY = "cpu", "memory"


@dataclass(frozen=True, slots=True)
class Warmup:
    """The periods after a pod's start in which its CPU samples are treated with caution."""

    cpu_s: float = 300.0
    """Seconds after its start during which a pod's CPU usage counts only while the pod is ready."""
    readiness_s: float = 30.0
    """A pod that turned unready within this many seconds of its start is considered never to have been ready."""


@dataclass(slots=True)
class PodGroups:
    ready: int = 0
    unready: set[str] = field(default_factory=set)
    """Pods whose samples do not count. When scaling up they are assumed to use nothing."""
    missing: set[str] = field(default_factory=set)
    """Running pods without samples."""
    ignored: set[str] = field(default_factory=set)
    """Pods that are being deleted or have failed."""


def grouped(pods: Iterable[Pod], metrics: PodMetrics, *, resource: str, warmup: Warmup, now: float) -> PodGroups:
    """Group the pods. `resource` is empty if the metric is not a resource metric."""
    groups = PodGroups()
    for pod in pods:
        name = pod.metadata.name
        metric = metrics.get(name)
        if pod.metadata.deletionTimestamp is not None or pod.status.phase == FAILED:
            groups.ignored.add(name)
        elif pod.status.phase == PENDING:
            groups.unready.add(name)
        elif metric is None:
            groups.missing.add(name)
        elif resource == CPU and not _is_warm(pod, metric, warmup, now):
            groups.unready.add(name)
        else:
            groups.ready += 1
    return groups


def _is_warm(pod: Pod, metric: PodMetric, warmup: Warmup, now: float) -> bool:
    ready = pod_condition(pod, READY)
    if ready is None or pod.status.startTime is None:
        return False
    started = parse_time(pod.status.startTime)
    changed = parse_time(ready.lastTransitionTime) if ready.lastTransitionTime else 0.0
    if started + warmup.cpu_s > now:
        return ready.status != "False" and metric.timestamp >= changed + metric.window_s
    return ready.status != "False" or started + warmup.readiness_s <= changed


def requests_of(pods: Sequence[Pod], resource: str, container: str) -> dict[str, int]:
    """Return the request of each pod in thousandths: its pod-level request, or the sum over its containers, or that of
    the named container."""
    return {pod.metadata.name: _request(pod, resource, container) for pod in pods}


def _request(pod: Pod, resource: str, container: str) -> int:
    name = pod.metadata.name
    if not container and pod.spec.resources is not None and pod.spec.resources.requests:
        request = pod_requests(pod.spec).get(resource)
        if request is None:
            raise MetricsUnavailable(f"missing pod-level request for {resource} in Pod {name}")
        return request.milli_value()
    containers = [candidate for candidate in long_running_containers(pod.spec) if container in ("", candidate.name)]
    if container and not containers:
        raise MetricsUnavailable(f"container {container} not found in Pod {name}")
    return sum(_of_container(candidate, resource, name) for candidate in containers)


def _of_container(container: Container, resource: str, pod: str) -> int:
    request = container.resources.requests.get(resource)
    if request is None:
        raise MetricsUnavailable(f"missing request for {resource} in container {container.name} of Pod {pod}")
    return quantity.parse(request).milli_value()
