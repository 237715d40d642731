"""The metrics of the scheduler, under the names of kube-scheduler (compare `pkg/scheduler/metrics`).

They are created once per process; a scheduler that starts after a change of leader continues the same counters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sampan.machinery.metrics import Metrics, Sample

if TYPE_CHECKING:
    from sampan.scheduler.queued import Queued
    from sampan.scheduler.scheduler import Scheduler

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"


def doubling(first: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(first * factor**number for number in range(count))


class SchedulerMetrics:
    def __init__(self, metrics: Metrics | None = None) -> None:
        registry = metrics or Metrics()
        self.scheduler: Scheduler | None = None
        """The running scheduler that gauges report on."""
        self._attempts = registry.counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods, by result and profile.",
            ("result", "profile"),
        )
        self._attempt_s = registry.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Duration of a scheduling attempt, including binding.",
            ("result", "profile"),
            doubling(0.001, 2, 15),
        )
        self._deciding_s = registry.histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Duration of the scheduling algorithm.",
            (),
            doubling(0.001, 2, 15),
        ).labels()
        self._tries = registry.histogram(
            "scheduler_pod_scheduling_attempts", "Number of attempts until a pod was scheduled.", (), doubling(1, 2, 5)
        ).labels()
        self._waited_s = registry.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's entry into the scheduling queue until it was scheduled.",
            ("attempts",),
            doubling(0.01, 2, 20),
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
            doubling(0.001, 2, 15),
        )
        self.evaluations = registry.counter(
            "scheduler_plugin_evaluation_total",
            "Plugin evaluations, counted in every 32nd scheduling attempt.",
            ("plugin", "extension_point", "profile"),
        )
        self.preemptions = registry.counter("scheduler_preemption_attempts_total", "Preemption attempts.").labels()
        self.victims = registry.histogram(
            "scheduler_preemption_victims", "Number of victims of a preemption.", (), doubling(1, 2, 7)
        ).labels()
        self.points = registry.histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Duration of an extension point; before binding measured in every 32nd attempt.",
            ("extension_point", "status", "profile"),
            doubling(0.0001, 2, 12),
        )
        self.plugins = registry.histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Duration of a plugin; before binding measured in every 32nd attempt.",
            ("plugin", "extension_point", "status"),
            doubling(0.00001, 1.5, 20),
        )
        registry.function("scheduler_pending_pods", "Pending pods by queue.", self._pending, ("queue",))
        registry.function(
            "scheduler_cache_size", "Nodes, pods and assumed pods in the scheduler cache.", self._cache, ("type",)
        )
        registry.function(
            "scheduler_unschedulable_pods",
            "Unschedulable pods by the plugin that rejected them.",
            self._unschedulable,
            ("plugin", "profile"),
        )

    def decided(self, seconds: float) -> None:
        self._deciding_s.observe(seconds)

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        self._attempts.labels(result, profile).inc()
        self._attempt_s.labels(result, profile).observe(seconds)

    def placed(self, queued: Queued, now: float) -> None:
        attempts = queued.attempts
        self._tries.observe(attempts)
        if queued.entered is not None:
            label = str(attempts) if attempts < 15 else "15+"
            self._waited_s.labels(label).observe(max(0.0, now - queued.entered))
        if queued.is_flushed:
            self._after_flush.inc()

    def incoming(self, queue: str, event: str) -> None:
        self._incoming.labels(queue, event).inc()

    def count(self, result: str) -> int:
        """Return the number of attempts with this result over all profiles."""
        profiles = self.scheduler.profiles if self.scheduler is not None else ()
        return int(sum(self._attempts.labels(result, name).value for name in profiles))

    def _pending(self) -> Iterator[Sample]:
        counts = self.scheduler.queue.counts() if self.scheduler is not None else {}
        return (((name,), count) for name, count in counts.items())

    def _cache(self) -> Iterator[Sample]:
        if self.scheduler is not None:
            table = self.scheduler.table
            yield ("nodes",), table.count
            yield ("pods",), sum(len(pods) for pods in table.pods)
            yield ("assumed_pods",), self.scheduler.feed.assumed

    def _unschedulable(self) -> Iterator[Sample]:
        counts: Counter[tuple[str, str]] = Counter()
        for queued in self.scheduler.queue.pending() if self.scheduler is not None else ():
            profile = queued.info.pod.spec.schedulerName or "default-scheduler"
            counts.update((plugin, profile) for plugin in queued.plugins)
        return ((labels, count) for labels, count in counts.items())
