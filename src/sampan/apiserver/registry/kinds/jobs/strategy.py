"""The strategy and the table columns of jobs."""

from collections.abc import Iterable, Iterator

from sampan.api import ages, names, times
from sampan.api.faults import FieldError
from sampan.api.semantics.conditions import is_true
from sampan.api.types.batch_v1 import Job, JobSpec
from sampan.apiserver.registry.deletion import DeleteOptions
from sampan.apiserver.registry.kinds.jobs.changes import validate_job_spec_update
from sampan.apiserver.registry.kinds.jobs.defaults import default_job
from sampan.apiserver.registry.kinds.jobs.selectors import (
    NAME_LABEL,
    UID_LABEL,
    generate_selector,
    validate_generated_selector,
)
from sampan.apiserver.registry.kinds.jobs.spec import INDEXED, validate_job_spec
from sampan.apiserver.registry.podspec.formats import FieldErrors
from sampan.apiserver.registry.podspec.validation_options import NEW_TEMPLATE, PodValidationOptions
from sampan.apiserver.registry.strategy import Column, Context
from sampan.apiserver.registry.workloads import selection
from sampan.apiserver.registry.workloads.columns import SELECTOR, container_columns
from sampan.apiserver.registry.workloads.templates import TemplateStrategy, update_options
from sampan.apiserver.tables.columns import AGE, NAME

_ORPHANS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
_MANY_COMPLETIONS, _MUCH_PARALLELISM = 100_000, 10_000
_TOO_MANY = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes "
    "might not be able to track completedIndexes when a big number of indexes fail"
)


class JobStrategy(TemplateStrategy):
    default_garbage_collection_policy = "Orphan"
    validates_whole = True

    def default(self, obj: Job) -> None:
        default_job(obj)

    def prepare_for_create(self, ctx: Context, obj: Job) -> None:
        super().prepare_for_create(ctx, obj)
        if not obj.spec.manualSelector:
            generate_selector(obj)

    def validate_create(self, ctx: Context, obj: Job) -> Iterable[FieldError]:
        yield from validate_generated_selector(obj, has_new_labels=True)
        yield from _validate_spec(obj.spec, None, NEW_TEMPLATE)
        yield from _validate_hostname(obj)

    def validate_update(self, ctx: Context, obj: Job, old: Job) -> Iterable[FieldError]:
        before = old.spec.template
        labels = before.metadata.labels
        yield from validate_generated_selector(obj, has_new_labels=NAME_LABEL in labels and UID_LABEL in labels)
        errors = list(_validate_spec(obj.spec, old.spec, update_options(before)))
        yield from errors
        yield from _validate_hostname(obj)
        yield from errors
        yield from validate_job_spec_update(obj.spec, old)

    def spec_warnings(self, obj: Job) -> Iterable[str]:
        return size_warnings(obj.spec, "spec")

    def delete_warnings(self, ctx: Context, options: DeleteOptions) -> Iterable[str]:
        return () if options.names_policy else (_ORPHANS,)


def size_warnings(spec: JobSpec, at: str) -> Iterator[str]:
    is_large = (spec.completions or 0) > _MANY_COMPLETIONS and (spec.parallelism or 0) > _MUCH_PARALLELISM
    if is_large and spec.completionMode == INDEXED:
        yield f"{at}: {_TOO_MANY}"


def _validate_spec(spec: JobSpec, old: JobSpec | None, options: PodValidationOptions) -> FieldErrors:
    at = "spec.selector"
    yield from validate_job_spec(spec, options, "spec")
    if spec.selector is None:
        yield FieldError.required(at)
    yield from selection.validate_selector(spec.selector, old.selector if old is not None else None, at)
    selected = selection.parsed(spec.selector)
    if selected is not None:
        yield from selection.validate_selector_matches_template(selected, spec.template, "spec.template")


def _validate_hostname(job: Job) -> FieldErrors:
    """Yield an error if the hostnames of an indexed job's pods, which end in the index, would be invalid."""
    if job.spec.completionMode != INDEXED or (job.spec.completions or 0) <= 0:
        return
    longest = f"{job.metadata.name}-{(job.spec.completions or 0) - 1}"
    if names.dns1123_label(longest):
        text = f"will not able to create pod with invalid DNS label: {longest}"
        yield FieldError.invalid("metadata.name", job.metadata.name, text)


# -- table -------------------------------------------------------------------------------------------------------------


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
    return ages.human(end - times.parse_time(status.startTime))


JobStrategy.columns = (
    NAME,
    Column("Status", _status, description="Status of the job."),
    Column("Completions", _completions, field="status.succeeded"),
    Column("Duration", _duration, description="Time required to complete the job."),
    AGE,
    *container_columns(),
    SELECTOR,
)
