"""The next steps of a StatefulSet."""

from typing import Any

import pytest

from sampan.api.types.apps_v1 import StatefulSet, StatefulSetCondition
from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod
from sampan.controllers.ownership.pods import BURST
from sampan.controllers.workloads.statefulset import replica_plan
from sampan.controllers.workloads.statefulset.identity import (
    INDEX_LABEL,
    POD_NAME_LABEL,
    has_identity,
    has_storage,
    new_pod,
    revision_of,
)
from sampan.controllers.workloads.statefulset.replica_plan import StatefulSetPlan, StatefulSetView, decide
from sampan.controllers.workloads.statefulset.volume_claims import new_claims
from tests.controllers.workloads.statefulset.objects import NOW, member, stateful_set, template


def plan_replicas(
    sset: StatefulSet, pods: list[Pod], *, claims: list[PersistentVolumeClaim] | None = None, **more: Any
) -> StatefulSetPlan:
    claims_by_name = {claim.metadata.name: claim for claim in claims or []}
    fields: dict[str, Any] = {"current": "one", "update": "one", **more}
    return decide(
        StatefulSetView(
            sset=sset,
            current_template=template("one"),
            update_template=template("two"),
            pods=pods,
            claim=claims_by_name.get,
            now=NOW,
            **fields,
        )
    )


def step_texts(plan: StatefulSetPlan) -> list[str]:
    return [f"{step.action.name.lower()} {step.pod.metadata.name}" for step in plan.steps]


NOT_READY: dict[str, Any] = {"is_ready": False}
CASES: list[tuple[str, dict[str, Any], dict[int, dict[str, Any]], list[str]]] = [
    ("no pods", {}, {}, ["create web-0"]),
    ("first pod not ready", {}, {0: NOT_READY}, []),
    ("first pod ready", {}, {0: {}}, ["create web-1"]),
    ("a gap is filled first", {}, {0: {}, 2: {}}, ["create web-1"]),
    ("all pods ready", {}, {0: {}, 1: {}, 2: {}}, []),
    ("waits for a terminating pod", {}, {0: {}, 1: {"is_deleted": True}}, []),
    ("failed pod is deleted", {}, {0: {}, 1: {"phase": "Failed"}, 2: {}}, ["delete web-1"]),
    ("succeeded pod is deleted", {}, {0: {"phase": "Succeeded"}}, ["delete web-0"]),
    ("waits for a terminating failed pod", {}, {0: {"phase": "Failed", "is_deleted": True}}, []),
    ("parallel", {"policy": "Parallel"}, {}, ["create web-0", "create web-1", "create web-2"]),
    ("parallel fills gaps", {"policy": "Parallel"}, {1: NOT_READY}, ["create web-0", "create web-2"]),
    ("start ordinal", {"start": 5}, {}, ["create web-5"]),
    ("start ordinal, next pod", {"start": 5}, {5: {}}, ["create web-6"]),
    ("pod below the start ordinal is deleted", {"start": 1, "replicas": 1}, {0: {}, 1: {}}, ["delete web-0"]),
    ("scale down from the top", {"replicas": 1}, {0: {}, 1: {}, 2: {}}, ["delete web-2"]),
    ("scale down waits for a terminating pod", {"replicas": 1}, {0: {}, 1: {}, 2: {"is_deleted": True}}, []),
    (
        "scale down does not wait for an unready condemned pod below",
        {"replicas": 1},
        {0: {}, 1: NOT_READY, 2: {}},
        ["delete web-2"],
    ),
    ("scale down waits for an unready replica", {"replicas": 1}, {0: NOT_READY, 1: {}}, []),
    ("scale down waits while two condemned pods are unready", {"replicas": 1}, {0: {}, 1: NOT_READY, 2: NOT_READY}, []),
    (
        "failed condemned pod is deleted",
        {"replicas": 0},
        {0: {"phase": "Failed"}, 1: {"phase": "Failed"}},
        ["delete web-1"],
    ),
    ("only unready condemned pod is deleted", {"replicas": 1}, {0: {}, 1: {}, 2: NOT_READY}, ["delete web-2"]),
    (
        "parallel scale down",
        {"replicas": 0, "policy": "Parallel"},
        {0: {}, 1: NOT_READY},
        ["delete web-1", "delete web-0"],
    ),
    ("not ready for long enough", {"min_ready": 10}, {0: {"ready_for_s": 9}}, []),
    ("ready for long enough", {"min_ready": 10}, {0: {"ready_for_s": 10}}, ["create web-1"]),
    ("deleted StatefulSet does nothing", {"deletionTimestamp": "2026-01-01T00:00:00Z"}, {}, []),
]


