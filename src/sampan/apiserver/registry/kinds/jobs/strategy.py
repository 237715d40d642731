"""The strategies of jobs and of their status, with default values and the generated selector."""

from collections.abc import Iterable, Iterator

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.semantics.conditions import is_true
from sampan.api.types.batch_v1 import Job, JobSpec
from sampan.api.types.meta_v1 import LabelSelector
from sampan.api.values import ages, times
from sampan.api.values.int_or_string import MAX_INT32
from sampan.apiserver.registry.deletion import DeleteOptions
from sampan.apiserver.registry.kinds.jobs.spec import INDEXED, validate_job_spec, validate_job_spec_update
from sampan.apiserver.registry.podspec.defaults import default_template
from sampan.apiserver.registry.podspec.validation_options import NEW_TEMPLATE, PodValidationOptions
from sampan.apiserver.registry.strategy import Column, Context
from sampan.apiserver.registry.validation import FieldErrors
from sampan.apiserver.registry.workloads import (
    SELECTOR,
    TemplateStrategy,
    container_columns,
    parse_selector,
    update_options,
    validate_selector,
    validate_selector_matches_template,
)
from sampan.apiserver.tables.columns import AGE, NAME

_BACKOFF_LIMIT = 6


def default_job(job: Job) -> None:
    """Apply the defaults of a job.

    A job without labels shares the dict with the pod template's labels, so that generated labels are added to both.
    """
    spec = job.spec
    default_job_template(spec)
    if spec.parallelism is None:
        spec.parallelism = 1
        if spec.completions is None:
            spec.completions = 1
    if spec.backoffLimit is None:
        spec.backoffLimit = _BACKOFF_LIMIT if spec.backoffLimitPerIndex is None else MAX_INT32
    if spec.completionMode is None:
        spec.completionMode = "NonIndexed"
    if spec.suspend is None:
        spec.suspend = False
    if spec.podReplacementPolicy is None:
        spec.podReplacementPolicy = "TerminatingOrFailed" if spec.podFailurePolicy is None else "Failed"
    if spec.manualSelector is None:
        spec.manualSelector = False
    if not job.metadata.labels:
        job.metadata.labels = spec.template.metadata.labels


def default_job_template(spec: JobSpec) -> None:
    """Apply the defaults that a job and the template of a cron job have in common."""
    default_template(spec.template)
    policy = spec.podFailurePolicy
    for rule in (policy.rules or ()) if policy is not None else ():
        for pattern in rule.onPodConditions:
            pattern.status = pattern.status or "True"


UID_LABEL, NAME_LABEL = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
_OLD_UID_LABEL, _OLD_NAME_LABEL = "controller-uid", "job-name"


def generate_selector(job: Job) -> None:
    """Add the generated selector and labels. Existing values are kept, and rejected by validation if they differ."""
    labels, meta = job.spec.template.metadata.labels, job.metadata
    for key in (_OLD_NAME_LABEL, NAME_LABEL):
        labels.setdefault(key, meta.name)
    for key in (_OLD_UID_LABEL, UID_LABEL):
        labels.setdefault(key, meta.uid)
    if job.spec.selector is None:
        job.spec.selector = LabelSelector()
    job.spec.selector.matchLabels.setdefault(UID_LABEL, meta.uid)


def _validate_generated_selector(job: Job) -> FieldErrors:
    """Yield errors unless selector and labels are as generated."""
    selector, meta = job.spec.selector, job.metadata
    if job.spec.manualSelector or selector is None:
        return
    labels = {_OLD_UID_LABEL: meta.uid, _OLD_NAME_LABEL: meta.name, UID_LABEL: meta.uid, NAME_LABEL: meta.name}
    for key, value in labels.items():
        yield from _validate_label(job.spec.template.metadata.labels, key, value)
    selected = parse_selector(selector)
    if selected is not None and not selected.matches(labels):
        yield FieldError.invalid("spec.selector", selector, "`selector` not auto-generated")


