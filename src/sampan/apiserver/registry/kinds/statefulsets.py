"""StatefulSet: pods with stable names and storage."""

from collections.abc import Iterable

import msgspec

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.types.apps_v1 import (
    RollingUpdateStatefulSetStrategy,
    StatefulSet,
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec,
    StatefulSetUpdateStrategy,
)
from sampan.api.types.core_v1 import PersistentVolumeClaimVolumeSource, PodTemplateSpec, Volume
from sampan.api.values.int_or_string import IntOrString
from sampan.apiserver.handlers import Handlers
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.podspec.defaults import default_template
from sampan.apiserver.registry.podspec.spec import validate_pod_template_spec, validate_template_metadata
from sampan.apiserver.registry.podspec.validation_options import NEW_TEMPLATE, PodValidationOptions
from sampan.apiserver.registry.podspec.volumes.volume_claims import claim_warnings, default_claim, validate_claim_spec
from sampan.apiserver.registry.scale import ScaleSubresource
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_dns_label,
    validate_immutable,
    validate_non_negative,
    validate_optional_one_of,
)
from sampan.apiserver.registry.workloads import (
    TemplateStrategy,
    container_columns,
    is_zero,
    parse_selector,
    selector_expression,
    update_options,
    validate_at_most_100_percent,
    validate_available_at_most_ready,
    validate_collision_count,
    validate_counts_at_most_replicas,
    validate_int_or_percent,
    validate_non_negative_counts,
    validate_required_selector,
    validate_selector_matches_template,
    validate_template_never_completes,
)
from sampan.apiserver.tables.columns import AGE, NAME

_ROLLING, _ON_DELETE = "RollingUpdate", "OnDelete"
_ORDERED, _PARALLEL = "OrderedReady", "Parallel"
_RETAIN, _DELETE = "Retain", "Delete"
_HISTORY = 10
_FIXED = ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy")
_KEEPS_ALL = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"


class StatefulSetStrategy(TemplateStrategy):
    warns_of_names = False
    columns = (
        NAME,
        Column(
            "Ready",
            lambda stateful_set, now: f"{stateful_set.status.readyReplicas}/{stateful_set.spec.replicas or 0}",
            description="Number of the pod with ready state",
        ),
        AGE,
        *container_columns(),
    )

    def validate_name(self, name: str, is_prefix: bool) -> list[str]:
        return names.dns1123_label(name, prefix=is_prefix)

    def default(self, obj: StatefulSet) -> None:
        _default_spec(obj.spec)

    def validate_create(self, ctx: Context, obj: StatefulSet) -> Iterable[FieldError]:
        return _validate_spec(obj.spec, NEW_TEMPLATE)

    def validate_update(self, ctx: Context, obj: StatefulSet, old: StatefulSet) -> Iterable[FieldError]:
        yield from _validate_spec_update(obj.spec, old.spec)
        for field in _FIXED:
            yield from validate_immutable(getattr(obj.spec, field), getattr(old.spec, field), f"spec.{field}")

    def warnings(self, ctx: Context, obj: StatefulSet, old: StatefulSet | None) -> Iterable[str]:
        yield from super().warnings(ctx, obj, old)
        for index, claim in enumerate(obj.spec.volumeClaimTemplates):
            path = f"spec.volumeClaimTemplates[{index}]"
            yield from claim_warnings(claim.spec, path if old is None else f"{path}.Spec")
        if (obj.spec.revisionHistoryLimit or 0) < 0:
            yield _KEEPS_ALL


class StatefulSetStatusStrategy(StatusStrategy):
    def validate_update(self, ctx: Context, obj: StatefulSet, old: StatefulSet) -> Iterable[FieldError]:
        parts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        yield from validate_non_negative_counts(
            obj.status, ("replicas", *parts, "observedGeneration", "collisionCount")
        )
        yield from validate_counts_at_most_replicas(obj.status, parts)
        yield from validate_available_at_most_ready(obj.status, ready="status.readyReplicas")
        yield from validate_collision_count(obj.status, old.status)


# -- defaults ----------------------------------------------------------------------------------------------------------


def _default_spec(spec: StatefulSetSpec) -> None:
    default_template(spec.template)
    for claim in spec.volumeClaimTemplates:
        default_claim(claim)
    spec.podManagementPolicy = spec.podManagementPolicy or _ORDERED
    _default_update(spec.updateStrategy)
    policy = spec.persistentVolumeClaimRetentionPolicy or StatefulSetPersistentVolumeClaimRetentionPolicy()
    policy.whenDeleted = policy.whenDeleted or _RETAIN
    policy.whenScaled = policy.whenScaled or _RETAIN
    spec.persistentVolumeClaimRetentionPolicy = policy
    if spec.replicas is None:
        spec.replicas = 1
    if spec.revisionHistoryLimit is None:
        spec.revisionHistoryLimit = _HISTORY


def _default_update(strategy: StatefulSetUpdateStrategy) -> None:
    if not strategy.type:
        strategy.type = _ROLLING
        strategy.rollingUpdate = strategy.rollingUpdate or RollingUpdateStatefulSetStrategy()
    update = strategy.rollingUpdate
    if strategy.type == _ROLLING and update is not None and update.partition is None:
        update.partition = 0


# -- validation --------------------------------------------------------------------------------------------------------


