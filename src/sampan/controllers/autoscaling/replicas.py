"""The replica calculator: how many replicas the samples call for, which pods' samples count, and the resource requests
of pods. Pure; values are in thousandths.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sampan.api.semantics.conditions import READY
from sampan.api.semantics.pod_resources import pod_requests
from sampan.api.semantics.pods import FAILED, PENDING, RUNNING, is_ready, long_running_containers, pod_condition
from sampan.api.types.core_v1 import Container, Pod
from sampan.api.values import quantity
from sampan.api.values.times import parse_time
from sampan.controllers.autoscaling.metrics import MetricsUnavailable, PodMetric, PodMetrics

MAX_REPLICAS = 2**31 - 1
MAX_USAGE = 2**63 - 1
NO_PODS = "no pods returned by selector while calculating replica count"
_NO_METRICS = "did not receive metrics for targeted pods (pods might be unready)"
_NO_MATCH = "no metrics returned matched known pods"
CPU, MEMORY = "cpu", "memory"


@dataclass(frozen=True, slots=True)
class PodWarmup:
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


def group_pods(pods: Iterable[Pod], metrics: PodMetrics, *, resource: str, warmup: PodWarmup, now: float) -> PodGroups:
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


def _is_warm(pod: Pod, metric: PodMetric, warmup: PodWarmup, now: float) -> bool:
    ready = pod_condition(pod, READY)
    if ready is None or pod.status.startTime is None:
        return False
    started = parse_time(pod.status.startTime)
    changed = parse_time(ready.lastTransitionTime) if ready.lastTransitionTime else 0.0
    if started + warmup.cpu_s > now:
        return ready.status != "False" and metric.timestamp >= changed + metric.window_s
    return ready.status != "False" or started + warmup.readiness_s <= changed


def requests_of(pods: Sequence[Pod], resource: str, container: str) -> dict[str, int]:
    """Return the request of each pod in thousandths.

    With a container name it is the request of that container. Otherwise it is the pod-level request, or the sum of the
    requests of the containers.
    """
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
    return sum(_parse_container_request(candidate, resource, name) for candidate in containers)


def _parse_container_request(container: Container, resource: str, pod: str) -> int:
    request = container.resources.requests.get(resource)
    if request is None:
        raise MetricsUnavailable(f"missing request for {resource} in container {container.name} of Pod {pod}")
    return quantity.parse(request).milli_value()


@dataclass(frozen=True, slots=True)
class ScalingTolerances:
    """How far the ratio of usage to target may deviate from 1 without scaling."""

    down: float = 0.1
    up: float = 0.1

    def allow(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingInputs:
    """The inputs of the calculation other than the samples."""

    pods: Sequence[Pod]
    current: int
    """The replicas in the target's spec."""
    actual: int
    """The replicas in the target's status."""
    tolerances: ScalingTolerances
    warmup: PodWarmup
    now: float


@dataclass(frozen=True, slots=True)
class ReplicaEstimate:
    replicas: int
    average: int
    """The usage that the status reports."""
    utilization: int | None = None
    """Usage as a percentage of the requests."""


def estimate_by_utilization(
    situation: ScalingInputs, metrics: PodMetrics, target: int, resource: str, container: str
) -> ReplicaEstimate:
    """Calculate replicas for a target utilization in percent of the pods' requests."""
    usages, groups = _select_samples(situation, metrics, resource)
    requests = requests_of(situation.pods, resource, container)
    percent, average = _utilization(usages, requests)
    replicas = _replicas(
        usages,
        groups,
        situation,
        ratio=lambda values: _utilization(values, requests)[0] / target,
        fill=lambda name: requests[name] * max(100, target) // 100,
    )
    return ReplicaEstimate(replicas, average, percent)


def estimate_by_average(
    situation: ScalingInputs, metrics: PodMetrics, target: int, resource: str = ""
) -> ReplicaEstimate:
    """Calculate replicas for a target average value per pod."""
    usages, groups = _select_samples(situation, metrics, resource)
    replicas = _replicas(
        usages, groups, situation, ratio=lambda values: _mean(values) / target, fill=lambda name: target
    )
    return ReplicaEstimate(replicas, _mean(usages))


