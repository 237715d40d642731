"""Validation of the spec of a job or of the job template of a cron job."""

from sampan.api.domains import domain_prefixed_path
from sampan.api.faults import FieldError
from sampan.api.types.batch_v1 import JobSpec
from sampan.apiserver.registry.kinds.jobs.policies import validate_failure_policy, validate_success_policy
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_non_negative, validate_optional_one_of
from sampan.apiserver.registry.podspec.internal_view import shown
from sampan.apiserver.registry.podspec.template import validate_pod_template_spec
from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

INDEXED = "Indexed"
_MODES = ("NonIndexed", INDEXED)
_MANAGER_MOST = 63
_MANY, _HIGH = 100_000, 10_000
"""Limits of indexed jobs: parallelism and maxFailedIndexes are at most `_MANY`, and at most `_HIGH` if there are more
than `_MANY` completions with a backoffLimitPerIndex.
"""
_NEEDS_INDEXES = "requires indexed completion mode"
_NUMBERS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")


def validate_job_spec(spec: JobSpec, options: PodValidationOptions, at: str) -> FieldErrors:
    """Yield all errors of the spec except those of the selector."""
    yield from _validate_numbers(spec, at)
    if spec.managedBy is not None:
        yield from domain_prefixed_path(spec.managedBy, f"{at}.managedBy")
        if len(spec.managedBy.encode()) > _MANAGER_MOST:
            yield FieldError.too_long(f"{at}.managedBy", _MANAGER_MOST)
    yield from validate_optional_one_of(spec.completionMode, _MODES, f"{at}.completionMode")
    if spec.completionMode == INDEXED:
        yield from _validate_indexed_job(spec, at)
    elif spec.completionMode in (None, _MODES[0]):
        yield from _validate_non_indexed_job(spec, at)
    yield from _validate_policies(spec, at)
    yield from validate_pod_template_spec(spec.template, options, f"{at}.template")
    yield from _validate_restart_policy(spec, f"{at}.template.spec.restartPolicy")


def _validate_numbers(spec: JobSpec, at: str) -> FieldErrors:
    for field in (*_NUMBERS, "backoffLimitPerIndex", "maxFailedIndexes"):
        yield from validate_non_negative(getattr(spec, field) or 0, f"{at}.{field}")
    if spec.maxFailedIndexes is not None and spec.backoffLimitPerIndex is None:
        yield FieldError.required(f"{at}.backoffLimitPerIndex", "when maxFailedIndexes is specified")


def _validate_indexed_job(spec: JobSpec, at: str) -> FieldErrors:
    completions, parallelism, failed = spec.completions, spec.parallelism or 0, spec.maxFailedIndexes
    if completions is None:
        yield FieldError.required(f"{at}.completions", f"when completion mode is {INDEXED}")
    if parallelism > _MANY:
        text = f"must be less than or equal to {_MANY} when completion mode is {INDEXED}"
        yield FieldError.invalid(f"{at}.parallelism", parallelism, text)
    if failed is not None and completions is not None and failed > completions:
        yield FieldError.invalid(f"{at}.maxFailedIndexes", failed, "must be less than or equal to completions")
    if failed is not None and failed > _MANY:
        yield FieldError.invalid(f"{at}.maxFailedIndexes", failed, f"must be less than or equal to {_MANY}")
    if completions is not None and completions > _MANY and spec.backoffLimitPerIndex is not None:
        yield from _validate_index_limits(parallelism, failed, at)


def _validate_index_limits(parallelism: int, failed: int | None, at: str) -> FieldErrors:
    if failed is None:
        text = f"must be specified when completions is above {_MANY}"
        yield FieldError.required(f"{at}.maxFailedIndexes", text)
    for field, value in (("parallelism", parallelism), ("maxFailedIndexes", failed or 0)):
        if value > _HIGH:
            text = f"when completions are above {_MANY} and used with backoff limit per index"
            yield FieldError.invalid(f"{at}.{field}", value, f"must be less than or equal to {_HIGH} {text}")


def _validate_non_indexed_job(spec: JobSpec, at: str) -> FieldErrors:
    for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if (value := getattr(spec, field)) is not None:
            yield FieldError.invalid(f"{at}.{field}", value, _NEEDS_INDEXES)


def _validate_policies(spec: JobSpec, at: str) -> FieldErrors:
    if spec.podFailurePolicy is not None:
        yield from validate_failure_policy(spec, f"{at}.podFailurePolicy")
    if spec.successPolicy is not None:
        path = f"{at}.successPolicy"
        if spec.completionMode != INDEXED:
            yield FieldError.invalid(path, shown(spec.successPolicy), _NEEDS_INDEXES)
        else:
            yield from validate_success_policy(spec, path)
    allowed = ("Failed",) if spec.podFailurePolicy is not None else ("Failed", "TerminatingOrFailed")
    yield from validate_optional_one_of(spec.podReplacementPolicy, allowed, f"{at}.podReplacementPolicy")


def _validate_restart_policy(spec: JobSpec, at: str) -> FieldErrors:
    policy = spec.template.spec.restartPolicy
    if policy in ("Always", ""):
        yield FieldError.required(at, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield FieldError.not_supported(at, policy, ("OnFailure", "Never"))
    elif policy != "Never" and spec.podFailurePolicy is not None:
        text = 'only "Never" is supported when podFailurePolicy is specified'
        yield FieldError.invalid(at, policy, text)
