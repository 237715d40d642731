"""What replicasets and replication controllers share: the plan and the status, as pure functions."""

from typing import Any

import pytest

from sampan.api.types.apps_v1 import ReplicaSet, ReplicaSetCondition
from sampan.api.types.core_v1 import Pod
from sampan.controllers.ownership.pods import BURST
from sampan.controllers.workloads.replicaset import (
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    next_look_s,
    plan,
    status_of,
)
from tests.controllers.ownership.objects import NOW, owner, pod


@pytest.mark.parametrize(
    ("active", "wanted", "creations", "deletions"),
    [(0, 0, 0, 0), (3, 3, 0, 0), (1, 3, 2, 0), (3, 1, 0, 2), (0, 2 * BURST, BURST, 0), (BURST + 9, 0, 0, BURST)],
)
def test_how_many_come_or_go(active: int, wanted: int, creations: int, deletions: int) -> None:
    pods = [pod(f"p{at}") for at in range(active)]
    made = plan(pods, wanted, lambda: (), NOW)
    assert (made.creations, len(made.deletions)) == (creations, deletions)


def test_the_least_loss_goes() -> None:
    pods = [pod("ready", node="n", ready_for_s=9), pod("waits", phase="Pending")]
    assert [found.metadata.name for found in plan(pods, 1, lambda: (), NOW).deletions] == ["waits"]


def made(**status: Any) -> ReplicaSet:
    found = owner(generation=4)
    found.spec.replicas, found.spec.minReadySeconds = 3, 5
    for name, value in status.items():
        setattr(found.status, name, value)
    return found


PODS = [
    pod("available", ready_for_s=5),
    pod("ready", ready_for_s=4),
    pod("runs"),
    pod("other", labels={"app": "web", "x": "y"}),
    pod("not-all-labels", labels={}),
]


def test_the_counts() -> None:
    found = status_of(REPLICA_SET, made(), PODS, 2, None, NOW)
    assert (found.replicas, found.fullyLabeledReplicas, found.readyReplicas, found.availableReplicas) == (5, 4, 2, 1)
    assert (found.terminatingReplicas, found.observedGeneration, found.conditions) == (2, 4, [])
    assert next_look_s(PODS, 5, NOW) == 1
    assert next_look_s(PODS, 0, NOW) is None


def test_a_replication_controller_counts_no_terminating_pods() -> None:
    assert REPLICATION_CONTROLLER.has_terminating is False


FAILED = ReplicaSetCondition(
    type="ReplicaFailure",
    status="True",
    lastTransitionTime="2025-01-01T00:00:00Z",
    reason="FailedCreate",
    message="old",
)
OTHER = ReplicaSetCondition(type="Other", status="True")


@pytest.mark.parametrize(
    ("present", "active", "failure", "wanted"),
    [
        pytest.param([], [], None, [], id="well"),
        pytest.param([OTHER], [], "no", [("Other", ""), ("ReplicaFailure", "FailedCreate: no")], id="cannot create"),
        pytest.param(
            [], PODS, "no", [("ReplicaFailure", "FailedDelete: unable to delete pods: no")], id="cannot delete"
        ),
        pytest.param([FAILED], [], "no", [("ReplicaFailure", "FailedCreate: old")], id="told already"),
        pytest.param([FAILED, OTHER], [], None, [("Other", "")], id="well again"),
    ],
)
def test_a_failure_is_a_condition(
    present: list[ReplicaSetCondition], active: list[Pod], failure: str | None, wanted: list[tuple[str, str]]
) -> None:
    found = status_of(REPLICA_SET, made(conditions=present), active, 0, ValueError(failure) if failure else None, NOW)
    told = [(each.type, f"{each.reason}: {each.message}" if each.reason else "") for each in found.conditions]
    assert told == wanted
