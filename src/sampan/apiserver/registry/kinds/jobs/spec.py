"""Validation of the spec of a job or of the job template of a cron job, and of its updates."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from sampan.api.field_errors import OMITTED, FieldError
from sampan.api.go_compat import gotext
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.names import domain_prefixed_path
from sampan.api.semantics.conditions import is_true
from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.batch_v1 import (
    Job,
    JobSpec,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
    SuccessPolicyRule,
)
from sampan.api.types.core_v1 import Affinity, Container, PodSpec
from sampan.apiserver.registry.kinds.jobs.indexes import IndexesError, count_indexes
from sampan.apiserver.registry.podspec.spec import validate_pod_template_spec
from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_non_negative,
    validate_optional_one_of,
    validate_qualified_name,
)
from sampan.apiserver.registry.workloads import IMMUTABLE, validate_immutable_selector

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MAX_RULES, _MAX_EXIT_CODES, _MAX_PATTERNS = 20, 255, 20
_MAX_INDEXES_LENGTH = 64 * 1024


def validate_failure_policy(spec: JobSpec, path: str) -> FieldErrors:
    rules = (spec.podFailurePolicy.rules or []) if spec.podFailurePolicy is not None else []
    if len(rules) > _MAX_RULES:
        yield FieldError.too_many(f"{path}.rules", len(rules), _MAX_RULES)
    template = spec.template.spec
    names = {container.name for container in init_and_main_containers(template)}
    for index, rule in enumerate(rules):
        yield from _validate_failure_rule(rule, spec, names, f"{path}.rules[{index}]")


def _validate_failure_rule(rule: PodFailurePolicyRule, spec: JobSpec, names: Collection[str], path: str) -> FieldErrors:
    if rule.action == "FailIndex" and spec.backoffLimitPerIndex is None:
        text = "requires the backoffLimitPerIndex to be set"
        yield FieldError.invalid(f"{path}.action", rule.action, text)
    yield from _validate_one_of(rule.action, _ACTIONS, f"{path}.action")
    if rule.onExitCodes is not None:
        yield from _validate_exit_codes(rule.onExitCodes, names, f"{path}.onExitCodes")
    if rule.onPodConditions:
        yield from _validate_pod_conditions(rule.onPodConditions, f"{path}.onPodConditions")
    if rule.onExitCodes is not None and rule.onPodConditions:
        text = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield FieldError.invalid(path, OMITTED, text)
    if rule.onExitCodes is None and not rule.onPodConditions:
        yield FieldError.invalid(path, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required")


def _validate_one_of(value: str, allowed: Sequence[str], path: str) -> FieldErrors:
    if not value:
        yield FieldError.required(path, f"valid values: [{' '.join(map(gotext.quote, allowed))}]")
    elif value not in allowed:
        yield FieldError.not_supported(path, value, allowed)


def _validate_pod_conditions(patterns: Sequence[PodFailurePolicyOnPodConditionsPattern], path: str) -> FieldErrors:
    if len(patterns) > _MAX_PATTERNS:
        yield FieldError.too_many(path, len(patterns), _MAX_PATTERNS)
    for index, pattern in enumerate(patterns):
        yield from validate_qualified_name(pattern.type, f"{path}[{index}].type")
        yield from _validate_one_of(pattern.status, _STATUSES, f"{path}[{index}].status")


def _validate_exit_codes(
    codes: PodFailurePolicyOnExitCodesRequirement, names: Collection[str], field_path: str
) -> FieldErrors:
    yield from _validate_one_of(codes.operator, _OPERATORS, f"{field_path}.operator")
    if codes.containerName is not None and codes.containerName not in names:
        text = "must be one of the container or initContainer names in the pod template"
        yield FieldError.invalid(f"{field_path}.containerName", codes.containerName, text)
    values, path = codes.values or [], f"{field_path}.values"
    if not values:
        yield FieldError.invalid(path, codes.values, "at least one value is required")
    elif len(values) > _MAX_EXIT_CODES:
        yield FieldError.too_many(path, len(values), _MAX_EXIT_CODES)
    exit_codes: set[int] = set()
    for index, value in enumerate(values):
        if codes.operator == "In" and value == 0:
            yield FieldError.invalid(f"{path}[{index}]", value, "must not be 0 for the In operator")
        if value in exit_codes:
            yield FieldError.duplicate(f"{path}[{index}]", value)
        exit_codes.add(value)
    if values != sorted(values):
        yield FieldError.invalid(path, values, "must be ordered")


def validate_success_policy(spec: JobSpec, path: str) -> FieldErrors:
    rules = (spec.successPolicy.rules or []) if spec.successPolicy is not None else []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        yield FieldError.required(f"{path}.rules", text)
    if len(rules) > _MAX_RULES:
        yield FieldError.too_many(f"{path}.rules", len(rules), _MAX_RULES)
    for index, rule in enumerate(rules):
        yield from _validate_success_rule(rule, spec.completions or 0, f"{path}.rules[{index}]")


def _validate_success_rule(rule: SuccessPolicyRule, completions: int, field_path: str) -> FieldErrors:
    if rule.succeededCount is None and rule.succeededIndexes is None:
        text = "at least one of succeededCount or succeededIndexes must be specified"
        yield FieldError.required(field_path, text)
    total = 0
    if rule.succeededIndexes is not None:
        path = f"{field_path}.succeededIndexes"
        if len(rule.succeededIndexes) > _MAX_INDEXES_LENGTH:
            yield FieldError.too_long(path, _MAX_INDEXES_LENGTH)
        try:
            total = count_indexes(rule.succeededIndexes, completions)
        except IndexesError as error:
            yield FieldError.invalid(path, rule.succeededIndexes, f"error parsing succeededIndexes: {error}")
    if rule.succeededCount is not None:
        yield from _validate_success_count(rule, completions, total, f"{field_path}.succeededCount")


def _validate_success_count(rule: SuccessPolicyRule, completions: int, total: int, path: str) -> FieldErrors:
    count = rule.succeededCount or 0
    yield from validate_non_negative(count, path)
    if count > completions:
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        yield FieldError.invalid(path, count, text)
    if rule.succeededIndexes is not None and count > total:
        bound_text = "the number of indexes in the specified succeededIndexes field"
        yield FieldError.invalid(path, count, f"must be less than or equal to {total} ({bound_text})")


INDEXED = "Indexed"
_MODES = ("NonIndexed", INDEXED)
_MAX_MANAGER_BYTES = 63
_MAX_INDEXED_COUNT, _MAX_COUNT_AT_HIGH_COMPLETIONS = 100_000, 10_000
"""Limits of indexed jobs: parallelism and maxFailedIndexes are at most `_MAX_INDEXED_COUNT`, and at most
`_MAX_COUNT_AT_HIGH_COMPLETIONS` if there are more than `_MAX_INDEXED_COUNT` completions with a backoffLimitPerIndex.
"""
_NEEDS_INDEXES = "requires indexed completion mode"
_NUMBERS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")


def validate_job_spec(spec: JobSpec, options: PodValidationOptions, path: str) -> FieldErrors:
    """Yield all errors of the spec except those of the selector."""
    yield from _validate_numbers(spec, path)
    if spec.managedBy is not None:
        yield from domain_prefixed_path(spec.managedBy, f"{path}.managedBy")
        if len(spec.managedBy.encode()) > _MAX_MANAGER_BYTES:
            yield FieldError.too_long(f"{path}.managedBy", _MAX_MANAGER_BYTES)
    yield from validate_optional_one_of(spec.completionMode, _MODES, f"{path}.completionMode")
    if spec.completionMode == INDEXED:
        yield from _validate_indexed_job(spec, path)
    elif spec.completionMode in (None, _MODES[0]):
        yield from _validate_non_indexed_job(spec, path)
    yield from _validate_policies(spec, path)
    yield from validate_pod_template_spec(spec.template, options, f"{path}.template")
    yield from _validate_restart_policy(spec, f"{path}.template.spec.restartPolicy")


def _validate_numbers(spec: JobSpec, path: str) -> FieldErrors:
    for field in (*_NUMBERS, "backoffLimitPerIndex", "maxFailedIndexes"):
        yield from validate_non_negative(getattr(spec, field) or 0, f"{path}.{field}")
    if spec.maxFailedIndexes is not None and spec.backoffLimitPerIndex is None:
        yield FieldError.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")


def _validate_indexed_job(spec: JobSpec, path: str) -> FieldErrors:
    completions, parallelism, failed = spec.completions, spec.parallelism or 0, spec.maxFailedIndexes
    if completions is None:
        yield FieldError.required(f"{path}.completions", f"when completion mode is {INDEXED}")
    if parallelism > _MAX_INDEXED_COUNT:
        text = f"must be less than or equal to {_MAX_INDEXED_COUNT} when completion mode is {INDEXED}"
        yield FieldError.invalid(f"{path}.parallelism", parallelism, text)
    if failed is not None and completions is not None and failed > completions:
        yield FieldError.invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
    if failed is not None and failed > _MAX_INDEXED_COUNT:
        yield FieldError.invalid(
            f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MAX_INDEXED_COUNT}"
        )
    if completions is not None and completions > _MAX_INDEXED_COUNT and spec.backoffLimitPerIndex is not None:
        yield from _validate_index_limits(parallelism, failed, path)


def _validate_index_limits(parallelism: int, failed: int | None, path: str) -> FieldErrors:
    if failed is None:
        text = f"must be specified when completions is above {_MAX_INDEXED_COUNT}"
        yield FieldError.required(f"{path}.maxFailedIndexes", text)
    for field, value in (("parallelism", parallelism), ("maxFailedIndexes", failed or 0)):
        if value > _MAX_COUNT_AT_HIGH_COMPLETIONS:
            text = f"when completions are above {_MAX_INDEXED_COUNT} and used with backoff limit per index"
            yield FieldError.invalid(
                f"{path}.{field}", value, f"must be less than or equal to {_MAX_COUNT_AT_HIGH_COMPLETIONS} {text}"
            )


def _validate_non_indexed_job(spec: JobSpec, path: str) -> FieldErrors:
    for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if (value := getattr(spec, field)) is not None:
            yield FieldError.invalid(f"{path}.{field}", value, _NEEDS_INDEXES)


def _validate_policies(spec: JobSpec, field_path: str) -> FieldErrors:
    if spec.podFailurePolicy is not None:
        yield from validate_failure_policy(spec, f"{field_path}.podFailurePolicy")
    if spec.successPolicy is not None:
        path = f"{field_path}.successPolicy"
        if spec.completionMode != INDEXED:
            yield FieldError.invalid(path, encode_error_value(spec.successPolicy), _NEEDS_INDEXES)
        else:
            yield from validate_success_policy(spec, path)
    allowed = ("Failed",) if spec.podFailurePolicy is not None else ("Failed", "TerminatingOrFailed")
    yield from validate_optional_one_of(spec.podReplacementPolicy, allowed, f"{field_path}.podReplacementPolicy")


def _validate_restart_policy(spec: JobSpec, path: str) -> FieldErrors:
    policy = spec.template.spec.restartPolicy
    if policy in ("Always", ""):
        yield FieldError.required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield FieldError.not_supported(path, policy, ("OnFailure", "Never"))
    elif policy != "Never" and spec.podFailurePolicy is not None:
        text = 'only "Never" is supported when podFailurePolicy is specified'
        yield FieldError.invalid(path, policy, text)


_PLACEMENT = ("nodeSelector", "tolerations", "schedulingGates")
"""The scheduling fields of a pod template that are mutable; node affinity is handled apart."""


def validate_job_spec_update(spec: JobSpec, old: Job) -> FieldErrors:
    yield from _validate_completions(spec, old.spec)
    yield from validate_immutable_selector(spec.selector, old.spec.selector, "spec.selector")
    yield from _validate_template_update(spec, old)
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        yield from _validate_immutable(getattr(spec, field), getattr(old.spec, field), f"spec.{field}")


def _validate_immutable(value: Any, old: Any, path: str) -> FieldErrors:
    if value != old:
        yield FieldError.invalid(
            path, encode_error_value(value) if isinstance(value, msgspec.Struct) else value, IMMUTABLE
        )


def _validate_completions(spec: JobSpec, old: JobSpec) -> FieldErrors:
    """Yield an error if completions changed, unless an indexed job is scaled together with parallelism."""
    path = "spec.completions"
    if spec.completionMode != INDEXED:
        yield from _validate_immutable(spec.completions, old.completions, path)
    elif spec.completions is not None and spec.completions not in (old.completions, spec.parallelism):
        text = "can only be modified in tandem with spec.parallelism"
        yield FieldError.invalid(path, spec.completions, text)


def _validate_template_update(spec: JobSpec, old: Job) -> FieldErrors:
    template, before = spec.template, old.spec.template
    if template == before:
        return
    if not _is_at_rest(old):
        yield FieldError.invalid("spec.template", encode_error_value(template), IMMUTABLE)
    elif template.spec != _with_mutable_fields(before.spec, template.spec):
        yield FieldError.invalid("spec.template.spec", encode_error_value(template.spec), IMMUTABLE)


def _is_at_rest(job: Job) -> bool:
    """Whether the job is suspended and has no active pods."""
    return job.spec.suspend is True and is_true(job.status.conditions, "Suspended") and job.status.active == 0


def _with_mutable_fields(old: PodSpec, new: PodSpec) -> PodSpec:
    """Return the old spec with all mutable fields of the new one: scheduling directives and resources."""
    return msgspec.structs.replace(
        old,
        affinity=_affinity(old.affinity, new.affinity),
        containers=_with_resources(old.containers or [], new.containers or []),
        initContainers=_with_resources(old.initContainers, new.initContainers),
        **{field: getattr(new, field) for field in _PLACEMENT},
    )


def _affinity(old: Affinity | None, new: Affinity | None) -> Affinity | None:
    node_affinity = new.nodeAffinity if new is not None else None
    affinity = msgspec.structs.replace(old or Affinity(), nodeAffinity=node_affinity)
    return None if new is None and affinity == Affinity() else affinity


def _with_resources(old: list[Container], new: list[Container]) -> list[Container]:
    if len(old) != len(new):
        return old
    return [
        msgspec.structs.replace(before, resources=after.resources) if before.name == after.name else before
        for before, after in zip(old, new, strict=True)
    ]