def estimate_by_value(situation: ScalingInputs, usage: int, target: int) -> ReplicaEstimate:
    """Calculate replicas for a target of one value, which is scaled by the number of ready pods."""
    ratio = usage / target
    if situation.current == 0:
        return ReplicaEstimate(_round_up(ratio), usage)
    if situation.tolerances.allow(ratio):
        return ReplicaEstimate(situation.current, usage)
    if not situation.pods:
        raise MetricsUnavailable(f"unable to calculate ready pods: {NO_PODS}")
    ready = sum(pod.status.phase == RUNNING and is_ready(pod) for pod in situation.pods)
    return ReplicaEstimate(_round_up(ratio * ready), usage)


def estimate_by_value_per_pod(situation: ScalingInputs, usage: int, target: int) -> ReplicaEstimate:
    """Calculate replicas for a target share per pod of one total value."""
    actual = situation.actual
    if actual == 0:
        return ReplicaEstimate(_round_up(usage / target), usage)
    is_near = situation.tolerances.allow(usage / (target * actual))
    replicas = actual if is_near else _round_up(usage / target)
    return ReplicaEstimate(replicas, usage if usage >= MAX_USAGE else math.ceil(usage / actual))


def total(values: Sequence[int]) -> int:
    return min(sum(values), MAX_USAGE)


def _select_samples(situation: ScalingInputs, metrics: PodMetrics, resource: str) -> tuple[dict[str, int], PodGroups]:
    """Return the samples that count, and the grouping of the pods."""
    if not situation.pods:
        raise MetricsUnavailable(NO_PODS)
    groups = group_pods(situation.pods, metrics, resource=resource, warmup=situation.warmup, now=situation.now)
    left_out = groups.ignored | groups.unready
    usages = {name: metric.value for name, metric in metrics.items() if name not in left_out}
    if not usages:
        raise MetricsUnavailable(_NO_METRICS)
    return usages, groups


def _replicas(
    usages: Mapping[str, int],
    groups: PodGroups,
    situation: ScalingInputs,
    *,
    ratio: Callable[[Mapping[str, int]], float],
    fill: Callable[[str], int],
) -> int:
    """Calculate the replicas with a usage for pods without samples that dampens the change.

    Such pods are assumed to use nothing when scaling up, and `fill` when scaling down. If the assumed usage reverses
    the direction of scaling, the number of replicas stays as it is.
    """
    first, current = ratio(usages), situation.current
    with_unready = bool(groups.unready) and first > 1.0
    if not with_unready and not groups.missing:
        return current if situation.tolerances.allow(first) else _round_up(first * groups.ready)
    filled = dict(usages)
    if first != 1.0:
        filled |= {name: 0 if first > 1.0 else fill(name) for name in groups.missing}
    if with_unready:
        filled |= dict.fromkeys(groups.unready, 0)
    second = ratio(filled)
    if situation.tolerances.allow(second) or (first - 1.0) * (second - 1.0) < 0:
        return current
    replicas = _round_up(second * len(filled))
    turns = replicas > current if second < 1.0 else replicas < current
    return current if turns else replicas


def _utilization(values: Mapping[str, int], requests: Mapping[str, int]) -> tuple[int, int]:
    """Return the usage as a percentage of the requests, and the mean usage."""
    names = [name for name in values if name in requests]
    used, requested = sum(values[name] for name in names), sum(requests[name] for name in names)
    if requested == 0:
        raise MetricsUnavailable(_NO_MATCH)
    return _quotient(used * 100, requested), _quotient(used, len(names))


def _mean(values: Mapping[str, int]) -> int:
    return _quotient(sum(values.values()), len(values))


def _quotient(number: int, by: int) -> int:
    """Divide and round toward zero, as integer division does in Go."""
    quotient = abs(number) // abs(by)
    return quotient if (number < 0) == (by < 0) else -quotient


def _round_up(replicas: float) -> int:
    return min(math.ceil(replicas), MAX_REPLICAS)
