"""Validation of the metrics, scaling behavior and references of a HorizontalPodAutoscaler."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.autoscaling_v2 import (
    ContainerResourceMetricSource,
    CrossVersionObjectReference,
    ExternalMetricSource,
    HorizontalPodAutoscalerBehavior,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetricSource,
    PodsMetricSource,
    ResourceMetricSource,
)
from sampan.api.values import quantity
from sampan.apiserver.registry.podspec.resources import validate_container_resource_name
from sampan.apiserver.registry.validation import (
    NEGATIVE,
    FieldErrors,
    validate_dns_label,
    validate_optional_one_of,
    validate_positive,
)


class GroupName(Enum):
    """How the API group in a reference's apiVersion is validated."""

    REQUIRED = "there must be one"
    OPTIONAL = "there may be none"
    ANYTHING = "it is not looked at"


def validate_object_reference(reference: CrossVersionObjectReference, path: str, group: GroupName) -> FieldErrors:
    for field in ("kind", "name"):
        value: str = getattr(reference, field)
        if not value:
            yield FieldError.required(f"{path}.{field}")
        for text in names.path_segment(value):
            yield FieldError.invalid(f"{path}.{field}", value, text)
    if text := find_group_error(reference, group):
        yield FieldError.invalid(f"{path}.apiVersion", reference.apiVersion, text)


def find_group_error(reference: CrossVersionObjectReference, group: GroupName) -> str:
    """Return why the apiVersion of the reference is invalid, "" if it is valid."""
    version = reference.apiVersion
    if group is GroupName.ANYTHING:
        return ""
    if version.count("/") > 1:
        return f"unexpected GroupVersion string: {version}"
    if group is GroupName.REQUIRED and not version.rpartition("/")[0]:
        return "apiVersion must specify API group"
    return ""


_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_NAMED_BOTH = "may not set both a target raw value and a target utilization"
_NAMED_NEITHER = "must set either a target raw value or a target utilization"


def validate_metrics(metrics: Sequence[MetricSpec], path: str, object_group: GroupName) -> FieldErrors:
    for index, metric in enumerate(metrics):
        yield from _validate_metric(metric, f"{path}[{index}]", object_group)


def _validate_metric(metric: MetricSpec, path: str, object_group: GroupName) -> FieldErrors:
    if not metric.type:
        yield FieldError.required(f"{path}.type", "must specify a metric source type")
    if metric.type not in _TYPES:
        yield FieldError.not_supported(f"{path}.type", metric.type, _TYPES)
    present = [field for field in _SOURCES if getattr(metric, field) is not None]
    if present:
        yield from _validate_source(present[0], getattr(metric, present[0]), f"{path}.{present[0]}", object_group)
    expected = metric.type[:1].lower() + metric.type[1:] if metric.type in _TYPES else ""
    if not expected:
        yield FieldError.not_supported(f"{path}.type", metric.type, _TYPES)
    elif expected not in present:
        yield FieldError.required(f"{path}.{expected}", "must populate information for the given metric source")
    for field in present if len(present) != 1 else ():
        if field != expected:
            yield FieldError.forbidden(f"{path}.{field}", "must populate the given metric source only")


def _validate_source(field: str, source: Any, path: str, object_group: GroupName) -> FieldErrors:
    if field == "object":
        yield from validate_object_reference(source.describedObject, f"{path}.describedObject", object_group)
    yield from _SOURCES[field](source, path)


def _validate_object_source(source: ObjectMetricSource, path: str) -> FieldErrors:
    yield from _validate_metric_and_target(source, path, "must set either a target value or averageValue")


def _validate_external_source(source: ExternalMetricSource, path: str) -> FieldErrors:
    target = source.target
    yield from _validate_metric_and_target(
        source, path, "must set either a target value for metric or a per-pod target"
    )
    if target.value is not None and target.averageValue is not None:
        text = "may not set both a target value for metric and a per-pod target"
        yield FieldError.forbidden(f"{path}.target.value", text)


def _validate_metric_and_target(
    source: ObjectMetricSource | ExternalMetricSource, path: str, missing: str
) -> FieldErrors:
    """Yield the errors of the metric and its target. `missing` is the error if the target has no value."""
    yield from _validate_identifier(source.metric, f"{path}.metric")
    yield from _validate_target(source.target, f"{path}.target")
    if source.target.value is None and source.target.averageValue is None:
        yield FieldError.required(f"{path}.target.averageValue", missing)


def _validate_pods_source(source: PodsMetricSource, path: str) -> FieldErrors:
    yield from _validate_identifier(source.metric, f"{path}.metric")
    yield from _validate_target(source.target, f"{path}.target")
    if source.target.averageValue is None:
        yield FieldError.required(f"{path}.target.averageValue", "must specify a positive target averageValue")


