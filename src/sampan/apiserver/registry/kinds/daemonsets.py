"""DaemonSet: runs a pod on every matching node."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.types.apps_v1 import DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, RollingUpdateDaemonSet
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.podspec.defaults import default_template
from sampan.apiserver.registry.podspec.spec import validate_pod_template_spec
from sampan.apiserver.registry.podspec.validation_options import NEW_TEMPLATE, PodValidationOptions
from sampan.apiserver.registry.podspec.warnings import warnings_for
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy
from sampan.apiserver.registry.validation import FieldErrors, validate_non_negative
from sampan.apiserver.registry.workloads import (
    SELECTOR,
    TemplateStrategy,
    container_columns,
    is_zero,
    make_count_column,
    normalize_number_annotation,
    parse_selector,
    update_options,
    validate_at_most_100_percent,
    validate_collision_count,
    validate_immutable_selector,
    validate_int_or_percent,
    validate_non_empty_selector,
    validate_non_negative_counts,
    validate_selector,
    validate_selector_matches_template,
    validate_template_never_completes,
)
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_ROLLING, _ON_DELETE = "RollingUpdate", "OnDelete"
_HISTORY = 10
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""The annotation that counts the changes of the template."""


class DaemonSetStrategy(TemplateStrategy):
    warns_of_names = False
    columns = (
        NAME,
        make_count_column("Desired", "desiredNumberScheduled"),
        make_count_column("Current", "currentNumberScheduled"),
        make_count_column("Ready", "numberReady"),
        make_count_column("Up-to-date", "updatedNumberScheduled"),
        make_count_column("Available", "numberAvailable"),
        Column(
            "Node Selector",
            lambda daemon_set, now: cells.pairs(daemon_set.spec.template.spec.nodeSelector),
            field="spec.template.spec.nodeSelector",
        ),
        AGE,
        *container_columns(),
        SELECTOR,
    )

    def default(self, obj: DaemonSet) -> None:
        spec = obj.spec
        default_template(spec.template)
        _default_update(spec.updateStrategy)
        if spec.revisionHistoryLimit is None:
            spec.revisionHistoryLimit = _HISTORY
        normalize_number_annotation(obj, _TEMPLATE_GENERATION)

    def prepare_for_create(self, ctx: Context, obj: DaemonSet) -> None:
        super().prepare_for_create(ctx, obj)
        _count_template(obj, max(_template_generation(obj), 1))

    def validate_create(self, ctx: Context, obj: DaemonSet) -> Iterable[FieldError]:
        return _validate_spec(obj.spec, NEW_TEMPLATE)

    def prepare_for_update(self, ctx: Context, obj: DaemonSet, old: DaemonSet) -> None:
        super().prepare_for_update(ctx, obj, old)
        is_changed = obj.spec.template != old.spec.template
        _count_template(obj, _template_generation(old) + is_changed)

    def validate_update(self, ctx: Context, obj: DaemonSet, old: DaemonSet) -> Iterable[FieldError]:
        yield from validate_immutable_selector(obj.spec.selector, old.spec.selector, "spec.selector")
        yield from _validate_spec(obj.spec, update_options(old.spec.template), old)

    def warnings(self, ctx: Context, obj: DaemonSet, old: DaemonSet | None) -> Iterable[str]:
        template = obj.spec.template
        if old is not None and template == old.spec.template:
            return ()
        return warnings_for(template.spec, template.metadata, self.template_at)


class DaemonSetStatusStrategy(StatusStrategy):
    def prepare_for_update(self, ctx: Context, obj: DaemonSet, old: DaemonSet) -> None:
        obj.spec = old.spec
        _count_template(obj, _template_generation(old))

    def validate_update(self, ctx: Context, obj: DaemonSet, old: DaemonSet) -> Iterable[FieldError]:
        scheduled = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
        updated = ("observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable")
        yield from validate_non_negative_counts(obj.status, (*scheduled, *updated, "collisionCount"))
        yield from validate_collision_count(obj.status, old.status)


def _default_update(strategy: DaemonSetUpdateStrategy) -> None:
    strategy.type = strategy.type or _ROLLING
    if strategy.type != _ROLLING:
        return
    update = strategy.rollingUpdate = strategy.rollingUpdate or RollingUpdateDaemonSet()
    if update.maxUnavailable is None:
        update.maxUnavailable = 1
    if update.maxSurge is None:
        update.maxSurge = 0


def _template_generation(daemon_set: DaemonSet) -> int:
    return int(daemon_set.metadata.annotations.get(_TEMPLATE_GENERATION, 0))


def _count_template(daemon_set: DaemonSet, number: int) -> None:
    daemon_set.metadata.annotations[_TEMPLATE_GENERATION] = str(number)


def _validate_spec(spec: DaemonSetSpec, options: PodValidationOptions, old: DaemonSet | None = None) -> FieldErrors:
    path, before = "spec.template", old.spec.selector if old is not None else None
    yield from validate_selector(spec.selector, before, "spec.selector")
    selected = parse_selector(spec.selector)
    if selected is not None:
        yield from validate_selector_matches_template(selected, spec.template, path)
    if spec.selector is not None:
        yield from validate_non_empty_selector(spec.selector, "spec.selector", of="daemonset")
    yield from validate_pod_template_spec(spec.template, options, path)
    yield from validate_template_never_completes(spec.template, path, of="DaemonSet")
    yield from validate_non_negative(spec.minReadySeconds, "spec.minReadySeconds")
    yield from _validate_update_strategy(spec.updateStrategy, "spec.updateStrategy")
    yield from validate_non_negative(spec.revisionHistoryLimit or 0, "spec.revisionHistoryLimit")


def _validate_update_strategy(strategy: DaemonSetUpdateStrategy, path: str) -> FieldErrors:
    if strategy.type not in (_ROLLING, _ON_DELETE):
        yield FieldError.not_supported(
            path, encode_error_value(_to_internal_strategy(strategy)), (_ROLLING, _ON_DELETE)
        )
    elif strategy.type == _ROLLING and strategy.rollingUpdate is not None:
        yield from _validate_rolling_update(strategy.rollingUpdate, f"{path}.rollingUpdate")


def _validate_rolling_update(update: RollingUpdateDaemonSet, field_path: str) -> FieldErrors:
    missing, more = _amounts(update)
    named = ((missing, f"{field_path}.maxUnavailable"), (more, f"{field_path}.maxSurge"))
    for value, path in named:
        yield from validate_int_or_percent(value, path)
    for value, path in named:
        yield from validate_at_most_100_percent(value, path)
    may_miss, may_surge = not is_zero(missing), not is_zero(more)
    if may_miss and may_surge:
        yield FieldError.invalid(f"{field_path}.maxSurge", more, "may not be set when maxUnavailable is non-zero")
    elif not may_miss and not may_surge:
        yield FieldError.required(f"{field_path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _amounts(update: RollingUpdateDaemonSet) -> tuple[int | str, int | str]:
    missing, more = update.maxUnavailable, update.maxSurge
    return 0 if missing is None else missing, 0 if more is None else more


def _to_internal_strategy(strategy: DaemonSetUpdateStrategy) -> DaemonSetUpdateStrategy:
    """Return the strategy with zeros for unset numbers, as kube-apiserver prints it."""
    update = strategy.rollingUpdate
    if update is None:
        return strategy
    missing, more = _amounts(update)
    rolling_update = RollingUpdateDaemonSet(maxUnavailable=missing, maxSurge=more)
    return DaemonSetUpdateStrategy(type=strategy.type, rollingUpdate=rolling_update)


_strategy = DaemonSetStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": DaemonSetStatusStrategy(_strategy)})
