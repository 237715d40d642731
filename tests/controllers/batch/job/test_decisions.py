"""What a job and its pods amount to, whether it ends, and which pods are wanted."""

from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.batch_v1 import Job, PodFailurePolicy, SuccessPolicy
from sampan.api.types.core_v1 import Pod
from sampan.controllers.batch.job.finish import finish_condition, is_complete
from sampan.controllers.batch.job.parallelism import pods_wanted
from sampan.controllers.batch.job.pod_state import Failures, Indexes, after, finish_time
from sampan.controllers.batch.job.policies import Match, match_failure_policy, met
from tests.controllers.batch.job.pods import NOW, indexed, job, pod, view

FAIL_42 = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
IGNORE_EVICTED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
NOT_1 = {"action": "FailIndex", "onExitCodes": {"containerName": "c", "operator": "NotIn", "values": [1]}}
EVICTED = {"type": "DisruptionTarget", "status": "True"}


@pytest.mark.parametrize(
    ("rules", "failed", "expected"),
    [
        ([FAIL_42], pod("a", "Failed", code=1), Match()),
        (
            [IGNORE_EVICTED, FAIL_42],
            pod("a", "Failed", code=42),
            Match("FailJob", "Container c for pod default/a failed with exit code 42 matching FailJob rule at index 1"),
        ),
        ([IGNORE_EVICTED, FAIL_42], pod("a", "Failed", code=42, conditions=[EVICTED]), Match("Ignore")),
        ([NOT_1], pod("a", "Failed", code=2), Match("FailIndex")),
        ([NOT_1], pod("a", "Failed", code=1), Match()),
        ([NOT_1], pod("a", "Failed", code=0), Match()),
        (
            [{**IGNORE_EVICTED, "action": "FailJob"}],
            pod("a", "Failed", conditions=[EVICTED]),
            Match("FailJob", "Pod default/a has condition DisruptionTarget matching FailJob rule at index 0"),
        ),
    ],
)
def test_what_the_failure_policy_says(rules: list[dict[str, Any]], failed: Pod, expected: Match) -> None:
    assert match_failure_policy(codec.from_value({"rules": rules}, PodFailurePolicy), failed) == expected


@pytest.mark.parametrize(
    ("rules", "succeeded", "expected"),
    [
        ([{"succeededIndexes": "0,2"}], [0, 1], None),
        ([{"succeededIndexes": "0,2"}], [0, 2], "Matched rules at index 0"),
        ([{"succeededCount": 3}, {"succeededIndexes": "0-3", "succeededCount": 1}], [3], "Matched rules at index 1"),
        ([{"succeededCount": 2}], [3, 4], "Matched rules at index 0"),
        ([{"succeededCount": 2}], [], None),
    ],
)
def test_what_the_success_policy_says(rules: list[dict[str, Any]], succeeded: list[int], expected: str | None) -> None:
    assert met(codec.from_value({"rules": rules}, SuccessPolicy), 5, Indexes.of(succeeded)) == expected


@pytest.mark.parametrize(("failures", "expected"), [(0, 0), (1, 10), (2, 20), (6, 320), (7, 600), (60, 600)])
def test_how_long_the_next_pod_waits(failures: int, expected: float) -> None:
    assert Failures(failures, NOW).wait_s(NOW) == expected
    assert Failures(failures, NOW - 1000).wait_s(NOW) == 0


def test_a_success_makes_failures_before_it_forgotten() -> None:
    known = Failures(3, NOW - 100)
    old, new = pod("old", "Failed", ended_s=50), pod("new", "Failed", ended_s=10)
    done = pod("done", "Succeeded", ended_s=20)
    assert after(known, [], []) == known
    assert after(known, [], [new, old]) == Failures(5, NOW - 10)
    assert after(known, [done], [new, old]) == Failures(1, NOW - 10)
    assert after(known, [done], []) == Failures()


def test_when_a_pod_ended() -> None:
    assert finish_time(pod("a", "Failed", ended_s=7)) == NOW - 7
    leaving = pod("a", leaving=True)
    leaving.metadata.deletionGracePeriodSeconds = 30
    assert finish_time(leaving) == NOW - 30
    assert finish_time(pod("a")) == NOW


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
        (indexed(2, backoffLimitPerIndex=0), [pod("a", "Failed", index=0)], None),
        (
            indexed(2, backoffLimitPerIndex=0),
            [pod("a", "Failed", index=0), pod("b", "Succeeded", index=1)],
            "FailedIndexes",
        ),
        (
            indexed(3, backoffLimitPerIndex=0, maxFailedIndexes=0),
            [pod("a", "Failed", index=0)],
            "MaxFailedIndexesExceeded",
        ),
        (
            indexed(2, successPolicy={"rules": [{"succeededCount": 1}]}),
            [pod("b", "Succeeded", index=1)],
            "SuccessPolicy",
        ),
    ],
)
def test_whether_the_job_ends(job: Job, pods: list[Pod], expected: str | None) -> None:
    condition = finish_condition(view(job, *pods))
    assert (condition.reason if condition is not None else None) == expected


