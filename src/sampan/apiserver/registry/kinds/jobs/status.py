"""Validation of a job's status: conditions, counters and the lists of completed indexes."""

from collections.abc import Iterable
from functools import cached_property

from sampan.api.field_errors import OMITTED, FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.semantics.conditions import FALSE, condition_status, is_true
from sampan.api.types.batch_v1 import Job
from sampan.api.values import times
from sampan.apiserver.registry.kinds.jobs.indexes import IndexesError, count_indexes, find_overlap
from sampan.apiserver.registry.kinds.jobs.spec import INDEXED
from sampan.apiserver.registry.strategy import Context, StatusStrategy
from sampan.apiserver.registry.validation import FieldErrors
from sampan.apiserver.registry.workloads import IMMUTABLE, validate_non_negative_counts

_COMPLETE, _FAILED, _SUSPENDED = "Complete", "Failed", "Suspended"
_FAILING, _SUCCEEDING = "FailureTarget", "SuccessCriteriaMet"


class JobStatusStrategy(StatusStrategy):
    def validate_update(self, ctx: Context, obj: Job, old: Job) -> Iterable[FieldError]:
        change = _StatusChange(obj, old)
        yield from validate_non_negative_counts(obj.status, ("active", "succeeded", "failed", "ready", "terminating"))
        yield from _validate_uncounted_pods(obj)
        yield from _validate_finish(change)
        yield from _validate_finished_job(change)
        yield from _validate_indexes(change)
        yield from _validate_final_pod_counts(change)
        yield from _validate_success_condition(change)
        yield from _validate_no_regression(change)
        yield from _validate_immutable_times(change)
        yield from _validate_success_update(change)


class _StatusChange:
    """A new status and the old one."""

    def __init__(self, new: Job, old: Job) -> None:
        self.new, self.old = new, old

    def is_now(self, condition: str) -> bool:
        return is_true(self.new.status.conditions, condition)

    def was(self, condition: str) -> bool:
        return is_true(self.old.status.conditions, condition)

    def affects_conditions(self, *conditions: str) -> bool:
        """Whether one of the conditions has changed."""
        return any(self.is_now(condition) != self.was(condition) for condition in conditions)

    def affects_fields(self, *fields: str) -> bool:
        return any(getattr(self.new.status, field) != getattr(self.old.status, field) for field in fields)

    @cached_property
    def is_finished(self) -> bool:
        return self.is_now(_COMPLETE) or self.is_now(_FAILED)

    @cached_property
    def affects_finish(self) -> bool:
        return self.is_finished != (self.was(_COMPLETE) or self.was(_FAILED))


def _condition_error(text: str) -> FieldError:
    return FieldError.invalid("status.conditions", OMITTED, text)


def _validate_uncounted_pods(job: Job) -> FieldErrors:
    pods = job.status.uncountedTerminatedPods
    if pods is None:
        return
    distinct_uids: set[str] = set()
    for field, uids in (("succeeded", pods.succeeded), ("failed", pods.failed)):
        for index, uid in enumerate(uids):
            path = f"status.uncountedTerminatedPods.{field}[{index}]"
            if not uid:
                yield FieldError.invalid(path, uid, "must not be empty")
            elif uid in distinct_uids:
                yield FieldError.duplicate(path, uid)
            distinct_uids.add(uid)


def _validate_finish(change: _StatusChange) -> FieldErrors:
    status, is_complete = change.new.status, change.is_now(_COMPLETE)
    if change.affects_conditions(_COMPLETE, _FAILED) and is_complete and change.is_now(_FAILED):
        yield _condition_error("cannot set Complete=True and Failed=true conditions")
    if change.affects_conditions(_COMPLETE, _FAILING) and is_complete and change.is_now(_FAILING):
        yield _condition_error("cannot set Complete=True and FailureTarget=true conditions")
    path, ended = "status.completionTime", status.completionTime
    if change.affects_conditions(_COMPLETE) or change.affects_fields("completionTime"):
        if ended is not None and not is_complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            yield FieldError.invalid(path, ended, text)
        if ended is None and is_complete:
            yield FieldError.required(path, "completionTime is required for Complete jobs")
    if change.affects_fields("startTime", "completionTime") and _is_before(ended, status.startTime):
        yield FieldError.invalid(path, ended, "must be equal to or after `startTime`")
    yield from _validate_condition_reasons(change)


def _is_before(end: str | None, start: str | None) -> bool:
    return end is not None and start is not None and times.parse_time(end) < times.parse_time(start)


def _validate_condition_reasons(change: _StatusChange) -> FieldErrors:
    """Yield errors if a job becomes Failed without FailureTarget, or Complete without SuccessCriteriaMet.

    The latter conditions are set first, while the last pods terminate.
    """
    is_failed_new = change.affects_conditions(_FAILED) or change.affects_fields("failedIndexes")
    if is_failed_new and change.is_now(_FAILED) and not change.is_now(_FAILING):
        yield _condition_error("cannot set Failed=True condition without the FailureTarget=true condition")
    if (
        change.affects_conditions(_COMPLETE, _SUCCEEDING)
        and change.is_now(_COMPLETE)
        and not change.is_now(_SUCCEEDING)
    ):
        yield _condition_error("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")


