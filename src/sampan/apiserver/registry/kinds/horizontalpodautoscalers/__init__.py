"""HorizontalPodAutoscaler in its storage version autoscaling/v2; v1 is converted by `sampan.api.conversion`.

`defaults`, `metrics` and `behavior` default and validate its parts, `targets` prints the metrics in the table. The
counterparts are `pkg/registry/autoscaling` and `pkg/apis/autoscaling/validation`.
"""

from collections.abc import Iterable

from sampan.api.faults import FieldError
from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscaler
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.kinds.horizontalpodautoscalers.behavior import validate_behavior
from sampan.apiserver.registry.kinds.horizontalpodautoscalers.defaults import default_autoscaler
from sampan.apiserver.registry.kinds.horizontalpodautoscalers.metrics import validate_metrics
from sampan.apiserver.registry.kinds.horizontalpodautoscalers.references import (
    Group,
    find_group_error,
    validate_object_reference,
)
from sampan.apiserver.registry.kinds.horizontalpodautoscalers.targets import targets
from sampan.apiserver.registry.podspec.formats import FieldErrors
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.workloads.counts import validate_non_negative_counts
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME


class HorizontalPodAutoscalerStrategy(Strategy):
    columns = (
        NAME,
        Column("Reference", lambda autoscaler, now: _reference(autoscaler), field="spec.scaleTargetRef"),
        Column(
            "Targets",
            lambda autoscaler, now: targets(autoscaler.spec.metrics, autoscaler.status.currentMetrics or ()),
            field="spec.metrics",
        ),
        Column("MinPods", lambda autoscaler, now: _least(autoscaler), field="spec.minReplicas"),
        Column("MaxPods", lambda autoscaler, now: autoscaler.spec.maxReplicas, field="spec.maxReplicas"),
        Column("Replicas", lambda autoscaler, now: autoscaler.status.currentReplicas, field="status.currentReplicas"),
        AGE,
    )

    def default(self, obj: HorizontalPodAutoscaler) -> None:
        default_autoscaler(obj)

    def prepare_for_create(self, ctx: Context, obj: HorizontalPodAutoscaler) -> None:
        obj.status = type(obj.status)()

    def validate_create(self, ctx: Context, obj: HorizontalPodAutoscaler) -> Iterable[FieldError]:
        return _validate_autoscaler(obj, None)

    def prepare_for_update(self, ctx: Context, obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler) -> None:
        obj.status = old.status

    def validate_update(
        self, ctx: Context, obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler
    ) -> Iterable[FieldError]:
        return _validate_autoscaler(obj, old)


class HorizontalPodAutoscalerStatusStrategy(StatusStrategy):
    def validate_update(
        self, ctx: Context, obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler
    ) -> Iterable[FieldError]:
        return validate_non_negative_counts(obj.status, ("currentReplicas", "desiredReplicas"))


def _validate_autoscaler(obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler | None) -> FieldErrors:
    spec = obj.spec
    yield from _validate_replica_range(obj, old)
    yield from validate_object_reference(spec.scaleTargetRef, "spec.scaleTargetRef", _target_group(obj, old))
    yield from validate_metrics(spec.metrics, "spec.metrics", _object_group(old))
    if spec.minReplicas == 0 and not any(metric.type in ("Object", "External") for metric in spec.metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield FieldError.forbidden("spec.metrics", text)
    if spec.behavior is not None:
        yield from validate_behavior(spec.behavior, "spec.behavior")


def _validate_replica_range(obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler | None) -> FieldErrors:
    """Yield the errors of minReplicas and maxReplicas. An existing minReplicas of zero may be kept."""
    least, most, at = obj.spec.minReplicas, obj.spec.maxReplicas, "spec.maxReplicas"
    bound = 0 if old is not None and old.spec.minReplicas == 0 else 1
    if least is not None and least < bound:
        yield FieldError.invalid("spec.minReplicas", least, f"must be greater than or equal to {bound}")
    if most == 0:
        yield FieldError.required(at, "must be set and greater than 0")
    elif most < 0:
        yield FieldError.invalid(at, most, "must be greater than or equal to 1")
    if least is not None and most < least:
        yield FieldError.invalid(at, most, "must be greater than or equal to `minReplicas`")


def _target_group(obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler | None) -> Group:
    """Return how to validate the API group of the scale target: not at all if the target's kind is unchanged."""
    target = obj.spec.scaleTargetRef
    if old is not None:
        before = old.spec.scaleTargetRef
        if (before.apiVersion, before.kind) == (target.apiVersion, target.kind):
            return Group.ANYTHING
    return Group.OPTIONAL if target.kind == "ReplicationController" else Group.REQUIRED


def _object_group(old: HorizontalPodAutoscaler | None) -> Group:
    objects = [metric.object for metric in (old.spec.metrics if old is not None else ()) if metric.type == "Object"]
    is_bad = any(source is not None and find_group_error(source.describedObject, Group.OPTIONAL) for source in objects)
    return Group.ANYTHING if is_bad else Group.OPTIONAL


def _reference(autoscaler: HorizontalPodAutoscaler) -> str:
    return f"{autoscaler.spec.scaleTargetRef.kind}/{autoscaler.spec.scaleTargetRef.name}"


def _least(autoscaler: HorizontalPodAutoscaler) -> str:
    return cells.UNSET if autoscaler.spec.minReplicas is None else str(autoscaler.spec.minReplicas)


_strategy = HorizontalPodAutoscalerStrategy()
BEHAVIOUR = ResourceBehaviour(strategy=_strategy, views={"status": HorizontalPodAutoscalerStatusStrategy(_strategy)})
