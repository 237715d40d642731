"""Metrics of controllers and their work queues, under the names that kube-controller-manager uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sampan.machinery.controller import ControllerRunner
from sampan.machinery.metrics import Labels, Metrics

_VALUES: Sequence[tuple[str, str, str, Callable[[ControllerRunner], float]]] = (
    ("workqueue_depth", "gauge", "Keys that wait for a worker.", lambda runner: len(runner.queue)),
    ("workqueue_adds_total", "counter", "Keys that became ready.", lambda runner: runner.queue.stats.adds),
    ("workqueue_retries_total", "counter", "Keys that were put back.", lambda runner: runner.queue.stats.retries),
    (
        "workqueue_queue_duration_seconds_sum",
        "counter",
        "Total time that keys waited in the work queue.",
        lambda runner: runner.queue.stats.waited_s,
    ),
    (
        "workqueue_work_duration_seconds_sum",
        "counter",
        "Total time that workers spent on keys.",
        lambda runner: runner.stats.busy_s,
    ),
    ("sampan_reconcile_total", "counter", "Reconciled keys.", lambda runner: runner.stats.reconciles),
    ("sampan_reconcile_errors_total", "counter", "Reconciliations that failed.", lambda runner: runner.stats.errors),
)


def export_controllers(metrics: Metrics, runners: Callable[[], Sequence[ControllerRunner]]) -> None:
    """Export the metrics of the runners that `runners` returns at the time of each scrape."""

    def each(value: Callable[[ControllerRunner], float]) -> Callable[[], Iterator[tuple[Labels, float]]]:
        return lambda: (((runner.controller.name,), value(runner)) for runner in runners())

    for name, kind, help, value in _VALUES:
        metrics.function(name, help, each(value), ("name",), kind)
