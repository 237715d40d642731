"""Metrics of the priority levels, under the names of kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sampan.apiserver.fairness.fairness import Fairness
from sampan.apiserver.fairness.level import Level
from sampan.machinery.metrics import Metrics, Sample

_VALUES: Sequence[tuple[str, str, str, Callable[[Level], float]]] = (
    ("current_executing_requests", "gauge", "Requests in execution.", lambda level: level.executing),
    ("current_executing_seats", "gauge", "Seats occupied by executing requests.", lambda level: level.taken),
    ("current_inqueue_requests", "gauge", "Requests waiting in queues.", lambda level: level.waiting),
    ("current_inqueue_seats", "gauge", "Seats that queued requests need.", lambda level: level.wanted),
    (
        "current_limit_seats",
        "gauge",
        "Current seats of the priority level, with lending and borrowing.",
        lambda level: level.seats,
    ),
    (
        "nominal_limit_seats",
        "gauge",
        "Seats of the priority level without borrowing.",
        lambda level: level.limits.seats,
    ),
    ("lower_limit_seats", "gauge", "Seats that the priority level never lends.", lambda level: level.limits.least),
    ("dispatched_requests_total", "counter", "Requests dispatched to execution.", lambda level: level.dispatched),
    ("rejected_requests_total", "counter", "Requests rejected by flow control.", lambda level: level.refused),
)


def export_fairness(metrics: Metrics, fairness: Fairness) -> None:
    def each(value: Callable[[Level], float]) -> Callable[[], Iterator[Sample]]:
        return lambda: (((name,), value(level)) for name, level in fairness.levels.items())

    for name, kind, help, value in _VALUES:
        metrics.function(f"apiserver_flowcontrol_{name}", help, each(value), ("priority_level",), kind)