def _validate_container_resource_source(source: ContainerResourceMetricSource, path: str) -> FieldErrors:
    if not source.name:
        yield FieldError.required(f"{path}.name", "must specify a resource name")
    else:
        yield from validate_container_resource_name(source.name, f"{path}.name")
    if not source.container:
        yield FieldError.required(f"{path}.container", "must specify a container")
    else:
        yield from validate_dns_label(source.container, f"{path}.container")
    yield from _validate_usage(source.target, f"{path}.target")


def _validate_resource_source(source: ResourceMetricSource, path: str) -> FieldErrors:
    if not source.name:
        yield FieldError.required(f"{path}.name", "must specify a resource name")
    yield from _validate_usage(source.target, f"{path}.target")


def _validate_usage(target: MetricTarget, path: str) -> FieldErrors:
    yield from _validate_target(target, path)
    if target.averageUtilization is None and target.averageValue is None:
        yield FieldError.required(f"{path}.averageUtilization", _NAMED_NEITHER)
    if target.averageUtilization is not None and target.averageValue is not None:
        yield FieldError.forbidden(f"{path}.averageValue", _NAMED_BOTH)


def _validate_target(target: MetricTarget, path: str) -> FieldErrors:
    if not target.type:
        yield FieldError.required(f"{path}.type", "must specify a metric target type")
    if target.type not in ("Utilization", "Value", "AverageValue"):
        text = "must be either Utilization, Value, or AverageValue"
        yield FieldError.invalid(f"{path}.type", target.type, text)
    for field, amount in (("value", target.value), ("averageValue", target.averageValue)):
        if amount is not None and quantity.parse(amount).sign <= 0:
            yield FieldError.invalid(f"{path}.{field}", amount, "must be positive")
    if target.averageUtilization is not None and target.averageUtilization < 1:
        yield FieldError.invalid(f"{path}.averageUtilization", target.averageUtilization, "must be greater than 0")


def _validate_identifier(metric: MetricIdentifier, path: str) -> FieldErrors:
    if not metric.name:
        yield FieldError.required(f"{path}.name", "must specify a metric name")
    for text in names.path_segment(metric.name):
        yield FieldError.invalid(f"{path}.name", metric.name, text)


_SOURCES: dict[str, Callable[[Any, str], FieldErrors]] = {
    "object": _validate_object_source,
    "external": _validate_external_source,
    "pods": _validate_pods_source,
    "resource": _validate_resource_source,
    "containerResource": _validate_container_resource_source,
}
"""The sources in the order in which they are checked: only the first one that is set is validated."""


_CHOICES = ("Disabled", "Max", "Min")
_POLICY_TYPES = ("Percent", "Pods")
_MAX_WINDOW_S, _MAX_PERIOD_S = 3600, 1800


def validate_behavior(behavior: HorizontalPodAutoscalerBehavior, path: str) -> FieldErrors:
    if behavior.scaleUp is not None:
        yield from _validate_scaling_rules(behavior.scaleUp, f"{path}.scaleUp")
    if behavior.scaleDown is not None:
        yield from _validate_scaling_rules(behavior.scaleDown, f"{path}.scaleDown")


def _validate_scaling_rules(rules: HPAScalingRules, field_path: str) -> FieldErrors:
    window, path = rules.stabilizationWindowSeconds or 0, f"{field_path}.stabilizationWindowSeconds"
    if window < 0:
        yield FieldError.invalid(path, window, "must be greater than or equal to zero")
    if window > _MAX_WINDOW_S:
        yield FieldError.invalid(path, window, f"must be less than or equal to {_MAX_WINDOW_S}")
    yield from validate_optional_one_of(rules.selectPolicy, _CHOICES, f"{field_path}.selectPolicy")
    if not rules.policies:
        yield FieldError.required(f"{field_path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.policies or ()):
        yield from _validate_scaling_policy(policy, f"{field_path}.policies[{index}]")
    if rules.tolerance is not None and quantity.parse(rules.tolerance).sign < 0:
        yield FieldError.invalid(f"{field_path}.tolerance", rules.tolerance, NEGATIVE)


def _validate_scaling_policy(policy: HPAScalingPolicy, path: str) -> FieldErrors:
    yield from validate_optional_one_of(policy.type, _POLICY_TYPES, f"{path}.type")
    yield from validate_positive(policy.value, f"{path}.value")
    yield from validate_positive(policy.periodSeconds, f"{path}.periodSeconds")
    if policy.periodSeconds > _MAX_PERIOD_S:
        text = f"must be less than or equal to {_MAX_PERIOD_S}"
        yield FieldError.invalid(f"{path}.periodSeconds", policy.periodSeconds, text)
