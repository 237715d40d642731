"""Conditions of jobs."""

from sampan.api.types.batch_v1 import Job


def is_true(job: Job, type: str) -> bool:
    return any(condition.type == type and condition.status == "True" for condition in job.status.conditions)


def is_false(job: Job, type: str) -> bool:
    return any(condition.type == type and condition.status == "False" for condition in job.status.conditions)
