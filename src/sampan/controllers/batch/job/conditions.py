"""The conditions of a job, and whether it has finished."""

from sampan.api.types.batch_v1 import Job, JobCondition
from sampan.api.values.times import format_time

COMPLETE, FAILED = "Complete", "Failed"


def finished_condition(job: Job) -> JobCondition | None:
    """Return the Complete or Failed condition if it is true, or None if the job has not finished."""
    for condition in job.status.conditions:
        if condition.type in (COMPLETE, FAILED) and condition.status == "True":
            return condition
    return None


def is_finished(job: Job) -> bool:
    return finished_condition(job) is not None


def has_succeeded(job: Job) -> bool:
    condition = finished_condition(job)
    return condition is not None and condition.type == COMPLETE


SUSPENDED = "Suspended"
FAILURE_TARGET, SUCCESS_MET = "FailureTarget", "SuccessCriteriaMet"
"""The outcome of the job is decided. Failed or Complete follows once all its pods have terminated and are counted."""
FINAL = {FAILURE_TARGET: FAILED, SUCCESS_MET: COMPLETE}

POD_FAILURE_POLICY = "PodFailurePolicy"
BACKOFF_LIMIT = "BackoffLimitExceeded"
DEADLINE = "DeadlineExceeded"
MAX_FAILED_INDEXES = "MaxFailedIndexesExceeded"
FAILED_INDEXES = "FailedIndexes"
SUCCESS_POLICY = "SuccessPolicy"
COMPLETIONS = "CompletionsReached"


def condition(type: str, reason: str, message: str, now: float, *, is_true: bool = True) -> JobCondition:
    time = format_time(now)
    return JobCondition(
        type=type,
        status="True" if is_true else "False",
        lastProbeTime=time,
        lastTransitionTime=time,
        reason=reason,
        message=message,
    )


def find_true(conditions: list[JobCondition], type: str) -> JobCondition | None:
    return next((candidate for candidate in conditions if candidate.type == type and candidate.status == "True"), None)


def ensure(conditions: list[JobCondition], desired: JobCondition) -> bool:
    """Set the condition unless it is false and absent. Return whether the list changed."""
    for index, present in enumerate(conditions):
        if present.type == desired.type:
            if (present.status, present.reason, present.message) == (desired.status, desired.reason, desired.message):
                return False
            conditions[index] = desired
            return True
    if desired.status == "False":
        return False
    conditions.append(desired)
    return True


def make_final_condition(target: JobCondition, now: float) -> JobCondition:
    """Return the terminal condition that follows a FailureTarget or SuccessCriteriaMet."""
    return condition(FINAL.get(target.type, target.type), target.reason, target.message, now)
