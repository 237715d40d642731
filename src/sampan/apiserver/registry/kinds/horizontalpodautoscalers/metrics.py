"""Validation of metrics: the source that belongs to the metric's type must be the only one."""

from collections.abc import Callable, Sequence
from typing import Any

from sampan.api import names, quantity
from sampan.api.faults import FieldError
from sampan.api.types.autoscaling_v2 import (
    ContainerResourceMetricSource,
    ExternalMetricSource,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetricSource,
    PodsMetricSource,
    ResourceMetricSource,
)
from sampan.apiserver.registry.kinds.horizontalpodautoscalers.references import Group, reference_faults
from sampan.apiserver.registry.podspec.formats import Faults, dns_label
from sampan.apiserver.registry.podspec.resources import container_resource_name

_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_NAMED_BOTH = "may not set both a target raw value and a target utilization"
_NAMED_NEITHER = "must set either a target raw value or a target utilization"


def metrics_faults(metrics: Sequence[MetricSpec], at: str, object_group: Group) -> Faults:
    for index, metric in enumerate(metrics):
        yield from _metric(metric, f"{at}[{index}]", object_group)


def _metric(metric: MetricSpec, at: str, object_group: Group) -> Faults:
    if not metric.type:
        yield FieldError.required(f"{at}.type", "must specify a metric source type")
    if metric.type not in _TYPES:
        yield FieldError.not_supported(f"{at}.type", metric.type, _TYPES)
    present = [field for field in _SOURCES if getattr(metric, field) is not None]
    if present:
        yield from _source(present[0], getattr(metric, present[0]), f"{at}.{present[0]}", object_group)
    expected = metric.type[:1].lower() + metric.type[1:] if metric.type in _TYPES else ""
    if not expected:
        yield FieldError.not_supported(f"{at}.type", metric.type, _TYPES)
    elif expected not in present:
        yield FieldError.required(f"{at}.{expected}", "must populate information for the given metric source")
    for field in present if len(present) != 1 else ():
        if field != expected:
            yield FieldError.forbidden(f"{at}.{field}", "must populate the given metric source only")


def _source(field: str, source: Any, at: str, object_group: Group) -> Faults:
    if field == "object":
        yield from reference_faults(source.describedObject, f"{at}.describedObject", object_group)
    yield from _SOURCES[field](source, at)


def _object(source: ObjectMetricSource, at: str) -> Faults:
    target = source.target
    yield from _identifier(source.metric, f"{at}.metric")
    yield from _target(target, f"{at}.target")
    if target.value is None and target.averageValue is None:
        text = "must set either a target value or averageValue"
        yield FieldError.required(f"{at}.target.averageValue", text)


def _external(source: ExternalMetricSource, at: str) -> Faults:
    target = source.target
    yield from _identifier(source.metric, f"{at}.metric")
    yield from _target(target, f"{at}.target")
    if target.value is None and target.averageValue is None:
        text = "must set either a target value for metric or a per-pod target"
        yield FieldError.required(f"{at}.target.averageValue", text)
    if target.value is not None and target.averageValue is not None:
        text = "may not set both a target value for metric and a per-pod target"
        yield FieldError.forbidden(f"{at}.target.value", text)


def _pods(source: PodsMetricSource, at: str) -> Faults:
    yield from _identifier(source.metric, f"{at}.metric")
    yield from _target(source.target, f"{at}.target")
    if source.target.averageValue is None:
        yield FieldError.required(f"{at}.target.averageValue", "must specify a positive target averageValue")


def _container_resource(source: ContainerResourceMetricSource, at: str) -> Faults:
    if not source.name:
        yield FieldError.required(f"{at}.name", "must specify a resource name")
    else:
        yield from container_resource_name(source.name, f"{at}.name")
    if not source.container:
        yield FieldError.required(f"{at}.container", "must specify a container")
    else:
        yield from dns_label(source.container, f"{at}.container")
    yield from _usage(source.target, f"{at}.target")


def _resource(source: ResourceMetricSource, at: str) -> Faults:
    if not source.name:
        yield FieldError.required(f"{at}.name", "must specify a resource name")
    yield from _usage(source.target, f"{at}.target")


def _usage(target: MetricTarget, at: str) -> Faults:
    yield from _target(target, at)
    if target.averageUtilization is None and target.averageValue is None:
        yield FieldError.required(f"{at}.averageUtilization", _NAMED_NEITHER)
    if target.averageUtilization is not None and target.averageValue is not None:
        yield FieldError.forbidden(f"{at}.averageValue", _NAMED_BOTH)


def _target(target: MetricTarget, at: str) -> Faults:
    if not target.type:
        yield FieldError.required(f"{at}.type", "must specify a metric target type")
    if target.type not in ("Utilization", "Value", "AverageValue"):
        text = "must be either Utilization, Value, or AverageValue"
        yield FieldError.invalid(f"{at}.type", target.type, text)
    for field, amount in (("value", target.value), ("averageValue", target.averageValue)):
        if amount is not None and quantity.parse(amount).sign <= 0:
            yield FieldError.invalid(f"{at}.{field}", amount, "must be positive")
    if target.averageUtilization is not None and target.averageUtilization < 1:
        yield FieldError.invalid(f"{at}.averageUtilization", target.averageUtilization, "must be greater than 0")


def _identifier(metric: MetricIdentifier, at: str) -> Faults:
    if not metric.name:
        yield FieldError.required(f"{at}.name", "must specify a metric name")
    for text in names.path_segment(metric.name):
        yield FieldError.invalid(f"{at}.name", metric.name, text)


_SOURCES: dict[str, Callable[[Any, str], Faults]] = {
    "object": _object,
    "external": _external,
    "pods": _pods,
    "resource": _resource,
    "containerResource": _container_resource,
}
"""The sources in the order in which they are checked: only the first one that is set is validated."""