def test_what_was_decided_stands() -> None:
    target = {"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded", "message": "m"}
    condition = finish_condition(view(job(status={"conditions": [target]})))
    assert condition is not None
    assert (condition.type, condition.reason, condition.message) == ("Failed", "DeadlineExceeded", "m")


@pytest.mark.parametrize(
    ("completions", "succeeded", "active", "expected"),
    [(2, 1, 0, False), (2, 2, 1, False), (2, 2, 0, True), (None, 0, 0, False), (None, 1, 1, False), (None, 1, 0, True)],
)
def test_when_a_job_is_complete(completions: int | None, succeeded: int, active: int, expected: bool) -> None:
    assert is_complete(job(completions=completions), succeeded, active) is expected


def names(pods: Any) -> list[str]:
    return [pod.metadata.name for pod in pods]


@pytest.mark.parametrize(
    ("job", "pods", "create"),
    [
        (job(completions=5, parallelism=3), [], [None, None, None]),
        (job(completions=5, parallelism=3), [pod("a"), pod("b", "Succeeded")], [None, None]),
        (job(completions=5, parallelism=3, status={"succeeded": 4}), [], [None]),
        (job(parallelism=2), [pod("a", "Succeeded")], []),
        (job(parallelism=2), [pod("a")], [None]),
        (job(), [pod("a", leaving=True)], []),
        (job(podReplacementPolicy="Failed"), [pod("a", leaving=True)], []),
        (job(), [pod("a", "Failed")], []),
        (job(), [pod("a", "Failed", ended_s=11)], [None]),
        (job(suspend=True), [], []),
        (indexed(4, parallelism=2), [pod("a", index=1)], [0]),
        (indexed(4, status={"completedIndexes": "0,2"}), [], [1, 3]),
        (indexed(3, backoffLimitPerIndex=1), [pod("a", "Failed", index=0), pod("b", index=1)], [2]),
        (indexed(2, backoffLimitPerIndex=1), [pod("a", "Failed", index=0, ended_s=11), pod("b", index=1)], [0]),
        (indexed(2, backoffLimitPerIndex=0), [pod("a", "Failed", index=0), pod("b", index=1)], []),
    ],
)
def test_which_pods_are_made(job: Job, pods: list[Pod], create: list[int | None]) -> None:
    plan = pods_wanted(view(job, *pods))
    assert list(plan.create) == create
    assert plan.remove in ((), [])


def test_a_pod_that_has_to_wait() -> None:
    assert pods_wanted(view(job(), pod("a", "Failed", ended_s=4))).wait_s == 6
    held = pods_wanted(view(indexed(1, backoffLimitPerIndex=5), pod("a", "Failed", index=0, failures=1, ended_s=4)))
    assert held.wait_s == 16


@pytest.mark.parametrize(
    ("job", "pods", "remove"),
    [
        (job(parallelism=1, completions=5), [pod("a", ready=True), pod("b", "Pending")], ["b"]),
        (job(suspend=True, parallelism=2), [pod("a", ready=True), pod("b", "Pending")], ["b", "a"]),
        (indexed(2), [pod("a", index=0, ready=True), pod("b", index=0), pod("c", index=1)], ["b"]),
        (indexed(2), [pod("a", index=7), pod("b"), pod("c", index=1)], ["a", "b"]),
    ],
)
def test_which_pods_are_removed(job: Job, pods: list[Pod], remove: list[str]) -> None:
    plan = pods_wanted(view(job, *pods))
    assert names(plan.remove) == remove
    assert list(plan.create) == []


def test_a_view_counts_what_is_not_in_the_status_yet() -> None:
    status = {"succeeded": 1, "failed": 1, "uncountedTerminatedPods": {"succeeded": ["s"], "failed": ["f"]}}
    pods = [pod("s", "Succeeded"), pod("t", "Succeeded"), pod("f", "Failed"), pod("g", "Failed"), pod("x", "Failed")]
    new_view = view(job(status=status), *pods, released=["x"])
    assert (new_view.succeeded, new_view.failed) == (3, 3)
