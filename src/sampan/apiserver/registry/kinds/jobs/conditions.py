"""Conditions of jobs."""

from sampan.api.types.batch_v1 import Job


def is_true(job: Job, type: str) -> bool:
    return any(found.type == type and found.status == "True" for found in job.status.conditions)


def is_false(job: Job, type: str) -> bool:
    return any(found.type == type and found.status == "False" for found in job.status.conditions)
