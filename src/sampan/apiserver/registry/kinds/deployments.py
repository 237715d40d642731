"""Deployment: replicated pods with rolling updates."""

from collections.abc import Iterable
from typing import Any

from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.types import apps_v1
from sampan.api.types.apps_v1 import Deployment, RollingUpdateDeployment
from sampan.apiserver.handlers import Handlers
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.kinds.replicasets import validate_selector_and_template
from sampan.apiserver.registry.podspec.defaults import default_template
from sampan.apiserver.registry.podspec.validation_options import NEW_TEMPLATE, PodValidationOptions
from sampan.apiserver.registry.scale import ScaleSubresource
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy
from sampan.apiserver.registry.validation import FieldErrors, validate_non_negative
from sampan.apiserver.registry.workloads import (
    TemplateStrategy,
    container_columns,
    is_zero,
    normalize_number_annotation,
    parse_selector,
    selector_expression,
    update_options,
    validate_at_most_100_percent,
    validate_available_at_most_ready,
    validate_collision_count,
    validate_counts_at_most_replicas,
    validate_immutable_selector,
    validate_int_or_percent,
    validate_non_negative_counts,
)
from sampan.apiserver.tables.columns import AGE, NAME
from sampan.machinery.apply import ExcludedFieldsFilter

_ROLLING, _RECREATE = "RollingUpdate", "Recreate"
_DEFAULT_HISTORY_LIMIT, _DEFAULT_PROGRESS_DEADLINE_S, _DEFAULT_ROLLING_SHARE = 10, 600, "25%"
_ROLLBACK = "deprecated.deployment.rollback.to"
"""The annotation that requests a rollback, once a field of extensions/v1beta1."""


class DeploymentStrategy(TemplateStrategy):
    columns = (
        NAME,
        Column(
            "Ready",
            lambda deployment, now: f"{deployment.status.readyReplicas}/{deployment.spec.replicas or 0}",
            description="Number of the pod with ready state",
        ),
        Column("Up-to-date", lambda deployment, now: deployment.status.updatedReplicas, field="status.updatedReplicas"),
        Column(
            "Available", lambda deployment, now: deployment.status.availableReplicas, field="status.availableReplicas"
        ),
        AGE,
        *container_columns(),
        Column("Selector", lambda deployment, now: _selector(deployment), field="spec.selector", wide=True),
    )

    def default(self, obj: Deployment) -> None:
        spec = obj.spec
        default_template(spec.template)
        if spec.replicas is None:
            spec.replicas = 1
        if not spec.strategy.type:
            spec.strategy.type = _ROLLING
        if spec.strategy.type == _ROLLING:
            _default_update(spec.strategy)
        if spec.revisionHistoryLimit is None:
            spec.revisionHistoryLimit = _DEFAULT_HISTORY_LIMIT
        if spec.progressDeadlineSeconds is None:
            spec.progressDeadlineSeconds = _DEFAULT_PROGRESS_DEADLINE_S
        normalize_number_annotation(obj, _ROLLBACK)

    def spec_of(self, obj: Deployment) -> Any:
        """Return the spec and the annotations, which are copied to the replica sets."""
        return obj.spec, obj.metadata.annotations

    def validate_create(self, ctx: Context, obj: Deployment) -> Iterable[FieldError]:
        return _validate_deployment(obj, NEW_TEMPLATE)

    def validate_update(self, ctx: Context, obj: Deployment, old: Deployment) -> Iterable[FieldError]:
        yield from _validate_deployment(obj, update_options(old.spec.template))
        yield from validate_immutable_selector(obj.spec.selector, old.spec.selector, "spec.selector")


class DeploymentStatusStrategy(StatusStrategy):
    reset_fields = ExcludedFieldsFilter("spec", "metadata.labels")

    def prepare_for_update(self, ctx: Context, obj: Deployment, old: Deployment) -> None:
        obj.spec = old.spec
        obj.metadata.labels = old.metadata.labels

    def validate_update(self, ctx: Context, obj: Deployment, old: Deployment) -> Iterable[FieldError]:
        parts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        fields = ("observedGeneration", "replicas", *parts, "unavailableReplicas")
        yield from validate_non_negative_counts(obj.status, (*fields, "terminatingReplicas", "collisionCount"))
        yield from validate_counts_at_most_replicas(obj.status, parts)
        yield from validate_available_at_most_ready(obj.status)
        yield from validate_collision_count(obj.status, old.status)


