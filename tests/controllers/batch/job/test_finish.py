"""When a job is complete or failed, and for which reason."""

import pytest

from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Pod
from sampan.controllers.batch.job.finish import finish_condition, is_complete
from tests.controllers.batch.job.pods import indexed_job, job, pod, view

FAIL_42 = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}


@pytest.mark.parametrize(
    ("job", "pods", "expected"),
    [
        (job(), [pod("a")], None),
        (job(backoffLimit=1), [pod("a", "Failed"), pod("b", "Failed")], "BackoffLimitExceeded"),
        (job(backoffLimit=1, status={"failed": 1}), [pod("b", "Failed")], "BackoffLimitExceeded"),
        (job(backoffLimit=1, status={"failed": 1}), [pod("b", "Failed", tracked=False)], None),
        (job(backoffLimit=2, restart="OnFailure"), [pod("a", restarts=2)], "BackoffLimitExceeded"),
        (job(backoffLimit=0, restart="OnFailure"), [pod("a")], None),
        (job(activeDeadlineSeconds=5, status={"startTime": "2025-12-31T23:59:55Z"}), [], "DeadlineExceeded"),
        (job(activeDeadlineSeconds=6, status={"startTime": "2025-12-31T23:59:55Z"}), [], None),
        (job(activeDeadlineSeconds=5, suspend=True, status={"startTime": "2025-12-31T23:59:55Z"}), [], None),
        (job(podFailurePolicy={"rules": [FAIL_42]}, backoffLimit=0), [pod("a", "Failed", code=42)], "PodFailurePolicy"),
        (indexed_job(2, backoffLimitPerIndex=0), [pod("a", "Failed", index=0)], None),
        (
            indexed_job(2, backoffLimitPerIndex=0),
            [pod("a", "Failed", index=0), pod("b", "Succeeded", index=1)],
            "FailedIndexes",
        ),
        (
            indexed_job(3, backoffLimitPerIndex=0, maxFailedIndexes=0),
            [pod("a", "Failed", index=0)],
            "MaxFailedIndexesExceeded",
        ),
        (
            indexed_job(2, successPolicy={"rules": [{"succeededCount": 1}]}),
            [pod("b", "Succeeded", index=1)],
            "SuccessPolicy",
        ),
    ],
)
def test_finish_reason(job: Job, pods: list[Pod], expected: str | None) -> None:
    condition = finish_condition(view(job, *pods))
    assert (condition.reason if condition is not None else None) == expected


def test_failure_target_condition_leads_to_failed() -> None:
    target = {"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded", "message": "m"}
    condition = finish_condition(view(job(status={"conditions": [target]})))
    assert condition is not None
    assert (condition.type, condition.reason, condition.message) == ("Failed", "DeadlineExceeded", "m")


@pytest.mark.parametrize(
    ("completions", "succeeded", "active", "expected"),
    [(2, 1, 0, False), (2, 2, 1, False), (2, 2, 0, True), (None, 0, 0, False), (None, 1, 1, False), (None, 1, 0, True)],
)
def test_a_job_is_complete_once_enough_pods_succeeded_and_none_is_active(
    completions: int | None, succeeded: int, active: int, expected: bool
) -> None:
    assert is_complete(job(completions=completions), succeeded, active) is expected
