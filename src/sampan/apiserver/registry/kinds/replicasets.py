"""ReplicaSet: maintains a number of identical pods."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.types.apps_v1 import ReplicaSet, ReplicaSetSpec
from sampan.api.types.core_v1 import PodTemplateSpec
from sampan.api.types.meta_v1 import LabelSelector
from sampan.apiserver.handlers import Handlers
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.podspec.defaults import default_template
from sampan.apiserver.registry.podspec.spec import validate_pod_template_spec
from sampan.apiserver.registry.podspec.validation_options import NEW_TEMPLATE, PodValidationOptions
from sampan.apiserver.registry.scale import ScaleSubresource
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy
from sampan.apiserver.registry.validation import FieldErrors, validate_non_negative
from sampan.apiserver.registry.workloads import (
    SELECTOR,
    TemplateStrategy,
    container_columns,
    make_count_column,
    parse_selector,
    selector_expression,
    update_options,
    validate_available_at_most_ready,
    validate_counts_at_most_replicas,
    validate_immutable_selector,
    validate_non_negative_counts,
    validate_required_selector,
    validate_selector_matches_template,
    validate_template_never_completes,
)
from sampan.apiserver.tables.columns import AGE, NAME


class ReplicaSetStrategy(TemplateStrategy):
    columns = (
        NAME,
        Column(
            "Desired", lambda replica_set, now: replica_set.spec.replicas or 0, type="integer", field="spec.replicas"
        ),
        make_count_column("Current", "replicas"),
        make_count_column("Ready", "readyReplicas"),
        AGE,
        *container_columns(),
        SELECTOR,
    )

    def default(self, obj: ReplicaSet) -> None:
        default_template(obj.spec.template)
        if obj.spec.replicas is None:
            obj.spec.replicas = 1

    def validate_create(self, ctx: Context, obj: ReplicaSet) -> Iterable[FieldError]:
        return _validate_spec(obj.spec, NEW_TEMPLATE)

    def validate_update(self, ctx: Context, obj: ReplicaSet, old: ReplicaSet) -> Iterable[FieldError]:
        yield from _validate_spec(obj.spec, update_options(old.spec.template))
        yield from validate_immutable_selector(obj.spec.selector, old.spec.selector, "spec.selector")


class ReplicaSetStatusStrategy(StatusStrategy):
    def validate_update(self, ctx: Context, obj: ReplicaSet, old: ReplicaSet) -> Iterable[FieldError]:
        parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        fields = ("replicas", *parts, "observedGeneration", "terminatingReplicas")
        yield from validate_non_negative_counts(obj.status, fields)
        yield from validate_counts_at_most_replicas(obj.status, parts)
        yield from validate_available_at_most_ready(obj.status)


def _validate_spec(spec: ReplicaSetSpec, options: PodValidationOptions) -> FieldErrors:
    yield from validate_non_negative(spec.replicas or 0, "spec.replicas")
    yield from validate_non_negative(spec.minReadySeconds, "spec.minReadySeconds")
    yield from validate_selector_and_template(spec.selector, spec.template, options)


def validate_selector_and_template(
    selector: LabelSelector | None, template: PodTemplateSpec, options: PodValidationOptions
) -> FieldErrors:
    """Yield the errors of selector and template, which Deployments have with the same messages."""
    path = "spec.template"
    yield from validate_required_selector(selector, "spec.selector", of="deployment")
    selected = parse_selector(selector)
    if selected is None:
        yield FieldError.invalid("spec.selector", selector, "invalid label selector")
        return
    yield from validate_selector_matches_template(selected, template, path)
    yield from validate_pod_template_spec(template, options, path)
    yield from validate_template_never_completes(template, path, of="ReplicaSet")


_strategy = ReplicaSetStrategy()
_scaled = ScaleSubresource(
    strategy=_strategy, selector=lambda replica_set: selector_expression(replica_set.spec.selector)
)
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": ReplicaSetStatusStrategy(_strategy)})
HANDLERS: Handlers = {"scale": _scaled.serve}