def _default_update(strategy: apps_v1.DeploymentStrategy) -> None:
    update = strategy.rollingUpdate = strategy.rollingUpdate or RollingUpdateDeployment()
    if update.maxUnavailable is None:
        update.maxUnavailable = _DEFAULT_ROLLING_SHARE
    if update.maxSurge is None:
        update.maxSurge = _DEFAULT_ROLLING_SHARE


def _validate_deployment(obj: Deployment, options: PodValidationOptions) -> FieldErrors:
    spec = obj.spec
    yield from validate_non_negative(spec.replicas or 0, "spec.replicas")
    yield from validate_selector_and_template(spec.selector, spec.template, options)
    yield from _validate_strategy(spec.strategy, "spec.strategy")
    yield from validate_non_negative(spec.minReadySeconds, "spec.minReadySeconds")
    yield from validate_non_negative(spec.revisionHistoryLimit or 0, "spec.revisionHistoryLimit")
    yield from validate_non_negative(int(obj.metadata.annotations.get(_ROLLBACK, 0)), "spec.rollback.version")
    deadline, path = spec.progressDeadlineSeconds or 0, "spec.progressDeadlineSeconds"
    yield from validate_non_negative(deadline, path)
    if deadline <= spec.minReadySeconds:
        yield FieldError.invalid(path, deadline, "must be greater than minReadySeconds")


def _validate_strategy(strategy: apps_v1.DeploymentStrategy, path: str) -> FieldErrors:
    update = strategy.rollingUpdate
    if strategy.type == _RECREATE:
        if update is not None:
            text = f"may not be specified when strategy `type` is '{_RECREATE}'"
            yield FieldError.forbidden(f"{path}.rollingUpdate", text)
    elif strategy.type != _ROLLING:
        yield FieldError.not_supported(path, encode_error_value(_to_internal_strategy(strategy)), (_RECREATE, _ROLLING))
    elif update is not None:
        yield from _validate_rolling_update(update, f"{path}.rollingUpdate")


def _validate_rolling_update(update: RollingUpdateDeployment, path: str) -> FieldErrors:
    missing, more = _amounts(update)
    yield from validate_int_or_percent(missing, f"{path}.maxUnavailable")
    yield from validate_int_or_percent(more, f"{path}.maxSurge")
    if is_zero(missing) and is_zero(more):
        yield FieldError.invalid(f"{path}.maxUnavailable", missing, "may not be 0 when `maxSurge` is 0")
    yield from validate_at_most_100_percent(missing, f"{path}.maxUnavailable")


def _amounts(update: RollingUpdateDeployment) -> tuple[int | str, int | str]:
    missing, more = update.maxUnavailable, update.maxSurge
    return 0 if missing is None else missing, 0 if more is None else more


def _to_internal_strategy(strategy: apps_v1.DeploymentStrategy) -> apps_v1.DeploymentStrategy:
    """Return the strategy with zeros for unset numbers, as kube-apiserver prints it."""
    update = strategy.rollingUpdate
    if update is None:
        return strategy
    missing, more = _amounts(update)
    rolling_update = RollingUpdateDeployment(maxUnavailable=missing, maxSurge=more)
    return apps_v1.DeploymentStrategy(type=strategy.type, rollingUpdate=rolling_update)


def _selector(deployment: Deployment) -> str:
    selected = parse_selector(deployment.spec.selector)
    return "<invalid>" if selected is None else str(selected)


_strategy = DeploymentStrategy()
_scaled = ScaleSubresource(
    strategy=_strategy, selector=lambda deployment: selector_expression(deployment.spec.selector)
)
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": DeploymentStatusStrategy(_strategy)})
HANDLERS: Handlers = {"scale": _scaled.serve}