def _validate_label(labels: dict[str, str], key: str, value: str) -> FieldErrors:
    path, text = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
    if key not in labels:
        yield FieldError.required(path, text)
    elif labels[key] != value:
        yield FieldError.invalid(path, labels, text)


_ORPHANS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
_COMPLETIONS_SOFT_LIMIT, _PARALLELISM_SOFT_LIMIT = 100_000, 10_000
_LARGE_JOB_WARNING = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes "
    "might not be able to track completedIndexes when a big number of indexes fail"
)


def _status(job: Job, now: float) -> str:
    for condition in ("Complete", "Failed"):
        if is_true(job.status.conditions, condition):
            return condition
    if job.metadata.deletionTimestamp is not None:
        return "Terminating"
    for condition in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if is_true(job.status.conditions, condition):
            return condition
    return "Running"


def _completions(job: Job, now: float) -> str:
    succeeded, parallelism = job.status.succeeded, job.spec.parallelism or 0
    if job.spec.completions is not None:
        return f"{succeeded}/{job.spec.completions}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: Job, now: float) -> str:
    status = job.status
    if status.startTime is None:
        return ""
    end = now if status.completionTime is None else times.parse_time(status.completionTime)
    return ages.format_age(end - times.parse_time(status.startTime))


_COLUMNS = (
    NAME,
    Column("Status", _status, description="Status of the job."),
    Column("Completions", _completions, field="status.succeeded"),
    Column("Duration", _duration, description="Time required to complete the job."),
    AGE,
    *container_columns(),
    SELECTOR,
)


class JobStrategy(TemplateStrategy):
    columns = _COLUMNS
    default_garbage_collection_policy = "Orphan"

    def default(self, obj: Job) -> None:
        default_job(obj)

    def prepare_for_create(self, ctx: Context, obj: Job) -> None:
        super().prepare_for_create(ctx, obj)
        if not obj.spec.manualSelector:
            generate_selector(obj)

    def validate_create(self, ctx: Context, obj: Job) -> Iterable[FieldError]:
        yield from _validate_generated_selector(obj)
        yield from _validate_spec(obj.spec, None, NEW_TEMPLATE)
        yield from _validate_hostname(obj)

    def validate_update(self, ctx: Context, obj: Job, old: Job) -> Iterable[FieldError]:
        yield from _validate_spec(obj.spec, old.spec, update_options(old.spec.template))
        yield from validate_job_spec_update(obj.spec, old)
        yield from _validate_hostname(obj)

    def spec_warnings(self, obj: Job) -> Iterable[str]:
        return size_warnings(obj.spec, "spec")

    def delete_warnings(self, ctx: Context, options: DeleteOptions) -> Iterable[str]:
        return () if options.names_policy else (_ORPHANS,)


def size_warnings(spec: JobSpec, path: str) -> Iterator[str]:
    is_large = (spec.completions or 0) > _COMPLETIONS_SOFT_LIMIT and (spec.parallelism or 0) > _PARALLELISM_SOFT_LIMIT
    if is_large and spec.completionMode == INDEXED:
        yield f"{path}: {_LARGE_JOB_WARNING}"


def _validate_spec(spec: JobSpec, old: JobSpec | None, options: PodValidationOptions) -> FieldErrors:
    path = "spec.selector"
    yield from validate_job_spec(spec, options, "spec")
    if spec.selector is None:
        yield FieldError.required(path)
    yield from validate_selector(spec.selector, old.selector if old is not None else None, path)
    selected = parse_selector(spec.selector)
    if selected is not None:
        yield from validate_selector_matches_template(selected, spec.template, "spec.template")


def _validate_hostname(job: Job) -> FieldErrors:
    """Yield an error if the hostnames of an indexed job's pods, which end in the index, would be invalid."""
    if job.spec.completionMode != INDEXED or (job.spec.completions or 0) <= 0:
        return
    longest = f"{job.metadata.name}-{(job.spec.completions or 0) - 1}"
    if names.dns1123_label(longest):
        text = f"will not able to create pod with invalid DNS label: {longest}"
        yield FieldError.invalid("metadata.name", job.metadata.name, text)
