"""HorizontalPodAutoscaler in its storage version autoscaling/v2; v1 is converted by `sampan.api.conversion`.

`defaults`, `metrics` and `behavior` default and validate its parts, `targets` prints the metrics in the table. The
counterparts are `pkg/registry/autoscaling` and `pkg/apis/autoscaling/validation`.
"""

from collections.abc import Iterable

from sampan.api.faults import FieldError
from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscaler
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.kinds.horizontalpodautoscalers.behavior import behavior_faults
from sampan.apiserver.registry.kinds.horizontalpodautoscalers.defaults import default_autoscaler
from sampan.apiserver.registry.kinds.horizontalpodautoscalers.metrics import metrics_faults
from sampan.apiserver.registry.kinds.horizontalpodautoscalers.references import Group, group_fault, reference_faults
from sampan.apiserver.registry.kinds.horizontalpodautoscalers.targets import targets
from sampan.apiserver.registry.podspec.formats import Faults
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.workloads.counts import negative_counts
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME


class HorizontalPodAutoscalerStrategy(Strategy):
    columns = (
        NAME,
        Column("Reference", lambda found, now: _reference(found), field="spec.scaleTargetRef"),
        Column(
            "Targets",
            lambda found, now: targets(found.spec.metrics, found.status.currentMetrics or ()),
            field="spec.metrics",
        ),
        Column("MinPods", lambda found, now: _least(found), field="spec.minReplicas"),
        Column("MaxPods", lambda found, now: found.spec.maxReplicas, field="spec.maxReplicas"),
        Column("Replicas", lambda found, now: found.status.currentReplicas, field="status.currentReplicas"),
        AGE,
    )

    def default(self, obj: HorizontalPodAutoscaler) -> None:
        default_autoscaler(obj)

    def prepare_create(self, ctx: Context, obj: HorizontalPodAutoscaler) -> None:
        obj.status = type(obj.status)()

    def validate_create(self, ctx: Context, obj: HorizontalPodAutoscaler) -> Iterable[FieldError]:
        return _faults(obj, None)

    def prepare_update(self, ctx: Context, obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler) -> None:
        obj.status = old.status

    def validate_update(
        self, ctx: Context, obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler
    ) -> Iterable[FieldError]:
        return _faults(obj, old)


class HorizontalPodAutoscalerStatusStrategy(StatusStrategy):
    def validate_update(
        self, ctx: Context, obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler
    ) -> Iterable[FieldError]:
        return negative_counts(obj.status, ("currentReplicas", "desiredReplicas"))


def _faults(obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler | None) -> Faults:
    spec = obj.spec
    yield from _range_faults(obj, old)
    yield from reference_faults(spec.scaleTargetRef, "spec.scaleTargetRef", _target_group(obj, old))
    yield from metrics_faults(spec.metrics, "spec.metrics", _object_group(old))
    if spec.minReplicas == 0 and not any(metric.type in ("Object", "External") for metric in spec.metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield FieldError.forbidden("spec.metrics", text)
    if spec.behavior is not None:
        yield from behavior_faults(spec.behavior, "spec.behavior")


def _range_faults(obj: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler | None) -> Faults:
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
    is_bad = any(source is not None and group_fault(source.describedObject, Group.OPTIONAL) for source in objects)
    return Group.ANYTHING if is_bad else Group.OPTIONAL


def _reference(found: HorizontalPodAutoscaler) -> str:
    return f"{found.spec.scaleTargetRef.kind}/{found.spec.scaleTargetRef.name}"


def _least(found: HorizontalPodAutoscaler) -> str:
    return cells.UNSET if found.spec.minReplicas is None else str(found.spec.minReplicas)


_strategy = HorizontalPodAutoscalerStrategy()
BEHAVIOUR = ResourceBehaviour(strategy=_strategy, views={"status": HorizontalPodAutoscalerStatusStrategy(_strategy)})
