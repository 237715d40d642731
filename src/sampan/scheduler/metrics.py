"""What the scheduler measures, under the real one's names.

Made once for a process; a scheduler that takes over after another (leader election) goes on counting here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sampan.machinery.metrics import Metrics, Sample

if TYPE_CHECKING:
    from sampan.scheduler.scheduler import Scheduler

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"


def doubling(first: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(first * factor**number for number in range(count))


class SchedulerMetrics:
    def __init__(self, metrics: Metrics | None = None) -> None:
        made = metrics or Metrics()
        self.scheduler: Scheduler | None = None
        """The one that gauges tell of."""
        self._attempts = made.counter(
            "scheduler_schedule_attempts_total", "Attempts to place pods.", ("result", "profile")
        )
        self._attempt_s = made.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long an attempt took, without binding.",
            ("result", "profile"),
            doubling(0.001, 2, 15),
        )
        self._deciding_s = made.histogram(
            "scheduler_scheduling_algorithm_duration_seconds", "Time spent on a decision.", (), doubling(0.001, 2, 15)
        ).labels()
        self._tries = made.histogram(
            "scheduler_pod_scheduling_attempts", "Attempts until a pod was placed.", (), doubling(1, 2, 5)
        ).labels()
        self._waited_s = made.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From a pod's entry into the queue until it was placed.",
            ("attempts",),
            doubling(0.01, 2, 20),
        )
        self.preemptions = made.counter("scheduler_preemption_attempts_total", "Attempts to make room.").labels()
        self.victims = made.histogram(
            "scheduler_preemption_victims", "Pods evicted to make room, at a time.", (), doubling(1, 2, 7)
        ).labels()
        self.points = made.histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "How long all plug-ins of a point took; before binding of every 32nd attempt.",
            ("extension_point", "status", "profile"),
            doubling(0.0001, 2, 12),
        )
        self.plugins = made.histogram(
            "scheduler_plugin_execution_duration_seconds",
            "How long a plug-in took; before binding of every 32nd attempt.",
            ("plugin", "extension_point", "status"),
            doubling(0.00001, 1.5, 20),
        )
        made.function("scheduler_pending_pods", "Pods that wait, by queue.", self._pending, ("queue",))
        made.function("scheduler_cache_size", "Nodes and pods that are known.", self._cache, ("type",))
        made.function(
            "scheduler_unschedulable_pods",
            "Pods that wait because a plug-in refused them.",
            self._unschedulable,
            ("plugin", "profile"),
        )

    def decided(self, seconds: float) -> None:
        self._deciding_s.observe(seconds)

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        self._attempts.labels(result, profile).inc()
        self._attempt_s.labels(result, profile).observe(seconds)

    def placed(self, attempts: int, waited_s: float) -> None:
        self._tries.observe(attempts)
        self._waited_s.labels(str(attempts) if attempts < 15 else "15+").observe(waited_s)

    def count(self, result: str) -> int:
        """Attempts with that result, of all profiles."""
        profiles = self.scheduler.profiles if self.scheduler is not None else ()
        return int(sum(self._attempts.labels(result, name).value for name in profiles))

    def _pending(self) -> Iterator[Sample]:
        counts = self.scheduler.queue.counts() if self.scheduler is not None else {}
        return (((name,), count) for name, count in counts.items())

    def _cache(self) -> Iterator[Sample]:
        if self.scheduler is not None:
            table = self.scheduler.table
            yield ("nodes",), table.count
            yield ("pods",), sum(len(found) for found in table.pods)

    def _unschedulable(self) -> Iterator[Sample]:
        found: Counter[tuple[str, str]] = Counter()
        for queued in self.scheduler.queue.pending() if self.scheduler is not None else ():
            profile = queued.info.pod.spec.schedulerName or "default-scheduler"
            found.update((plugin, profile) for plugin in queued.plugins)
        return ((labels, count) for labels, count in found.items())


__all__ = ["ERROR", "SCHEDULED", "UNSCHEDULABLE", "SchedulerMetrics"]
