"""Validation of the pod failure policy and the success policy of a job."""

from collections.abc import Collection, Sequence

from sampan.api import gotext
from sampan.api.faults import OMITTED, FieldError
from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.batch_v1 import (
    JobSpec,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
    SuccessPolicyRule,
)
from sampan.apiserver.registry.kinds.jobs import indexes
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_non_negative, validate_qualified_name

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_RULES_MOST, _VALUES_MOST, _PATTERNS_MOST = 20, 255, 20
_INDEXES_MOST = 64 * 1024


def validate_failure_policy(spec: JobSpec, at: str) -> FieldErrors:
    rules = (spec.podFailurePolicy.rules or []) if spec.podFailurePolicy is not None else []
    if len(rules) > _RULES_MOST:
        yield FieldError.too_many(f"{at}.rules", len(rules), _RULES_MOST)
    template = spec.template.spec
    names = {container.name for container in init_and_main_containers(template)}
    for index, rule in enumerate(rules):
        yield from _validate_failure_rule(rule, spec, names, f"{at}.rules[{index}]")


def _validate_failure_rule(rule: PodFailurePolicyRule, spec: JobSpec, names: Collection[str], at: str) -> FieldErrors:
    if rule.action == "FailIndex" and spec.backoffLimitPerIndex is None:
        text = "requires the backoffLimitPerIndex to be set"
        yield FieldError.invalid(f"{at}.action", rule.action, text)
    yield from _validate_one_of(rule.action, _ACTIONS, f"{at}.action")
    if rule.onExitCodes is not None:
        yield from _validate_exit_codes(rule.onExitCodes, names, f"{at}.onExitCodes")
    if rule.onPodConditions:
        yield from _validate_pod_conditions(rule.onPodConditions, f"{at}.onPodConditions")
    if rule.onExitCodes is not None and rule.onPodConditions:
        text = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield FieldError.invalid(at, OMITTED, text)
    if rule.onExitCodes is None and not rule.onPodConditions:
        yield FieldError.invalid(at, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required")


def _validate_one_of(value: str, allowed: Sequence[str], at: str) -> FieldErrors:
    if not value:
        yield FieldError.required(at, f"valid values: [{' '.join(map(gotext.quote, allowed))}]")
    elif value not in allowed:
        yield FieldError.not_supported(at, value, allowed)


def _validate_pod_conditions(patterns: Sequence[PodFailurePolicyOnPodConditionsPattern], at: str) -> FieldErrors:
    if len(patterns) > _PATTERNS_MOST:
        yield FieldError.too_many(at, len(patterns), _PATTERNS_MOST)
    for index, pattern in enumerate(patterns):
        yield from validate_qualified_name(pattern.type, f"{at}[{index}].type")
        yield from _validate_one_of(pattern.status, _STATUSES, f"{at}[{index}].status")


def _validate_exit_codes(codes: PodFailurePolicyOnExitCodesRequirement, names: Collection[str], at: str) -> FieldErrors:
    yield from _validate_one_of(codes.operator, _OPERATORS, f"{at}.operator")
    if codes.containerName is not None and codes.containerName not in names:
        text = "must be one of the container or initContainer names in the pod template"
        yield FieldError.invalid(f"{at}.containerName", codes.containerName, text)
    values, path = codes.values or [], f"{at}.values"
    if not values:
        yield FieldError.invalid(path, codes.values, "at least one value is required")
    elif len(values) > _VALUES_MOST:
        yield FieldError.too_many(path, len(values), _VALUES_MOST)
    exit_codes: set[int] = set()
    for index, value in enumerate(values):
        if codes.operator == "In" and value == 0:
            yield FieldError.invalid(f"{path}[{index}]", value, "must not be 0 for the In operator")
        if value in exit_codes:
            yield FieldError.duplicate(f"{path}[{index}]", value)
        exit_codes.add(value)
    if values != sorted(values):
        yield FieldError.invalid(path, values, "must be ordered")


def validate_success_policy(spec: JobSpec, at: str) -> FieldErrors:
    rules = (spec.successPolicy.rules or []) if spec.successPolicy is not None else []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        yield FieldError.required(f"{at}.rules", text)
    if len(rules) > _RULES_MOST:
        yield FieldError.too_many(f"{at}.rules", len(rules), _RULES_MOST)
    for index, rule in enumerate(rules):
        yield from _validate_success_rule(rule, spec.completions or 0, f"{at}.rules[{index}]")


def _validate_success_rule(rule: SuccessPolicyRule, completions: int, at: str) -> FieldErrors:
    if rule.succeededCount is None and rule.succeededIndexes is None:
        text = "at least one of succeededCount or succeededIndexes must be specified"
        yield FieldError.required(at, text)
    total = 0
    if rule.succeededIndexes is not None:
        path = f"{at}.succeededIndexes"
        if len(rule.succeededIndexes) > _INDEXES_MOST:
            yield FieldError.too_long(path, _INDEXES_MOST)
        try:
            total = indexes.count(rule.succeededIndexes, completions)
        except indexes.IndexesError as error:
            yield FieldError.invalid(path, rule.succeededIndexes, f"error parsing succeededIndexes: {error}")
    if rule.succeededCount is not None:
        yield from _validate_success_count(rule, completions, total, f"{at}.succeededCount")


def _validate_success_count(rule: SuccessPolicyRule, completions: int, total: int, at: str) -> FieldErrors:
    count = rule.succeededCount or 0
    yield from validate_non_negative(count, at)
    if count > completions:
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        yield FieldError.invalid(at, count, text)
    if rule.succeededIndexes is not None and count > total:
        what = "the number of indexes in the specified succeededIndexes field"
        yield FieldError.invalid(at, count, f"must be less than or equal to {total} ({what})")
