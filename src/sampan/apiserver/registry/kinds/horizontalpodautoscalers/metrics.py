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
from sampan.apiserver.registry.kinds.horizontalpodautoscalers.references import Group, validate_object_reference
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_dns_label
from sampan.apiserver.registry.podspec.resources import validate_container_resource_name

_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_NAMED_BOTH = "may not set both a target raw value and a target utilization"
_NAMED_NEITHER = "must set either a target raw value or a target utilization"


def validate_metrics(metrics: Sequence[MetricSpec], at: str, object_group: Group) -> FieldErrors:
    for index, metric in enumerate(metrics):
        yield from _validate_metric(metric, f"{at}[{index}]", object_group)


def _validate_metric(metric: MetricSpec, at: str, object_group: Group) -> FieldErrors:
    if not metric.type:
        yield FieldError.required(f"{at}.type", "must specify a metric source type")
    if metric.type not in _TYPES:
        yield FieldError.not_supported(f"{at}.type", metric.type, _TYPES)
    present = [field for field in _SOURCES if getattr(metric, field) is not None]
    if present:
        yield from _validate_source(present[0], getattr(metric, present[0]), f"{at}.{present[0]}", object_group)
    expected = metric.type[:1].lower() + metric.type[1:] if metric.type in _TYPES else ""
    if not expected:
        yield FieldError.not_supported(f"{at}.type", metric.type, _TYPES)
    elif expected not in present:
        yield FieldError.required(f"{at}.{expected}", "must populate information for the given metric source")
    for field in present if len(present) != 1 else ():
        if field != expected:
            yield FieldError.forbidden(f"{at}.{field}", "must populate the given metric source only")


def _validate_source(field: str, source: Any, at: str, object_group: Group) -> FieldErrors:
    if field == "object":
        yield from validate_object_reference(source.describedObject, f"{at}.describedObject", object_group)
    yield from _SOURCES[field](source, at)


def _validate_object_source(source: ObjectMetricSource, at: str) -> FieldErrors:
    target = source.target
    yield from _validate_identifier(source.metric, f"{at}.metric")
    yield from _validate_target(target, f"{at}.target")
    if target.value is None and target.averageValue is None:
        text = "must set either a target value or averageValue"
        yield FieldError.required(f"{at}.target.averageValue", text)


def _validate_external_source(source: ExternalMetricSource, at: str) -> FieldErrors:
    target = source.target
    yield from _validate_identifier(source.metric, f"{at}.metric")
    yield from _validate_target(target, f"{at}.target")
    if target.value is None and target.averageValue is None:
        text = "must set either a target value for metric or a per-pod target"
        yield FieldError.required(f"{at}.target.averageValue", text)
    if target.value is not None and target.averageValue is not None:
        text = "may not set both a target value for metric and a per-pod target"
        yield FieldError.forbidden(f"{at}.target.value", text)


def _validate_pods_source(source: PodsMetricSource, at: str) -> FieldErrors:
    yield from _validate_identifier(source.metric, f"{at}.metric")
    yield from _validate_target(source.target, f"{at}.target")
    if source.target.averageValue is None:
        yield FieldError.required(f"{at}.target.averageValue", "must specify a positive target averageValue")


def _validate_container_resource_source(source: ContainerResourceMetricSource, at: str) -> FieldErrors:
    if not source.name:
        yield FieldError.required(f"{at}.name", "must specify a resource name")
    else:
        yield from validate_container_resource_name(source.name, f"{at}.name")
    if not source.container:
        yield FieldError.required(f"{at}.container", "must specify a container")
    else:
        yield from validate_dns_label(source.container, f"{at}.container")
    yield from _validate_usage(source.target, f"{at}.target")


def _validate_resource_source(source: ResourceMetricSource, at: str) -> FieldErrors:
    if not source.name:
        yield FieldError.required(f"{at}.name", "must specify a resource name")
    yield from _validate_usage(source.target, f"{at}.target")


def _validate_usage(target: MetricTarget, at: str) -> FieldErrors:
    yield from _validate_target(target, at)
    if target.averageUtilization is None and target.averageValue is None:
        yield FieldError.required(f"{at}.averageUtilization", _NAMED_NEITHER)
    if target.averageUtilization is not None and target.averageValue is not None:
        yield FieldError.forbidden(f"{at}.averageValue", _NAMED_BOTH)


def _validate_target(target: MetricTarget, at: str) -> FieldErrors:
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


def _validate_identifier(metric: MetricIdentifier, at: str) -> FieldErrors:
    if not metric.name:
        yield FieldError.required(f"{at}.name", "must specify a metric name")
    for text in names.path_segment(metric.name):
        yield FieldError.invalid(f"{at}.name", metric.name, text)


_SOURCES: dict[str, Callable[[Any, str], FieldErrors]] = {
    "object": _validate_object_source,
    "external": _validate_external_source,
    "pods": _validate_pods_source,
    "resource": _validate_resource_source,
    "containerResource": _validate_container_resource_source,
}
"""The sources in the order in which they are checked: only the first one that is set is validated."""
