"""The Targets column of the table: the current and target value of each metric."""

from collections.abc import Sequence
from typing import Any

from sampan.api.types.autoscaling_v2 import MetricSpec, MetricStatus, MetricTarget, MetricValueStatus
from sampan.apiserver.tables.cells import NONE

_SHOWN_MOST = 2
_UNKNOWN = "<unknown>"


def targets(metrics: Sequence[MetricSpec], current: Sequence[MetricStatus]) -> str:
    if not metrics:
        return NONE
    states = [*current, *([None] * len(metrics))]
    shown = [_metric(metric, state) for metric, state in zip(metrics, states, strict=False)]
    text = ", ".join(shown[:_SHOWN_MOST])
    return f"{text} + {len(shown) - _SHOWN_MOST} more..." if len(shown) > _SHOWN_MOST else text


def _metric(metric: MetricSpec, state: MetricStatus | None) -> str:
    field = metric.type[:1].lower() + metric.type[1:]
    source, now = getattr(metric, field, None), getattr(state, field, None)
    if source is None:
        return "<unknown type>"
    current = now.current if now is not None else None
    if field in ("resource", "containerResource"):
        return f"{source.name}: {_usage(source.target, current)}"
    return _amount(source.target, current) if field != "pods" else _average(source.target, current)


def _usage(target: MetricTarget, current: MetricValueStatus | None) -> str:
    if target.averageValue is not None:
        return _average(target, current)
    now = _percent(current.averageUtilization, _UNKNOWN) if current is not None else _UNKNOWN
    return f"{now}/{_percent(target.averageUtilization, '<auto>')}"


def _amount(target: MetricTarget, current: MetricValueStatus | None) -> str:
    if target.averageValue is not None:
        return f"{_average(target, current)} (avg)"
    return f"{_value(current, 'value')}/{target.value}"


def _average(target: MetricTarget, current: MetricValueStatus | None) -> str:
    return f"{_value(current, 'averageValue')}/{target.averageValue}"


def _value(current: MetricValueStatus | None, field: str) -> Any:
    value = getattr(current, field) if current is not None else None
    return _UNKNOWN if value is None else value


def _percent(value: int | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value}%"
