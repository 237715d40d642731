"""The decision whether a job is to finish, and with which condition. Pure.

An earlier decision stands. Failures (pod failure policy, backoff limit, deadline, failed indexes) come before success
by policy. Success by number of completions is left to `is_complete`, which is evaluated after pods were created and
deleted.
"""

from collections.abc import Sequence

from sampan.api.types.batch_v1 import Job, JobCondition
from sampan.api.types.core_v1 import Pod
from sampan.api.values.times import parse_time
from sampan.controllers.batch.job.conditions import (
    BACKOFF_LIMIT,
    COMPLETIONS,
    DEADLINE,
    FAILED_INDEXES,
    FAILURE_TARGET,
    MAX_FAILED_INDEXES,
    POD_FAILURE_POLICY,
    SUCCESS_MET,
    SUCCESS_POLICY,
    condition,
    find_true,
    make_final_condition,
)
from sampan.controllers.batch.job.pod_state import completions_of, has_failed, is_indexed, is_suspended
from sampan.controllers.batch.job.policies import match_failure_policy, match_success_policy
from sampan.controllers.batch.job.view import JobView

_BACKOFF_MESSAGE = "Job has reached the specified backoff limit"
_DEADLINE_MESSAGE = "Job was active longer than specified deadline"
_MAX_FAILED_MESSAGE = "Job has exceeded the specified maximal number of failed indexes"
_FAILED_INDEXES_MESSAGE = "Job has failed indexes"
_COMPLETE_MESSAGE = "Reached expected number of succeeded pods"


def finish_condition(view: JobView) -> JobCondition | None:
    """Return the condition that decides the outcome of the job, or None while it continues.

    A Failed condition means that the job already has its FailureTarget.
    """
    conditions = view.job.status.conditions
    if (met := find_true(conditions, SUCCESS_MET)) is not None:
        return met
    if (target := find_true(conditions, FAILURE_TARGET)) is not None:
        return make_final_condition(target, view.now)
    return _failure(view) or _success(view)


def is_complete(job: Job, succeeded: int, active: int) -> bool:
    """Whether enough pods succeeded. Without completions, one success is enough once no pod is active."""
    completions = job.spec.completions
    return active == 0 and (succeeded > 0 if completions is None else succeeded >= completions)


def make_success_met_condition(now: float) -> JobCondition:
    return condition(SUCCESS_MET, COMPLETIONS, _COMPLETE_MESSAGE, now)


def deadline_s(job: Job, now: float) -> float | None:
    """Return the seconds until the active deadline, or None if there is none or it is not running."""
    if job.spec.activeDeadlineSeconds is None or job.status.startTime is None or is_suspended(job):
        return None
    return parse_time(job.status.startTime) + job.spec.activeDeadlineSeconds - now


def _failure(view: JobView) -> JobCondition | None:
    job, reason = view.job, _reason(view)
    if (message := _policy_message(job, view.pods)) is not None:
        reason = POD_FAILURE_POLICY, message
    return None if reason is None else condition(FAILURE_TARGET, *reason, view.now)


def _reason(view: JobView) -> tuple[str, str] | None:
    job = view.job
    if view.failed > (job.spec.backoffLimit or 0) or _restarts_too_often(job, view.pods):
        return BACKOFF_LIMIT, _BACKOFF_MESSAGE
    left_s = deadline_s(job, view.now)
    if left_s is not None and left_s <= 0:
        return DEADLINE, _DEADLINE_MESSAGE
    return _index_reason(view)


def _index_reason(view: JobView) -> tuple[str, str] | None:
    job, failed = view.job, len(view.failed_indexes or ())
    if not failed:
        return None
    if job.spec.maxFailedIndexes is not None and failed > job.spec.maxFailedIndexes:
        return MAX_FAILED_INDEXES, _MAX_FAILED_MESSAGE
    if failed + len(view.succeeded_indexes) >= completions_of(job):
        return FAILED_INDEXES, _FAILED_INDEXES_MESSAGE
    return None


def _policy_message(job: Job, pods: Sequence[Pod]) -> str | None:
    if job.spec.podFailurePolicy is None:
        return None
    messages = (match_failure_policy(job.spec.podFailurePolicy, pod).message for pod in pods if has_failed(pod, job))
    return next(filter(None, messages), None)


def _restarts_too_often(job: Job, pods: Sequence[Pod]) -> bool:
    """Whether restarts exceed the backoff limit: with restartPolicy OnFailure each restart counts as a failure."""
    if job.spec.template.spec.restartPolicy != "OnFailure":
        return False
    restarts = sum(
        container.restartCount
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for container in (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
    )
    return restarts >= max(job.spec.backoffLimit or 0, 1)


def _success(view: JobView) -> JobCondition | None:
    job = view.job
    if not is_indexed(job):
        return None
    message = match_success_policy(job.spec.successPolicy, completions_of(job), view.succeeded_indexes)
    return None if message is None else condition(SUCCESS_MET, SUCCESS_POLICY, message, view.now)
