"""HorizontalPodAutoscaler in its storage version autoscaling/v2; v1 is converted by `sampan.api.conversion`.

The strategies, the default values and the table columns are here; `validation` validates metrics, scaling behavior and
references. The counterparts are `pkg/registry/autoscaling` and `pkg/apis/autoscaling/validation`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sampan.api.field_errors import FieldError
from sampan.api.types.autoscaling_v2 import (
    HorizontalPodAutoscaler,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricSpec,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
    ResourceMetricSource,
)
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.kinds.horizontalpodautoscalers.validation import (
    GroupName,
    find_group_error,
    validate_behavior,
    validate_metrics,
    validate_object_reference,
)
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import FieldErrors
from sampan.apiserver.registry.workloads import validate_non_negative_counts
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.cells import NONE
from sampan.apiserver.tables.columns import AGE, NAME

_SCALE_TO_ZERO = "HPAScaleToZero"
_CPU_PERCENT = 80
_PERIOD_S = 15
_COUNTS_GENERATION = "HPAGeneration"
"""The feature gate of metadata.generation."""


def default_autoscaler(obj: HorizontalPodAutoscaler) -> None:
    spec = obj.spec
    if spec.minReplicas is None:
        spec.minReplicas = 1
    if not spec.metrics:
        target = MetricTarget(type="Utilization", averageUtilization=_CPU_PERCENT)
        spec.metrics = [MetricSpec(type="Resource", resource=ResourceMetricSource(name="cpu", target=target))]
    if spec.behavior is not None:
        spec.behavior.scaleUp = _complete_rules(spec.behavior.scaleUp, _make_scale_up_defaults())
        spec.behavior.scaleDown = _complete_rules(spec.behavior.scaleDown, _make_scale_down_defaults())


def _complete_rules(rules: HPAScalingRules | None, defaults: HPAScalingRules) -> HPAScalingRules:
    """Return the rules with the fields that are unset taken from `defaults`."""
    if rules is None:
        return defaults
    for field in HPAScalingRules.__struct_fields__:
        if getattr(rules, field) is None:
            setattr(rules, field, getattr(defaults, field))
    return rules


def _make_scale_up_defaults() -> HPAScalingRules:
    """Return the default for scaling up: by 4 pods or 100% per 15 seconds, whichever is more, without stabilization."""
    policies = [_policy("Pods", 4), _policy("Percent", 100)]
    return HPAScalingRules(stabilizationWindowSeconds=0, selectPolicy="Max", policies=policies)


def _make_scale_down_defaults() -> HPAScalingRules:
    """Return the default for scaling down: by 100% per 15 seconds, with the controller's stabilization window."""
    return HPAScalingRules(selectPolicy="Max", policies=[_policy("Percent", 100)])


def _policy(type: str, value: int) -> HPAScalingPolicy:
    return HPAScalingPolicy(type=type, value=value, periodSeconds=_PERIOD_S)


_MAX_SHOWN_METRICS = 2
_UNKNOWN = "<unknown>"


def targets(metrics: Sequence[MetricSpec], current: Sequence[MetricStatus]) -> str:
    if not metrics:
        return NONE
    states = [*current, *([None] * len(metrics))]
    shown = [_metric(metric, state) for metric, state in zip(metrics, states, strict=False)]
    text = ", ".join(shown[:_MAX_SHOWN_METRICS])
    return f"{text} + {len(shown) - _MAX_SHOWN_METRICS} more..." if len(shown) > _MAX_SHOWN_METRICS else text


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