@pytest.mark.parametrize(("fields", "pods", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_steps_by_pod_management_policy(
    fields: dict[str, Any], pods: dict[int, dict[str, Any]], expected: list[str]
) -> None:
    sset = stateful_set(**fields)
    assert step_texts(plan_replicas(sset, [member(sset, at, **state) for at, state in pods.items()])) == expected


TWO: dict[str, Any] = {"revision": "two"}
UPDATES: list[tuple[str, dict[str, Any], dict[int, dict[str, Any]], list[str]]] = [
    ("from the top", {}, {0: {}, 1: {}, 2: {}}, ["delete web-2"]),
    ("one after the other", {}, {0: {}, 1: {}, 2: TWO}, ["delete web-1"]),
    ("waits for the updated pod", {}, {0: {}, 1: {}, 2: {**TWO, **NOT_READY}}, []),
    ("waits for the terminating pod", {}, {0: {}, 1: {}, 2: {"is_deleted": True}}, []),
    ("complete", {}, {0: TWO, 1: TWO, 2: TWO}, []),
    ("partition", {"partition": 2}, {0: {}, 1: {}, 2: {}}, ["delete web-2"]),
    ("partition reached", {"partition": 2}, {0: {}, 1: {}, 2: TWO}, []),
    ("partition beyond", {"partition": 3}, {0: {}, 1: {}, 2: {}}, []),
    ("partition counts from the start", {"partition": 1, "start": 5}, {5: {}, 6: {}, 7: TWO}, ["delete web-6"]),
    ("partition reached from the start", {"partition": 1, "start": 5}, {5: {}, 6: TWO, 7: TWO}, []),
    ("on delete", {"strategy": "OnDelete"}, {0: {}, 1: {}, 2: {}}, []),
    ("unready old pod blocks OrderedReady", {}, {0: NOT_READY, 1: {}, 2: {}}, []),
    ("Parallel updates one pod at a time", {"policy": "Parallel"}, {0: {}, 1: {}, 2: {**TWO, **NOT_READY}}, []),
    ("scaling goes before updating", {"replicas": 2}, {0: {}, 1: {}, 2: {}}, ["delete web-2"]),
]


@pytest.mark.parametrize("has_budget", [True, False])
@pytest.mark.parametrize(("fields", "pods", "expected"), [pytest.param(*case[1:], id=case[0]) for case in UPDATES])
def test_steps_of_a_rolling_update(
    fields: dict[str, Any], pods: dict[int, dict[str, Any]], expected: list[str], has_budget: bool
) -> None:
    sset = stateful_set(**fields)
    present = [member(sset, at, **state) for at, state in pods.items()]
    assert step_texts(plan_replicas(sset, present, update="two", has_unavailability_budget=has_budget)) == expected


PARALLEL_2: dict[str, Any] = {"policy": "Parallel", "max_unavailable": 2}
BUDGETS: list[tuple[str, dict[str, Any], dict[int, dict[str, Any]], list[str], list[str]]] = [
    (
        "two at a time",
        {"max_unavailable": 2},
        {0: {}, 1: {}, 2: {}},
        ["delete web-2", "delete web-1"],
        ["delete web-2"],
    ),
    (
        "a percentage is rounded down",
        {"max_unavailable": "70%"},
        {0: {}, 1: {}, 2: {}},
        ["delete web-2", "delete web-1"],
        ["delete web-2"],
    ),
    ("at least one", {"max_unavailable": "10%"}, {0: {}, 1: {}, 2: {}}, ["delete web-2"], ["delete web-2"]),
    (
        "not below the partition",
        {"max_unavailable": 3, "partition": 1},
        {0: {}, 1: {}, 2: {}},
        ["delete web-2", "delete web-1"],
        ["delete web-2"],
    ),
    ("OrderedReady waits for all pods", {"max_unavailable": 2}, {0: {}, 1: {}, 2: {**TWO, **NOT_READY}}, [], []),
    (
        "Parallel uses the rest of the budget",
        PARALLEL_2,
        {0: {}, 1: {}, 2: {**TWO, **NOT_READY}},
        ["delete web-1"],
        [],
    ),
    ("Parallel, the budget is used up", {"policy": "Parallel"}, {0: {}, 1: {}, 2: {"is_deleted": True}}, [], []),
    (
        "Parallel deletes unready old pods first",
        {"policy": "Parallel"},
        {0: NOT_READY, 1: {}, 2: {}},
        ["delete web-0"],
        ["delete web-2"],
    ),
    (
        "Parallel, unready old pods beyond the budget",
        PARALLEL_2,
        {0: NOT_READY, 1: NOT_READY, 2: NOT_READY},
        ["delete web-2", "delete web-1", "delete web-0"],
        ["delete web-2"],
    ),
    (
        "Parallel, unready old pods and one healthy pod",
        PARALLEL_2,
        {0: NOT_READY, 1: {}, 2: {}},
        ["delete web-0", "delete web-2"],
        ["delete web-2"],
    ),
    (
        "Parallel, a missing pod counts",
        PARALLEL_2,
        {0: {}, 2: {}},
        ["create web-1", "delete web-2"],
        ["create web-1", "delete web-2"],
    ),
]


@pytest.mark.parametrize(
    ("fields", "pods", "with_budget", "without"), [pytest.param(*case[1:], id=case[0]) for case in BUDGETS]
)
def test_max_unavailable_is_the_budget_of_a_rolling_update(
    fields: dict[str, Any], pods: dict[int, dict[str, Any]], with_budget: list[str], without: list[str]
) -> None:
    sset = stateful_set(**fields)
    present = [member(sset, at, **state) for at, state in pods.items()]
    assert step_texts(plan_replicas(sset, present, update="two")) == with_budget
    assert step_texts(plan_replicas(sset, present, update="two", has_unavailability_budget=False)) == without


def progress(plan: StatefulSetPlan) -> list[tuple[str, str, str]]:
    return [(condition.status, condition.reason, condition.message) for condition in plan.status.conditions]


DELETING = ("True", "RecreateInProgress", "Deleting old revision pods")
CREATING = ("True", "RecreateInProgress", "Waiting for new-revision pods to be created")
COMPLETED = ("False", "RecreateCompleted", "All pods recreated successfully")
RECREATIONS: list[tuple[str, dict[int, dict[str, Any]], list[str], list[tuple[str, str, str]]]] = [
    ("all at once", {0: NOT_READY, 1: {}}, ["delete web-0", "delete web-1"], [DELETING]),
    ("condemned ones, too", {0: {}, 1: TWO, 2: {}}, ["delete web-0", "delete web-2"], [DELETING]),
    ("terminating ones are waited for", {0: {"is_deleted": True}}, [], [DELETING]),
    ("then the first is created", {}, ["create web-0"], [CREATING]),
    ("pods of the new revision stay", {0: {**TWO, **NOT_READY}}, [], [CREATING]),
    ("complete", {0: TWO, 1: TWO}, [], [COMPLETED]),
]


@pytest.mark.parametrize(("pods", "steps", "conditions"), [pytest.param(*case[1:], id=case[0]) for case in RECREATIONS])
def test_recreate_deletes_all_old_pods_before_it_creates_new_ones(
    pods: dict[int, dict[str, Any]], steps: list[str], conditions: list[tuple[str, str, str]]
) -> None:
    sset = stateful_set(2, strategy="Recreate")
    plan = plan_replicas(sset, [member(sset, at, **state) for at, state in pods.items()], update="two")
    assert (step_texts(plan), progress(plan)) == (steps, conditions)


def test_conditions_are_kept() -> None:
    sset = stateful_set(1)
    sset.status.conditions = [StatefulSetCondition(type="Quorum", status="True")]
    plan = plan_replicas(sset, [member(sset, 0)])
    assert [condition.type for condition in plan.status.conditions] == ["Quorum"]


@pytest.mark.parametrize(
    ("fields", "ordinal", "revision"),
    [
        ({}, 0, "two"),
        ({"partition": 1}, 0, "one"),
        ({"partition": 1}, 1, "two"),
        ({"partition": 1, "start": 5}, 5, "one"),
        ({"partition": 1, "start": 5}, 6, "two"),
        ({"strategy": "OnDelete"}, 0, "two"),
    ],
)
def test_a_new_pod_has_the_revision_of_its_ordinal(fields: dict[str, Any], ordinal: int, revision: str) -> None:
    sset = stateful_set(policy="Parallel", **fields)
    pods_by_name = {step.pod.metadata.name: step.pod for step in plan_replicas(sset, [], update="two").steps}
    pod = pods_by_name[f"web-{ordinal}"]
    assert revision_of(pod) == revision
    assert [c.image for c in pod.spec.containers or ()] == [revision]


def test_new_pod_has_the_identity_of_its_ordinal() -> None:
    sset = stateful_set(1, start=7, claims=["data"])
    pod = plan_replicas(sset, []).steps[0].pod
    assert (pod.metadata.name, pod.metadata.generateName, pod.metadata.namespace) == ("web-7", "web-", "default")
    assert pod.metadata.labels[POD_NAME_LABEL] == "web-7"
    assert pod.metadata.labels[INDEX_LABEL] == "7"
    assert (pod.spec.hostname, pod.spec.subdomain) == ("web-7", "nginx")
    assert pod.spec.volumes[0].persistentVolumeClaim is not None
    assert pod.spec.volumes[0].persistentVolumeClaim.claimName == "data-web-7"
    assert has_identity(sset, pod)
    assert has_storage(sset, pod)


def test_pod_with_wrong_identity_or_storage_is_corrected() -> None:
    sset = stateful_set(1, claims=["data"])
    without_label = member(sset, 0)
    del without_label.metadata.labels[POD_NAME_LABEL]
    assert step_texts(plan_replicas(sset, [without_label])) == ["correct web-0"]
    without_volumes = member(sset, 0)
    without_volumes.spec.volumes = []
    assert step_texts(plan_replicas(sset, [without_volumes])) == ["correct web-0"]


def test_pending_pod_gets_its_missing_claims() -> None:
    sset = stateful_set(2, claims=["data"])
    pending = member(sset, 0, phase="Pending")
    assert step_texts(plan_replicas(sset, [pending])) == ["add_claims web-0"]
    assert step_texts(plan_replicas(sset, [pending], claims=new_claims(sset, pending))) == []


def test_status_counts() -> None:
    sset = stateful_set(3, min_ready=10, generation=4)
    pods = [
        member(sset, 0, revision="one"),
        member(sset, 1, revision="two", ready_for_s=3),
        member(sset, 2, revision="two", is_deleted=True),
        member(sset, 3, revision="two", is_ready=False),
    ]
    status = plan_replicas(sset, pods, update="two", collisions=2).status
    assert (status.replicas, status.readyReplicas, status.availableReplicas) == (4, 3, 2)
    assert (status.currentReplicas, status.updatedReplicas) == (1, 2)
    assert (status.currentRevision, status.updateRevision) == ("one", "two")
    assert (status.observedGeneration, status.collisionCount) == (4, 2)


@pytest.mark.parametrize("strategy", ["RollingUpdate", "OnDelete", "Recreate"])
def test_update_of_all_pods_becomes_the_current_revision(strategy: str) -> None:
    sset = stateful_set(2, strategy=strategy)
    status = plan_replicas(sset, [member(sset, at, revision="two") for at in range(2)], update="two").status
    assert (status.currentRevision, status.currentReplicas, status.updatedReplicas) == ("two", 2, 2)


def test_pod_deleted_for_the_update_is_not_counted_as_current() -> None:
    sset = stateful_set(2)
    plan = plan_replicas(sset, [member(sset, at) for at in range(2)], update="two")
    assert step_texts(plan) == ["delete web-1"]
    assert (plan.status.currentReplicas, plan.status.updatedReplicas) == (1, 0)


HUGE = 2_000_000_000


@pytest.mark.parametrize(
    ("policy", "pods", "expected", "replicas"),
    [
        pytest.param("OrderedReady", {}, 1, 0, id="OrderedReady, no pods"),
        pytest.param("OrderedReady", {0: {}, 7: {}}, 1, 2, id="OrderedReady, a gap"),
        pytest.param("Parallel", {}, BURST, 0, id="Parallel, no pods"),
        pytest.param("Parallel", {3: {}, HUGE - 1: {}}, BURST, 2, id="Parallel, two pods far apart"),
    ],
)
def test_two_billion_replicas_are_planned_in_bounded_batches(
    monkeypatch: pytest.MonkeyPatch, policy: str, pods: dict[int, dict[str, Any]], expected: int, replicas: int
) -> None:
    created: list[int] = []

    def record_new_pod(sset: StatefulSet, template: Any, revision: str, ordinal: int) -> Pod:
        created.append(ordinal)
        return new_pod(sset, template, revision, ordinal)

    sset = stateful_set(HUGE, policy=policy)
    present = [member(sset, ordinal, **state) for ordinal, state in pods.items()]
    monkeypatch.setattr(replica_plan, "new_pod", record_new_pod)
    plan = plan_replicas(sset, present)
    assert (len(plan.steps), len(created), plan.status.replicas) == (expected, expected, replicas)


def test_parallel_scale_down_deletes_at_most_one_burst() -> None:
    sset = stateful_set(0, policy="Parallel")
    present = [member(sset, ordinal) for ordinal in range(BURST + 10)]
    expected = [f"delete web-{ordinal}" for ordinal in reversed(range(10, BURST + 10))]
    assert step_texts(plan_replicas(sset, present)) == expected, "the highest ordinals first"
