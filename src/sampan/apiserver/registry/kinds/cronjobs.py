"""CronJob: creates jobs on a schedule."""

from collections.abc import Iterable, Iterator

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.batch_v1 import CronJob, CronJobSpec, JobTemplateSpec
from sampan.api.types.core_v1 import Container, PodTemplateSpec
from sampan.api.values import ages, cron
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.kinds.jobs.spec import validate_job_spec
from sampan.apiserver.registry.kinds.jobs.strategy import default_job_template, size_warnings
from sampan.apiserver.registry.podspec.validation_options import NEW_TEMPLATE, PodValidationOptions
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy
from sampan.apiserver.registry.validation import FieldErrors, validate_non_negative, validate_one_of
from sampan.apiserver.registry.workloads import TemplateStrategy, container_columns, update_options
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_POLICIES = ("Allow", "Forbid", "Replace")
_MAX_NAME_LENGTH = 52
"""The maximum length of a name; the names of the jobs are 11 characters longer."""
_DEFAULT_SUCCESSFUL_HISTORY, _DEFAULT_FAILED_HISTORY = 3, 1
_ZONE_WARNING = (
    "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)


def _suspend(cron_job: CronJob, now: float) -> str:
    return cells.UNSET if cron_job.spec.suspend is None else str(cron_job.spec.suspend)


def _last_schedule_age(cron_job: CronJob, now: float) -> str:
    last = cron_job.status.lastScheduleTime
    return cells.NONE if last is None else ages.age(last, now)


def _containers(cron_job: CronJob) -> list[Container]:
    return cron_job.spec.jobTemplate.spec.template.spec.containers or []


_COLUMNS = (
    NAME,
    Column("Schedule", lambda cron_job, now: cron_job.spec.schedule, field="spec.schedule"),
    Column("Timezone", lambda cron_job, now: cron_job.spec.timeZone or cells.NONE, field="spec.timeZone"),
    Column("Suspend", _suspend, type="boolean", field="spec.suspend"),
    Column("Active", lambda cron_job, now: len(cron_job.status.active), type="integer", field="status.active"),
    Column("Last Schedule", _last_schedule_age, field="status.lastScheduleTime"),
    AGE,
    *container_columns(_containers),
    Column(
        "Selector",
        lambda cron_job, now: cells.selector(cron_job.spec.jobTemplate.spec.selector),
        field="spec.jobTemplate.spec.selector",
        wide=True,
    ),
)


class CronJobStrategy(TemplateStrategy):
    columns = _COLUMNS
    template_at = "spec.jobTemplate.spec.template"

    def template_of(self, obj: CronJob) -> PodTemplateSpec:
        return obj.spec.jobTemplate.spec.template

    def default(self, obj: CronJob) -> None:
        spec = obj.spec
        default_job_template(spec.jobTemplate.spec)
        spec.concurrencyPolicy = spec.concurrencyPolicy or _POLICIES[0]
        if spec.suspend is None:
            spec.suspend = False
        if spec.successfulJobsHistoryLimit is None:
            spec.successfulJobsHistoryLimit = _DEFAULT_SUCCESSFUL_HISTORY
        if spec.failedJobsHistoryLimit is None:
            spec.failedJobsHistoryLimit = _DEFAULT_FAILED_HISTORY

    def validate_create(self, ctx: Context, obj: CronJob) -> Iterable[FieldError]:
        yield from _validate_spec(obj.spec, None, NEW_TEMPLATE)
        if names.size(obj.metadata.name) > _MAX_NAME_LENGTH:
            yield FieldError.invalid("metadata.name", obj.metadata.name, names.too_long_message(_MAX_NAME_LENGTH))

    def validate_update(self, ctx: Context, obj: CronJob, old: CronJob) -> Iterable[FieldError]:
        return _validate_spec(obj.spec, old.spec, update_options(self.template_of(old)))

    def warnings(self, ctx: Context, obj: CronJob, old: CronJob | None) -> Iterator[str]:
        yield from super().warnings(ctx, obj, old)
        if old is not None and "TZ" in obj.spec.schedule:
            yield _ZONE_WARNING

    def spec_warnings(self, obj: CronJob) -> Iterable[str]:
        return size_warnings(obj.spec.jobTemplate.spec, "spec.jobTemplate.spec")


def _validate_spec(spec: CronJobSpec, old: CronJobSpec | None, options: PodValidationOptions) -> FieldErrors:
    if spec.schedule:
        yield from _validate_schedule(spec, old is not None and "TZ" in old.schedule, "spec.schedule")
    yield from validate_non_negative(spec.startingDeadlineSeconds or 0, "spec.startingDeadlineSeconds")
    if spec.timeZone is not None and (old is None or spec.timeZone != old.timeZone):
        yield from _validate_zone(spec.timeZone, "spec.timeZone")
    yield from validate_one_of(spec.concurrencyPolicy, _POLICIES, "spec.concurrencyPolicy")
    yield from _validate_template(spec.jobTemplate, options, "spec.jobTemplate.spec")
    for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        yield from validate_non_negative(getattr(spec, field) or 0, f"spec.{field}")


def _validate_schedule(spec: CronJobSpec, may_name_zone: bool, path: str) -> FieldErrors:
    try:
        cron.parse_schedule(spec.schedule)
    except cron.ScheduleError as error:
        yield FieldError.invalid(path, spec.schedule, str(error))
    if "TZ" not in spec.schedule:
        return
    if not may_name_zone:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield FieldError.invalid(path, spec.schedule, text)
    elif spec.timeZone is not None:
        text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield FieldError.invalid(path, spec.schedule, text)


def _validate_zone(zone: str, path: str) -> FieldErrors:
    if not zone:
        yield FieldError.invalid(path, zone, "timeZone must be nil or non-empty string")
        return
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield FieldError.invalid(path, zone, text)
    if zone == "Local":
        return
    try:
        cron.time_zone(zone)
    except cron.UnknownTimeZone as error:
        yield FieldError.invalid(path, zone, str(error))


def _validate_template(template: JobTemplateSpec, options: PodValidationOptions, path: str) -> FieldErrors:
    spec = template.spec
    yield from validate_job_spec(spec, options, path)
    if spec.selector is not None:
        yield FieldError.invalid(f"{path}.selector", spec.selector, "`selector` will be auto-generated")
    if spec.manualSelector:
        yield FieldError.not_supported(f"{path}.manualSelector", spec.manualSelector, ("nil", "false"))


_strategy = CronJobStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": StatusStrategy(_strategy)})
