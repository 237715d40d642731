"""The metrics of the scheduler, under the names of kube-scheduler (compare `pkg/scheduler/metrics`).

`SchedulerMetrics` is created once per process; a scheduler that starts after a change of leader continues the same
counters. `resource_text` renders the resource requests and limits of each pod (`/metrics/resources`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from sampan.api.semantics.pod_resources import Amounts, effective_limits, effective_requests
from sampan.api.types.core_v1 import Pod, PodSpec
from sampan.host.time_slice import TimeSlice
from sampan.machinery.telemetry.metrics import Metrics, Sample
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import DEFAULT_SCHEDULER
from sampan.scheduler.cache.scheduler_cache import SchedulerCache
from sampan.scheduler.scheduling_queue import QueuedPodInfo, SchedulingQueue

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"


def exponential_buckets(first: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(first * factor**number for number in range(count))


class GaugeSource(NamedTuple):
    """The parts of a running scheduler whose state the gauges show."""

    queue: SchedulingQueue
    table: NodeTable
    cache: SchedulerCache
    profiles: Collection[str]


class SchedulerMetrics:
    def __init__(self, metrics: Metrics | None = None) -> None:
        registry = metrics or Metrics()
        self._source: GaugeSource | None = None
        """The running scheduler whose state the gauges show; None while this process schedules nothing."""
        self._attempts = registry.counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods, by result and profile.",
            ("result", "profile"),
        )
        self._attempt_s = registry.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Duration of a scheduling attempt, including binding.",
            ("result", "profile"),
            exponential_buckets(0.001, 2, 15),
        )
        self._deciding_s = registry.histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Duration of the scheduling algorithm.",
            (),
            exponential_buckets(0.001, 2, 15),
        ).labels()
        self._tries = registry.histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts until a pod was scheduled.",
            (),
            exponential_buckets(1, 2, 5),
        ).labels()
        self._waited_s = registry.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's entry into the scheduling queue until it was scheduled.",
            ("attempts",),
            exponential_buckets(0.01, 2, 20),
        )
        self._after_flush = registry.counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Pods scheduled after they were flushed from the unschedulable pods by timeout.",
        ).labels()
        self._incoming = registry.counter(
            "scheduler_queue_incoming_pods_total",
            "Pods added to a scheduling queue, by queue and event.",
            ("queue", "event"),
        )
        self.binding = registry.gauge("scheduler_goroutines", "Running tasks by operation.", ("operation",)).labels(
            "binding"
        )
        self.permit_waits = registry.histogram(
            "scheduler_permit_wait_duration_seconds",
            "Time that pods waited at the Permit extension point.",
            ("result",),
            exponential_buckets(0.001, 2, 15),
        )
        self.evaluations = registry.counter(
            "scheduler_plugin_evaluation_total",
            "Plugin evaluations, counted in every 32nd scheduling attempt.",
            ("plugin", "extension_point", "profile"),
        )
        self.preemptions = registry.counter("scheduler_preemption_attempts_total", "Preemption attempts.").labels()
        self.victims = registry.histogram(
            "scheduler_preemption_victims", "Number of victims of a preemption.", (), exponential_buckets(1, 2, 7)
        ).labels()
        self.points = registry.histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Duration of an extension point; before binding measured in every 32nd attempt.",
            ("extension_point", "status", "profile"),
            exponential_buckets(0.0001, 2, 12),
        )
        self.plugins = registry.histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Duration of a plugin; before binding measured in every 32nd attempt.",
            ("plugin", "extension_point", "status"),
            exponential_buckets(0.00001, 1.5, 20),
        )
        registry.function("scheduler_pending_pods", "Pending pods by queue.", self._sample_pending_pods, ("queue",))
        registry.function(
            "scheduler_queued_entities",
            "Pods without a pod group, and pod groups, by queue.",
            self._sample_queued_entities,
            ("queue", "type"),
        )
        registry.function(
            "scheduler_cache_size",
            "Nodes, pods and assumed pods in the scheduler cache.",
            self._sample_cache_size,
            ("type",),
        )
        registry.function(
            "scheduler_unschedulable_pods",
            "Unschedulable pods by the plugin that rejected them.",
            self._sample_unschedulable_pods,
            ("plugin", "profile"),
        )

    def record_algorithm_time(self, seconds: float) -> None:
        self._deciding_s.observe(seconds)

    def record_attempt(self, result: str, profile: str, seconds: float) -> None:
        self._attempts.labels(result, profile).inc()
        self._attempt_s.labels(result, profile).observe(seconds)

    def record_scheduled_pod(self, queued: QueuedPodInfo, now: float) -> None:
        attempts = queued.attempts
        self._tries.observe(attempts)
        if queued.entered is not None:
            label = str(attempts) if attempts < 15 else "15+"
            self._waited_s.labels(label).observe(max(0.0, now - queued.entered))
        if queued.is_flushed:
            self._after_flush.inc()

    def record_incoming_pod(self, queue: str, event: str) -> None:
        self._incoming.labels(queue, event).inc()

    @contextmanager
    def report_on(self, source: GaugeSource) -> Iterator[None]:
        """Let the gauges report on a running scheduler for the duration of the block."""
        self._source = source
        try:
            yield
        finally:
            self._source = None

    def count(self, result: str) -> int:
        """Return the number of attempts with this result over all profiles of the running scheduler."""
        profiles = self._source.profiles if self._source is not None else ()
        return int(sum(self._attempts.labels(result, name).value for name in profiles))

    def _sample_pending_pods(self) -> Iterator[Sample]:
        counts = self._source.queue.counts() if self._source is not None else {}
        return (((name,), count) for name, count in counts.items())

    def _sample_queued_entities(self) -> Iterator[Sample]:
        if self._source is None:
            return
        queue = self._source.queue
        counts, groups = Counter[str](), dict[str, set[tuple[str, str]]]()
        for queued in queue.list_pending_pods():
            group = queued.info.pod.spec.schedulingGroup
            if group is None:
                counts[queued.where] += 1
            else:
                groups.setdefault(queued.where, set()).add((queued.info.namespace, group.podGroupName or ""))
        for name in queue.counts():
            yield (name, "pod"), counts[name]
            yield (name, "podgroup"), len(groups.get(name, ()))

    def _sample_cache_size(self) -> Iterator[Sample]:
        if self._source is not None:
            table = self._source.table
            yield ("nodes",), table.count
            yield ("pods",), sum(len(pods) for pods in table.pods)
            yield ("assumed_pods",), self._source.cache.assumed_count

    def _sample_unschedulable_pods(self) -> Iterator[Sample]:
        counts: Counter[tuple[str, str]] = Counter()
        for queued in self._source.queue.list_pending_pods() if self._source is not None else ():
            profile = queued.info.pod.spec.schedulerName or DEFAULT_SCHEDULER
            counts.update((plugin, profile) for plugin in queued.plugins)
        return ((labels, count) for labels, count in counts.items())


RESOURCES = "/metrics/resources"
_LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
_UNITS = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}
_TERMINAL_PHASES = ("Succeeded", "Failed")
_FAMILIES: tuple[tuple[str, str, Callable[[PodSpec], Amounts]], ...] = (
    ("kube_pod_resource_request", "Resources requested by pods, by pod and resource.", effective_requests),
    ("kube_pod_resource_limit", "Resource limits of pods, by pod and resource.", effective_limits),
)


async def resource_text(pods: Iterable[Pod]) -> str:
    """Return the metrics in text format, yielding to other tasks while collecting."""
    samples: dict[str, list[Sample]] = {name: [] for name, _, _ in _FAMILIES}
    time_slice = TimeSlice()
    for pod in pods:
        if pod.status.phase not in _TERMINAL_PHASES:
            for name, _, amounts in _FAMILIES:
                samples[name] += _sample_resources(pod, amounts(pod.spec))
        await time_slice.pause_if_used_up()
    return await asyncio.to_thread(_render_samples, samples)


def _sample_resources(pod: Pod, amounts: Amounts) -> Iterator[Sample]:
    spec, meta = pod.spec, pod.metadata
    priority = "" if spec.priority is None else str(spec.priority)
    for resource, amount in amounts.items():
        if value := float(amount.value() if resource != "cpu" else amount.milli_value() / 1000):
            labels = (meta.namespace, meta.name, spec.nodeName, spec.schedulerName, priority, resource, _unit(resource))
            yield labels, value


def _unit(resource: str) -> str:
    if resource.startswith("hugepages-"):
        return "bytes"
    return _UNITS.get(resource, "integer" if resource.startswith("attachable-volumes-") else "")


def _render_samples(samples: dict[str, list[Sample]]) -> str:
    metrics = Metrics()
    for name, description, _ in _FAMILIES:
        metrics.function(name, description, partial(samples.__getitem__, name), _LABELS)
    return metrics.text()