def _validate_finished_job(change: _StatusChange) -> FieldErrors:
    if not change.is_finished:
        return
    status, spec = change.new.status, change.new.spec
    if status.active > 0 and (change.affects_finish or change.affects_fields("active")):
        yield FieldError.invalid("status.active", status.active, "active>0 is invalid for finished job")
    never_ran = spec.suspend is True and spec.completions == 0
    if status.startTime is None and not never_ran and (change.affects_finish or change.affects_fields("startTime")):
        yield FieldError.required("status.startTime", "startTime is required for finished job")
    pods = status.uncountedTerminatedPods
    is_new = change.affects_finish or change.affects_fields("uncountedTerminatedPods")
    if is_new and pods is not None and (pods.succeeded or pods.failed):
        path = "status.uncountedTerminatedPods"
        yield FieldError.invalid(path, encode_error_value(pods), "must be empty for finished job")


def _validate_indexes(change: _StatusChange) -> FieldErrors:
    status, spec = change.new.status, change.new.spec
    completions, failed = spec.completions, status.failedIndexes
    is_completed_new, is_failed_new = change.affects_fields("completedIndexes"), change.affects_fields("failedIndexes")
    if is_completed_new and completions is not None:
        yield from _validate_index_list(status.completedIndexes, completions, "completedIndexes")
    if is_failed_new and completions is not None and spec.backoffLimitPerIndex is not None and failed is not None:
        yield from _validate_index_list(failed, completions, "failedIndexes")
    if is_completed_new and status.completedIndexes and spec.completionMode != INDEXED:
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield FieldError.invalid("status.completedIndexes", status.completedIndexes, text)
    if is_failed_new and failed is not None and spec.backoffLimitPerIndex is None:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield FieldError.invalid("status.failedIndexes", failed, text)
    if (is_completed_new or is_failed_new) and completions is not None and failed is not None:
        shared = find_overlap(status.completedIndexes, failed, completions)
        if shared is not None:
            text = f"failedIndexes and completedIndexes overlap at index: {shared}"
            yield FieldError.invalid("status.failedIndexes", failed, text)


def _validate_index_list(text: str, completions: int, field: str) -> FieldErrors:
    try:
        count_indexes(text, completions)
    except IndexesError as error:
        yield FieldError.invalid(f"status.{field}", text, f"error parsing {field}: {error}")


def _validate_final_pod_counts(change: _StatusChange) -> FieldErrors:
    status = change.new.status
    if (
        change.is_finished
        and (status.terminating or 0) > 0
        and (change.affects_finish or change.affects_fields("terminating"))
    ):
        text = "terminating>0 is invalid for finished job"
        yield FieldError.invalid("status.terminating", status.terminating, text)
    if change.affects_fields("ready", "active") and status.ready is not None and status.ready > status.active:
        yield FieldError.invalid("status.ready", status.ready, "cannot set more ready pods than active")


def _validate_success_condition(change: _StatusChange) -> FieldErrors:
    if change.is_now(_SUCCEEDING):
        if change.is_now(_FAILED):
            yield _condition_error("cannot set SuccessCriteriaMet=True and Failed=true conditions")
        if change.is_now(_FAILING):
            yield _condition_error("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    elif change.new.spec.successPolicy is not None and change.is_now(_COMPLETE):
        yield _condition_error("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")


def _validate_no_regression(change: _StatusChange) -> FieldErrors:
    status, old, spec = change.new.status, change.old.status, change.new.spec
    for condition in (_FAILED, _COMPLETE, _FAILING):
        if change.was(condition) and not change.is_now(condition):
            yield _condition_error(f"cannot disable the terminal {condition}=True condition")
    if status.failed < old.failed:
        yield FieldError.invalid("status.failed", status.failed, "cannot decrease the failed counter")
    may_shrink = spec.completionMode == INDEXED and spec.completions == spec.parallelism
    if status.succeeded < old.succeeded and not may_shrink:
        yield FieldError.invalid("status.succeeded", status.succeeded, "cannot decrease the succeeded counter")


def _validate_immutable_times(change: _StatusChange) -> FieldErrors:
    status, old = change.new.status, change.old.status
    if None not in (status.completionTime, old.completionTime) and change.affects_fields("completionTime"):
        yield FieldError.invalid("status.completionTime", status.completionTime, IMMUTABLE)
    is_resumed = change.was(_SUSPENDED) and condition_status(change.new.status.conditions, _SUSPENDED) == FALSE
    if (
        old.startTime is not None
        and change.affects_fields("startTime")
        and not is_resumed
        and not change.new.spec.suspend
    ):
        text = "field is immutable for unsuspended job once set"
        yield FieldError.invalid("status.startTime", status.startTime, text)


def _validate_success_update(change: _StatusChange) -> FieldErrors:
    if change.was(_SUCCEEDING) and not change.is_now(_SUCCEEDING):
        yield _condition_error("cannot disable the SuccessCriteriaMet=True condition")
    if change.was(_COMPLETE) and not change.was(_SUCCEEDING) and change.is_now(_SUCCEEDING):
        yield _condition_error("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
