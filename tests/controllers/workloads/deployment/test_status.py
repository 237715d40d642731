"""What the status says, and how an update is judged."""

from typing import Any

import pytest

from sampan.api.semantics.conditions import find_condition
from sampan.api.types.apps_v1 import Deployment, DeploymentStatus
from sampan.api.values import times
from sampan.controllers.workloads.deployment.replicasets import ReplicaSets
from sampan.controllers.workloads.deployment.status import (
    calculate_status,
    next_check_s,
    paused_or_resumed,
    rollout_status,
)
from tests.controllers.ownership.objects import NOW
from tests.controllers.workloads.deployment.objects import deployment, replica_set


def condition_of(status: DeploymentStatus, type: str) -> tuple[str, str, str] | None:
    condition = find_condition(status.conditions, type)
    return (condition.status, condition.reason, condition.message) if condition else None


def progressing(reason: str, *, status: str = "True", age_s: float = 10) -> dict[str, Any]:
    stamp = times.format_time(NOW - age_s)
    return {
        "type": "Progressing",
        "status": status,
        "reason": reason,
        "message": "m",
        "lastUpdateTime": stamp,
        "lastTransitionTime": stamp,
    }


def test_the_counts() -> None:
    old = [replica_set("a", 2, available=1, pods=3), replica_set("b", 0, terminatingReplicas=2)]
    status = calculate_status(
        deployment(4, generation=7, status={"collisionCount": 2}), ReplicaSets(replica_set("n", 3), old), NOW
    )
    assert (status.replicas, status.updatedReplicas, status.readyReplicas) == (6, 3, 4)
    assert (status.availableReplicas, status.unavailableReplicas, status.terminatingReplicas) == (4, 1, 2)
    assert (status.observedGeneration, status.collisionCount) == (7, 2)
    assert condition_of(status, "Available") == (
        "True",
        "MinimumReplicasAvailable",
        "Deployment has minimum availability.",
    )


def test_one_set_that_does_not_count_terminating_pods_hides_the_sum() -> None:
    silent = replica_set("a", 1)
    silent.status.terminatingReplicas = None
    assert calculate_status(deployment(1), ReplicaSets(silent, []), NOW).terminatingReplicas is None
    silent.status.observedGeneration = 0
    assert calculate_status(deployment(1), ReplicaSets(silent, []), NOW).terminatingReplicas == 0


@pytest.mark.parametrize(("available", "expected"), [(3, "True"), (2, "False")])
def test_enough_are_available(available: int, expected: str) -> None:
    status = calculate_status(deployment(4), ReplicaSets(replica_set("n", 4, available=available), []), NOW)
    assert condition_of(status, "Available") == (
        expected,
        "MinimumReplicasAvailable" if expected == "True" else "MinimumReplicasUnavailable",
        "Deployment has minimum availability."
        if expected == "True"
        else "Deployment does not have minimum availability.",
    )


def judged(deployment: Deployment, new: Any, *old: Any) -> tuple[str, str, str] | None:
    return condition_of(rollout_status(deployment, ReplicaSets(new, old), NOW), "Progressing")


def test_complete() -> None:
    status = {"conditions": [progressing("ReplicaSetUpdated")]}
    assert judged(deployment(2, status=status), replica_set("n", 2)) == (
        "True",
        "NewReplicaSetAvailable",
        'ReplicaSet "web-n" has successfully progressed.',
    )


def test_progress_renews_the_time_of_the_update_alone() -> None:
    status = {"conditions": [progressing("ReplicaSetUpdated", age_s=100)]}
    status_ = rollout_status(deployment(2, status=status), ReplicaSets(replica_set("n", 2, available=1), []), NOW)
    assert condition_of(status_, "Progressing") == ("True", "ReplicaSetUpdated", 'ReplicaSet "web-n" is progressing.')
    condition = find_condition(status_.conditions, "Progressing")
    assert condition is not None
    assert condition.lastUpdateTime == times.format_time(NOW)
    assert condition.lastTransitionTime == times.format_time(NOW - 100)


COUNTS = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1}