def _validate_spec_update(spec: StatefulSetSpec, old: StatefulSetSpec) -> FieldErrors:
    """Yield the errors of an update; the pod template is not validated if the old spec is invalid already."""
    options = update_options(old.template)
    errors = list(_validate_spec(spec, options, is_new=False))
    if errors and any(_validate_spec(old, options, is_new=False)):
        errors = list(_validate_spec(spec, options, is_new=False, checks_template=False))
    yield from errors


def _validate_spec(
    spec: StatefulSetSpec, options: PodValidationOptions, *, is_new: bool = True, checks_template: bool = True
) -> FieldErrors:
    if spec.podManagementPolicy not in (_ORDERED, _PARALLEL):
        text = f"must be '{_ORDERED}' or '{_PARALLEL}'"
        yield FieldError.invalid("spec.podManagementPolicy", spec.podManagementPolicy, text)
    yield from _validate_update_strategy(spec.updateStrategy, "spec.updateStrategy")
    policy = spec.persistentVolumeClaimRetentionPolicy
    if policy is not None:
        path = "spec.persistentVolumeClaimRetentionPolicy"
        yield from validate_optional_one_of(policy.whenDeleted, (_RETAIN, _DELETE), f"{path}.whenDeleted")
        yield from validate_optional_one_of(policy.whenScaled, (_RETAIN, _DELETE), f"{path}.whenScaled")
    for index, claim in enumerate(spec.volumeClaimTemplates if is_new else ()):
        yield from validate_claim_spec(claim.spec, f"spec.volumeClaimTemplates[{index}].spec")
    yield from validate_non_negative(spec.replicas or 0, "spec.replicas")
    yield from validate_non_negative(spec.minReadySeconds, "spec.minReadySeconds")
    if spec.ordinals is not None:
        yield from validate_non_negative(spec.ordinals.start, "spec.ordinals.start")
    if is_new and spec.serviceName:
        yield from validate_dns_label(spec.serviceName, "spec.serviceName")
    yield from _validate_template(spec, options, checks_template)


def _validate_update_strategy(strategy: StatefulSetUpdateStrategy, path: str) -> FieldErrors:
    update = strategy.rollingUpdate
    if strategy.type not in (_ROLLING, _ON_DELETE):
        yield FieldError.invalid(
            path, encode_error_value(_to_internal_strategy(strategy)), f"must be '{_ROLLING}' or '{_ON_DELETE}'"
        )
    elif update is None:
        return
    elif strategy.type == _ROLLING:
        yield from validate_non_negative(update.partition or 0, f"{path}.rollingUpdate.partition")
        if update.maxUnavailable is not None:
            yield from _validate_max_unavailable(update.maxUnavailable, f"{path}.rollingUpdate.maxUnavailable")
    else:
        text = f"only allowed for updateStrategy '{_ROLLING}'"
        yield FieldError.invalid(
            f"{path}.rollingUpdate", encode_error_value(_to_internal_strategy(strategy).rollingUpdate), text
        )


def _validate_max_unavailable(value: IntOrString, path: str) -> FieldErrors:
    yield from validate_int_or_percent(value, path)
    if is_zero(value):
        yield FieldError.invalid(path, value, "cannot be 0")
    yield from validate_at_most_100_percent(value, path)


def _to_internal_strategy(strategy: StatefulSetUpdateStrategy) -> StatefulSetUpdateStrategy:
    """Return the strategy with zero for an unset partition, as kube-apiserver prints it."""
    update = strategy.rollingUpdate
    if update is None:
        return strategy
    rolling_update = msgspec.structs.replace(update, partition=update.partition or 0)
    return StatefulSetUpdateStrategy(type=strategy.type, rollingUpdate=rolling_update)


def _validate_template(spec: StatefulSetSpec, options: PodValidationOptions, checks_template: bool) -> FieldErrors:
    path = "spec.template"
    yield from validate_required_selector(spec.selector, "spec.selector", of="statefulset")
    selected = parse_selector(spec.selector)
    if selected is None:
        yield FieldError.invalid("spec.selector", spec.selector, "")
    else:
        template = _build_effective_template(spec)
        yield from validate_selector_matches_template(selected, template, path)
        if checks_template:
            yield from validate_pod_template_spec(template, options, path)
        yield from validate_template_metadata(template, options, path)
    yield from validate_template_never_completes(spec.template, path, of="StatefulSet")


def _build_effective_template(spec: StatefulSetSpec) -> PodTemplateSpec:
    """Return the template with a volume per claim template, without hostname and subdomain, which the set assigns."""
    template, claims = spec.template, spec.volumeClaimTemplates
    if not (claims or template.spec.hostname or template.spec.subdomain):
        return template
    volumes = {claim.metadata.name: _volume(claim.metadata.name) for claim in claims}
    others = [volume for volume in template.spec.volumes if volume.name not in volumes]
    run = msgspec.structs.replace(template.spec, hostname="", subdomain="", volumes=[*volumes.values(), *others])
    return msgspec.structs.replace(template, spec=run)


def _volume(name: str) -> Volume:
    return Volume(name=name, persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName=name))


_strategy = StatefulSetStrategy()
_scaled = ScaleSubresource(
    strategy=_strategy, selector=lambda stateful_set: selector_expression(stateful_set.spec.selector)
)
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": StatefulSetStatusStrategy(_strategy)})
HANDLERS: Handlers = {"scale": _scaled.serve}
