"""Validation of the pod failure policy and the success policy of a job."""

from collections.abc import Collection, Sequence

from sampan.api import gotext
from sampan.api.faults import OMITTED, FieldError
from sampan.api.types.batch_v1 import (
    JobSpec,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
    SuccessPolicyRule,
)
from sampan.apiserver.registry.kinds.jobs import indexes
from sampan.apiserver.registry.podspec.formats import Faults, non_negative, qualified

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_RULES_MOST, _VALUES_MOST, _PATTERNS_MOST = 20, 255, 20
_INDEXES_MOST = 64 * 1024


def failure_policy_faults(spec: JobSpec, at: str) -> Faults:
    rules = (spec.podFailurePolicy.rules or []) if spec.podFailurePolicy is not None else []
    if len(rules) > _RULES_MOST:
        yield FieldError.too_many(f"{at}.rules", len(rules), _RULES_MOST)
    template = spec.template.spec
    names = {container.name for container in (*(template.containers or ()), *template.initContainers)}
    for index, rule in enumerate(rules):
        yield from _rule(rule, spec, names, f"{at}.rules[{index}]")


def _rule(rule: PodFailurePolicyRule, spec: JobSpec, names: Collection[str], at: str) -> Faults:
    if rule.action == "FailIndex" and spec.backoffLimitPerIndex is None:
        text = "requires the backoffLimitPerIndex to be set"
        yield FieldError.invalid(f"{at}.action", rule.action, text)
    yield from _chosen(rule.action, _ACTIONS, f"{at}.action")
    if rule.onExitCodes is not None:
        yield from _exit_codes(rule.onExitCodes, names, f"{at}.onExitCodes")
    if rule.onPodConditions:
        yield from _conditions(rule.onPodConditions, f"{at}.onPodConditions")
    if rule.onExitCodes is not None and rule.onPodConditions:
        text = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield FieldError.invalid(at, OMITTED, text)
    if rule.onExitCodes is None and not rule.onPodConditions:
        yield FieldError.invalid(at, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required")


def _chosen(value: str, allowed: Sequence[str], at: str) -> Faults:
    if not value:
        yield FieldError.required(at, f"valid values: [{' '.join(map(gotext.quote, allowed))}]")
    elif value not in allowed:
        yield FieldError.not_supported(at, value, allowed)


def _conditions(patterns: Sequence[PodFailurePolicyOnPodConditionsPattern], at: str) -> Faults:
    if len(patterns) > _PATTERNS_MOST:
        yield FieldError.too_many(at, len(patterns), _PATTERNS_MOST)
    for index, pattern in enumerate(patterns):
        yield from qualified(pattern.type, f"{at}[{index}].type")
        yield from _chosen(pattern.status, _STATUSES, f"{at}[{index}].status")


def _exit_codes(codes: PodFailurePolicyOnExitCodesRequirement, names: Collection[str], at: str) -> Faults:
    yield from _chosen(codes.operator, _OPERATORS, f"{at}.operator")
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


def success_policy_faults(spec: JobSpec, at: str) -> Faults:
    rules = (spec.successPolicy.rules or []) if spec.successPolicy is not None else []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        yield FieldError.required(f"{at}.rules", text)
    if len(rules) > _RULES_MOST:
        yield FieldError.too_many(f"{at}.rules", len(rules), _RULES_MOST)
    for index, rule in enumerate(rules):
        yield from _success_rule(rule, spec.completions or 0, f"{at}.rules[{index}]")


def _success_rule(rule: SuccessPolicyRule, completions: int, at: str) -> Faults:
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
        yield from _success_count(rule, completions, total, f"{at}.succeededCount")


def _success_count(rule: SuccessPolicyRule, completions: int, total: int, at: str) -> Faults:
    count = rule.succeededCount or 0
    yield from non_negative(count, at)
    if count > completions:
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        yield FieldError.invalid(at, count, text)
    if rule.succeededIndexes is not None and count > total:
        what = "the number of indexes in the specified succeededIndexes field"
        yield FieldError.invalid(at, count, f"must be less than or equal to {total} ({what})")
