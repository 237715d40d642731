"""Whether and how a job has finished."""

from sampan.api.types.batch_v1 import Job, JobCondition

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