@pytest.mark.parametrize(
    ("reason", "age_s", "expected"),
    [
        ("ReplicaSetUpdated", 600, "ReplicaSetUpdated"),
        ("ReplicaSetUpdated", 601, "ProgressDeadlineExceeded"),
        ("NewReplicaSetCreated", 601, "ProgressDeadlineExceeded"),
        ("DeploymentResumed", 601, "ProgressDeadlineExceeded"),
        ("ProgressDeadlineExceeded", 5, "ProgressDeadlineExceeded"),
        ("NewReplicaSetAvailable", 9999, "NewReplicaSetAvailable"),
    ],
)
def test_no_progress(reason: str, age_s: float, expected: str) -> None:
    deployment_ = deployment(2, status={**COUNTS, "conditions": [progressing(reason, age_s=age_s)]})
    judgement = judged(deployment_, replica_set("n", 2, available=1))
    assert judgement is not None
    assert judgement[1] == expected
    if expected == "ProgressDeadlineExceeded" != reason:
        assert judgement == ("False", expected, 'ReplicaSet "web-n" has timed out progressing.')


def test_a_late_update_that_ends_is_complete() -> None:
    late = progressing("ProgressDeadlineExceeded", status="False")
    deployment_ = deployment(2, status={**COUNTS, "conditions": [late]})
    assert judged(deployment_, replica_set("n", 2)) == (
        "True",
        "NewReplicaSetAvailable",
        'ReplicaSet "web-n" has successfully progressed.',
    )


def test_without_a_deadline_nothing_is_judged() -> None:
    status = {"conditions": [progressing("ReplicaSetUpdated")]}
    assert judged(deployment(2, deadline=None, status=status), replica_set("n", 1)) is None


def test_a_replica_set_that_cannot_create_pods_is_reported() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no"}
    new, old = replica_set("n", 2, conditions=[failure]), replica_set("o", 1, conditions=[{**failure, "message": "x"}])
    status = rollout_status(deployment(2), ReplicaSets(new, [old]), NOW)
    assert condition_of(status, "ReplicaFailure") == ("True", "FailedCreate", "no")
    before = deployment(2, status={"conditions": [failure]})
    assert condition_of(rollout_status(before, ReplicaSets(replica_set("n", 2), []), NOW), "ReplicaFailure") is None


@pytest.mark.parametrize(
    ("paused", "before", "deadline", "expected"),
    [
        pytest.param(True, None, 600, ("Unknown", "DeploymentPaused", "Deployment is paused"), id="paused"),
        pytest.param(
            True, "ReplicaSetUpdated", 600, ("Unknown", "DeploymentPaused", "Deployment is paused"), id="midway"
        ),
        pytest.param(True, "DeploymentPaused", 600, ("Unknown", "DeploymentPaused", "m"), id="told"),
        pytest.param(
            False, "DeploymentPaused", 600, ("Unknown", "DeploymentResumed", "Deployment is resumed"), id="on"
        ),
        pytest.param(False, None, 600, None, id="never paused"),
        pytest.param(True, "ProgressDeadlineExceeded", 600, ("Unknown", "ProgressDeadlineExceeded", "m"), id="late"),
        pytest.param(True, None, None, None, id="no deadline"),
    ],
)
def test_pausing_stops_the_watch(
    paused: bool, before: str | None, deadline: int | None, expected: tuple[str, str, str] | None
) -> None:
    status = {"conditions": [progressing(before, status="Unknown")]} if before else {}
    deployment_ = deployment(2, paused=paused, deadline=deadline, status=status)
    after = DeploymentStatus(conditions=paused_or_resumed(deployment_, NOW))
    assert condition_of(after, "Progressing") == expected


def test_when_to_look_again() -> None:
    status = {**COUNTS, "conditions": [progressing("ReplicaSetUpdated", age_s=100)]}
    deployment_ = deployment(2, status=status)
    assert next_check_s(deployment_, deployment_.status, NOW) == 501
    assert next_check_s(deployment_, deployment_.status, NOW + 1000) == 1
    done = deployment(1, status={"conditions": [progressing("NewReplicaSetAvailable")], "observedGeneration": 1})
    done.status.replicas = done.status.updatedReplicas = done.status.availableReplicas = 1
    assert next_check_s(done, done.status, NOW) is None
