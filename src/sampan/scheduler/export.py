"""What the scheduler counts, as metrics under the real one's names."""

from __future__ import annotations

from collections.abc import Iterator

from sampan.machinery.metrics import Metrics, Sample
from sampan.scheduler.scheduler import Scheduler


def export_scheduler(metrics: Metrics, scheduler: Scheduler) -> None:
    stats, queue = scheduler.stats, scheduler.queue

    def attempts() -> Iterator[Sample]:
        for result, count in (
            ("scheduled", stats.scheduled),
            ("unschedulable", stats.unschedulable),
            ("error", stats.errors),
        ):
            yield (result,), count

    def pending() -> Iterator[Sample]:
        return (((name,), count) for name, count in queue.counts().items())

    def cache() -> Iterator[Sample]:
        yield ("nodes",), scheduler.table.count
        yield ("pods",), sum(len(found) for found in scheduler.table.pods)

    metrics.function("scheduler_schedule_attempts_total", "Attempts to place pods.", attempts, ("result",), "counter")
    metrics.function("scheduler_pending_pods", "Pods that wait, by queue.", pending, ("queue",))
    metrics.function("scheduler_cache_size", "Nodes and pods that are known.", cache, ("type",))
    metrics.function(
        "scheduler_scheduling_algorithm_duration_seconds_sum",
        "Time spent on decisions.",
        lambda: stats.deciding_s,
        kind="counter",
    )


__all__ = ["export_scheduler"]
