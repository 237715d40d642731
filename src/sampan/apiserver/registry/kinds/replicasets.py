"""ReplicaSet: maintains a number of identical pods."""

from collections.abc import Iterable

from sampan.api.faults import FieldError
from sampan.api.types.apps_v1 import ReplicaSet, ReplicaSetSpec
from sampan.api.types.core_v1 import PodTemplateSpec
from sampan.api.types.meta_v1 import LabelSelector
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.podspec.defaults import default_template
from sampan.apiserver.registry.podspec.formats import Faults, non_negative
from sampan.apiserver.registry.podspec.leniency import NEW_TEMPLATE, Leniency
from sampan.apiserver.registry.podspec.template import template_faults
from sampan.apiserver.registry.scale import Scaled
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy
from sampan.apiserver.registry.workloads import counts, selection
from sampan.apiserver.registry.workloads.columns import SELECTOR, container_columns, count
from sampan.apiserver.registry.workloads.templates import TemplateStrategy, allowances, ends_faults
from sampan.apiserver.tables.columns import AGE, NAME


class ReplicaSetStrategy(TemplateStrategy):
    columns = (
        NAME,
        Column("Desired", lambda found, now: found.spec.replicas or 0, type="integer", field="spec.replicas"),
        count("Current", "replicas"),
        count("Ready", "readyReplicas"),
        AGE,
        *container_columns(),
        SELECTOR,
    )

    def default(self, obj: ReplicaSet) -> None:
        default_template(obj.spec.template)
        if obj.spec.replicas is None:
            obj.spec.replicas = 1

    def validate_create(self, ctx: Context, obj: ReplicaSet) -> Iterable[FieldError]:
        return _spec_faults(obj.spec, NEW_TEMPLATE)

    def validate_update(self, ctx: Context, obj: ReplicaSet, old: ReplicaSet) -> Iterable[FieldError]:
        yield from _spec_faults(obj.spec, allowances(old.spec.template))
        yield from selection.changed_selector(obj.spec.selector, old.spec.selector, "spec.selector")


class ReplicaSetStatusStrategy(StatusStrategy):
    def validate_update(self, ctx: Context, obj: ReplicaSet, old: ReplicaSet) -> Iterable[FieldError]:
        parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        fields = ("replicas", *parts, "observedGeneration", "terminatingReplicas")
        yield from counts.negative_counts(obj.status, fields)
        yield from counts.counts_above_all(obj.status, parts)
        yield from counts.available_above_ready(obj.status)


def _spec_faults(spec: ReplicaSetSpec, lenient: Leniency) -> Faults:
    yield from non_negative(spec.replicas or 0, "spec.replicas")
    yield from non_negative(spec.minReadySeconds, "spec.minReadySeconds")
    yield from selector_and_template(spec.selector, spec.template, lenient)


def selector_and_template(selector: LabelSelector | None, template: PodTemplateSpec, lenient: Leniency) -> Faults:
    """Yield the errors of selector and template, which Deployments have with the same messages."""
    at = "spec.template"
    yield from selection.required_selector(selector, "spec.selector", of="deployment")
    selected = selection.parsed(selector)
    if selected is None:
        yield FieldError.invalid("spec.selector", selector, "invalid label selector")
        return
    yield from selection.mismatch(selected, template, at)
    yield from template_faults(template, lenient, at)
    yield from ends_faults(template, at, of="ReplicaSet")


_strategy = ReplicaSetStrategy()
_scaled = Scaled(strategy=_strategy, selector=lambda found: selection.expression(found.spec.selector))
BEHAVIOUR = ResourceBehaviour(
    strategy=_strategy, views={"status": ReplicaSetStatusStrategy(_strategy)}, handlers={"scale": _scaled.serve}
)
