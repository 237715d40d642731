"""Metrics of the priority levels, under the names of kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sampan.apiserver.fairness.fairness import Fairness
from sampan.apiserver.fairness.level import Level
from sampan.machinery.metrics import Metrics, Sample

_VALUES: Sequence[tuple[str, str, str, Callable[[Level], float]]] = (
    ("current_executing_requests", "gauge", "Calls that are carried out.", lambda level: level.executing),
    ("current_executing_seats", "gauge", "Seats that they have.", lambda level: level.taken),
    ("current_inqueue_requests", "gauge", "Calls that wait for seats.", lambda level: level.waiting),
    ("current_inqueue_seats", "gauge", "Seats that they wait for.", lambda level: level.wanted),
    ("current_limit_seats", "gauge", "Seats of the level, with what is lent and borrowed.", lambda level: level.seats),
    ("nominal_limit_seats", "gauge", "Seats when nobody borrows.", lambda level: level.limits.seats),
    ("lower_limit_seats", "gauge", "Seats that are never lent.", lambda level: level.limits.least),
    ("dispatched_requests_total", "counter", "Calls that got seats.", lambda level: level.dispatched),
    ("rejected_requests_total", "counter", "Calls that were refused.", lambda level: level.refused),
)


def export_fairness(metrics: Metrics, fairness: Fairness) -> None:
    def each(value: Callable[[Level], float]) -> Callable[[], Iterator[Sample]]:
        return lambda: (((name,), value(level)) for name, level in fairness.levels.items())

    for name, kind, help, value in _VALUES:
        metrics.function(f"apiserver_flowcontrol_{name}", help, each(value), ("priority_level",), kind)


__all__ = ["export_fairness"]