class HorizontalPodAutoscalerStrategy(Strategy):
    columns = (
        NAME,
        Column("Reference", lambda autoscaler, now: _reference(autoscaler), field="spec.scaleTargetRef"),
        Column(
            "Targets",
            lambda autoscaler, now: targets(autoscaler.spec.metrics, autoscaler.status.currentMetrics or ()),
            field="spec.metrics",
        ),
        Column("MinPods", lambda autoscaler, now: _min_pods(autoscaler), field="spec.minReplicas"),
        Column("MaxPods", lambda autoscaler, now: autoscaler.spec.maxReplicas, field="spec.maxReplicas"),
        Column("Replicas", lambda autoscaler, now: autoscaler.status.currentReplicas, field="status.currentReplicas"),
        AGE,
    )

    def default(self, obj: HorizontalPodAutoscaler) -> None:
        default_autoscaler(obj)

    def prepare_for_create(self, ctx: Context, obj: HorizontalPodAutoscaler) -> None:
        obj.status = type(obj.status)()
        if ctx.is_enabled(_COUNTS_GENERATION):
            obj.metadata.generation = 1

    def validate_create(self, ctx: Context, obj: HorizontalPodAutoscaler) -> Iterable[FieldError]:
        return _validate_autoscaler(obj, None)

    def prepare_for_update(self, ctx: Context, obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler) -> None:
        obj.status = old.status
        if ctx.is_enabled(_COUNTS_GENERATION) and obj.spec != old.spec:
            obj.metadata.generation = old.metadata.generation + 1

    def validate_update(
        self, ctx: Context, obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler
    ) -> Iterable[FieldError]:
        return _validate_autoscaler(obj, old)

    def declarative_options(self, ctx: Context, old: HorizontalPodAutoscaler) -> Callable[[str], bool]:
        """Allow an autoscaler that can scale to zero already to do so even if the feature gate is off."""
        return lambda option: (option == _SCALE_TO_ZERO and old.spec.minReplicas == 0) or ctx.is_enabled(option)


class HorizontalPodAutoscalerStatusStrategy(StatusStrategy):
    def validate_update(
        self, ctx: Context, obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler
    ) -> Iterable[FieldError]:
        return validate_non_negative_counts(obj.status, ("currentReplicas", "desiredReplicas"))


def _validate_autoscaler(obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler | None) -> FieldErrors:
    spec = obj.spec
    if spec.minReplicas is not None and spec.maxReplicas < spec.minReplicas:
        yield FieldError.invalid("spec.maxReplicas", spec.maxReplicas, "must be greater than or equal to `minReplicas`")
    yield from validate_object_reference(spec.scaleTargetRef, "spec.scaleTargetRef", _target_group(obj, old))
    yield from validate_metrics(spec.metrics, "spec.metrics", _object_group(old))
    if spec.minReplicas == 0 and not any(metric.type in ("Object", "External") for metric in spec.metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield FieldError.forbidden("spec.metrics", text)
    if spec.behavior is not None:
        yield from validate_behavior(spec.behavior, "spec.behavior")


def _target_group(obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler | None) -> GroupName:
    """Return how to validate the API group of the scale target: not at all if the target's kind is unchanged."""
    target = obj.spec.scaleTargetRef
    if old is not None:
        before = old.spec.scaleTargetRef
        if (before.apiVersion, before.kind) == (target.apiVersion, target.kind):
            return GroupName.ANYTHING
    return GroupName.OPTIONAL if target.kind == "ReplicationController" else GroupName.REQUIRED


def _object_group(old: HorizontalPodAutoscaler | None) -> GroupName:
    objects = [metric.object for metric in (old.spec.metrics if old is not None else ()) if metric.type == "Object"]
    is_bad = any(
        source is not None and find_group_error(source.describedObject, GroupName.OPTIONAL) for source in objects
    )
    return GroupName.ANYTHING if is_bad else GroupName.OPTIONAL


def _reference(autoscaler: HorizontalPodAutoscaler) -> str:
    return f"{autoscaler.spec.scaleTargetRef.kind}/{autoscaler.spec.scaleTargetRef.name}"


def _min_pods(autoscaler: HorizontalPodAutoscaler) -> str:
    return cells.UNSET if autoscaler.spec.minReplicas is None else str(autoscaler.spec.minReplicas)


_strategy = HorizontalPodAutoscalerStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": HorizontalPodAutoscalerStatusStrategy(_strategy)})
