"""PodDisruptionBudget: how many pods of an application must stay available. `pods.eviction` applies it."""

from collections.abc import Iterable

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.types.meta_v1 import LabelSelector, LabelSelectorRequirement
from sampan.api.types.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import FieldErrors, validate_conditions, validate_optional_one_of
from sampan.apiserver.registry.workloads import (
    validate_at_most_100_percent,
    validate_int_or_percent,
    validate_non_negative_counts,
    validate_selector,
)
from sampan.apiserver.tables.columns import AGE, NAME

_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_OLD_MARK = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"
"""A label by which policy/v1beta1 distinguished an empty selector that matches all pods from one that matches none."""
_MARKED = tuple(
    LabelSelector(matchExpressions=[LabelSelectorRequirement(key=_OLD_MARK, operator=operator)])
    for operator in ("Exists", "DoesNotExist")
)


class PodDisruptionBudgetStrategy(Strategy):
    allow_unconditional_update = False
    metadata_last = True
    counts_generation = True
    columns = (
        NAME,
        Column(
            "Min Available",
            lambda budget, now: _amount(budget.spec.minAvailable),
            description="The minimum number of pods that must be available.",
        ),
        Column(
            "Max Unavailable",
            lambda budget, now: _amount(budget.spec.maxUnavailable),
            description="The maximum number of pods that may be unavailable.",
        ),
        Column(
            "Allowed Disruptions",
            lambda budget, now: budget.status.disruptionsAllowed,
            type="integer",
            description="Calculated number of pods that may be disrupted at this time.",
        ),
        AGE,
    )

    def validate_name(self, name: str, is_prefix: bool) -> list[str]:
        return names.path_segment(name, prefix=is_prefix)

    def default(self, obj: PodDisruptionBudget) -> None:
        selector = obj.spec.selector
        if selector is not None and selector not in _MARKED:
            selector.matchLabels.pop(_OLD_MARK, None)
            selector.matchExpressions = [term for term in selector.matchExpressions if term.key != _OLD_MARK]

    def prepare_for_create(self, ctx: Context, obj: PodDisruptionBudget) -> None:
        obj.status = type(obj.status)()

    def validate_create(self, ctx: Context, obj: PodDisruptionBudget) -> Iterable[FieldError]:
        return _validate_spec(obj.spec, None)

    def prepare_for_update(self, ctx: Context, obj: PodDisruptionBudget, old: PodDisruptionBudget) -> None:
        obj.status = old.status

    def validate_update(self, ctx: Context, obj: PodDisruptionBudget, old: PodDisruptionBudget) -> Iterable[FieldError]:
        return _validate_spec(obj.spec, old.spec)


class PodDisruptionBudgetStatusStrategy(StatusStrategy):
    def validate_update(self, ctx: Context, obj: PodDisruptionBudget, old: PodDisruptionBudget) -> Iterable[FieldError]:
        yield from validate_conditions(obj.status.conditions, "status.conditions")
        fields = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        yield from validate_non_negative_counts(obj.status, fields)


def _validate_spec(spec: PodDisruptionBudgetSpec, old: PodDisruptionBudgetSpec | None) -> FieldErrors:
    if spec.minAvailable is not None and spec.maxUnavailable is not None:
        yield FieldError.invalid("spec", encode_error_value(spec), "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        if (value := getattr(spec, field)) is not None:
            yield from validate_int_or_percent(value, f"spec.{field}")
            yield from validate_at_most_100_percent(value, f"spec.{field}")
    yield from validate_selector(spec.selector, old.selector if old is not None else None, "spec.selector")
    yield from validate_optional_one_of(spec.unhealthyPodEvictionPolicy, _POLICIES, "spec.unhealthyPodEvictionPolicy")


def _amount(value: int | str | None) -> str:
    return "N/A" if value is None else str(value)


_strategy = PodDisruptionBudgetStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": PodDisruptionBudgetStatusStrategy(_strategy)})
