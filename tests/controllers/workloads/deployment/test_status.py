"""Status of a Deployment: counts, and the conditions Available, Progressing and ReplicaFailure."""

from typing import Any

import pytest

from sampan.api.semantics.conditions import find_condition
from sampan.api.types.apps_v1 import Deployment, DeploymentStatus
from sampan.api.values import times
from sampan.controllers.workloads.deployment.replicasets import ReplicaSets
from sampan.controllers.workloads.deployment.status import (
    calculate_status,
    next_check_s,
    rollout_status,
    update_pause_condition,
)
from tests.controllers.ownership.objects import NOW
from tests.controllers.workloads.deployment.objects import deployment, replica_set


def condition_of(status: DeploymentStatus, type: str) -> tuple[str, str, str] | None:
    condition = find_condition(status.conditions, type)
    return (condition.status, condition.reason, condition.message) if condition else None


def build_progressing_condition(reason: str, *, status: str = "True", age_s: float = 10) -> dict[str, Any]:
    stamp = times.format_time(NOW - age_s)
    return {
        "type": "Progressing",
        "status": status,
        "reason": reason,
        "message": "m",
        "lastUpdateTime": stamp,
        "lastTransitionTime": stamp,
    }


def test_replica_counts() -> None:
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


def test_terminating_replicas_are_unknown_if_a_replicaset_does_not_count_them() -> None:
    without_terminating = replica_set("a", 1)
    without_terminating.status.terminatingReplicas = None
    assert calculate_status(deployment(1), ReplicaSets(without_terminating, []), NOW).terminatingReplicas is None
    without_terminating.status.observedGeneration = 0
    assert calculate_status(deployment(1), ReplicaSets(without_terminating, []), NOW).terminatingReplicas == 0


@pytest.mark.parametrize(("available", "expected"), [(3, "True"), (2, "False")])
def test_available_condition_requires_minimum_availability(available: int, expected: str) -> None:
    status = calculate_status(deployment(4), ReplicaSets(replica_set("n", 4, available=available), []), NOW)
    assert condition_of(status, "Available") == (
        expected,
        "MinimumReplicasAvailable" if expected == "True" else "MinimumReplicasUnavailable",
        "Deployment has minimum availability."
        if expected == "True"
        else "Deployment does not have minimum availability.",
    )


def progressing_condition(deployment: Deployment, new: Any, *old: Any) -> tuple[str, str, str] | None:
    return condition_of(rollout_status(deployment, ReplicaSets(new, old), NOW), "Progressing")


def test_complete_rollout_has_reason_new_replica_set_available() -> None:
    status = {"conditions": [build_progressing_condition("ReplicaSetUpdated")]}
    assert progressing_condition(deployment(2, status=status), replica_set("n", 2)) == (
        "True",
        "NewReplicaSetAvailable",
        'ReplicaSet "web-n" has successfully progressed.',
    )


def test_progress_renews_update_time_but_not_transition_time() -> None:
    status = {"conditions": [build_progressing_condition("ReplicaSetUpdated", age_s=100)]}
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
def test_rollout_without_progress_exceeds_the_deadline(reason: str, age_s: float, expected: str) -> None:
    deployment_ = deployment(2, status={**COUNTS, "conditions": [build_progressing_condition(reason, age_s=age_s)]})
    condition = progressing_condition(deployment_, replica_set("n", 2, available=1))
    assert condition is not None
    assert condition[1] == expected
    if expected == "ProgressDeadlineExceeded" != reason:
        assert condition == ("False", expected, 'ReplicaSet "web-n" has timed out progressing.')


def test_rollout_past_its_deadline_can_still_complete() -> None:
    late = build_progressing_condition("ProgressDeadlineExceeded", status="False")
    deployment_ = deployment(2, status={**COUNTS, "conditions": [late]})
    assert progressing_condition(deployment_, replica_set("n", 2)) == (
        "True",
        "NewReplicaSetAvailable",
        'ReplicaSet "web-n" has successfully progressed.',
    )


def test_no_progressing_condition_without_a_deadline() -> None:
    status = {"conditions": [build_progressing_condition("ReplicaSetUpdated")]}
    assert progressing_condition(deployment(2, deadline=None, status=status), replica_set("n", 1)) is None


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
            True,
            "ReplicaSetUpdated",
            600,
            ("Unknown", "DeploymentPaused", "Deployment is paused"),
            id="paused during an update",
        ),
        pytest.param(True, "DeploymentPaused", 600, ("Unknown", "DeploymentPaused", "m"), id="already paused"),
        pytest.param(
            False, "DeploymentPaused", 600, ("Unknown", "DeploymentResumed", "Deployment is resumed"), id="resumed"
        ),
        pytest.param(False, None, 600, None, id="never paused"),
        pytest.param(
            True,
            "ProgressDeadlineExceeded",
            600,
            ("Unknown", "ProgressDeadlineExceeded", "m"),
            id="paused after the deadline",
        ),
        pytest.param(True, None, None, None, id="no deadline"),
    ],
)
def test_progressing_condition_of_paused_and_resumed_deployments(
    paused: bool, before: str | None, deadline: int | None, expected: tuple[str, str, str] | None
) -> None:
    status = {"conditions": [build_progressing_condition(before, status="Unknown")]} if before else {}
    deployment_ = deployment(2, paused=paused, deadline=deadline, status=status)
    after = DeploymentStatus(conditions=update_pause_condition(deployment_, NOW))
    assert condition_of(after, "Progressing") == expected


def test_next_check_is_at_the_progress_deadline() -> None:
    status = {**COUNTS, "conditions": [build_progressing_condition("ReplicaSetUpdated", age_s=100)]}
    deployment_ = deployment(2, status=status)
    assert next_check_s(deployment_, deployment_.status, NOW) == 501
    assert next_check_s(deployment_, deployment_.status, NOW + 1000) == 1
    done = deployment(
        1, status={"conditions": [build_progressing_condition("NewReplicaSetAvailable")], "observedGeneration": 1}
    )
    done.status.replicas = done.status.updatedReplicas = done.status.availableReplicas = 1
    assert next_check_s(done, done.status, NOW) is None
