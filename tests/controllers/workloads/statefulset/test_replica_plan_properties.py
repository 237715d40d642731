"""From any state of the pods of a StatefulSet, its plans reach the desired state without a wrong step."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api.semantics.pods import is_available, is_terminal
from sampan.api.types.apps_v1 import StatefulSet
from sampan.api.types.core_v1 import Pod
from sampan.controllers.workloads.statefulset.identity import ordinal_of, ordinals, revision_of
from sampan.controllers.workloads.statefulset.replica_plan import (
    PARALLEL,
    ReplicaAction,
    StatefulSetPlan,
    StatefulSetView,
    decide,
    max_unavailable,
)
from tests.controllers.workloads.statefulset.objects import NOW, member, stateful_set, template

STATES: dict[str, dict[str, Any]] = {
    "ready": {},
    "not ready": {"is_ready": False},
    "pending": {"phase": "Pending"},
    "failed": {"phase": "Failed"},
    "succeeded": {"phase": "Succeeded"},
    "terminating": {"is_deleted": True},
}
PODS = st.dictionaries(
    st.integers(0, 6), st.tuples(st.sampled_from(sorted(STATES)), st.sampled_from(["old", "new"])), max_size=6
)
SETS = st.builds(
    stateful_set,
    st.integers(0, 5),
    policy=st.sampled_from(["OrderedReady", PARALLEL]),
    start=st.integers(0, 2),
    partition=st.integers(0, 6),
    max_unavailable=st.sampled_from([None, 1, 2, "50%"]),
)


def plan_replicas(sset: StatefulSet, pods: dict[int, Pod]) -> StatefulSetPlan:
    return decide(
        StatefulSetView(
            sset=sset,
            current="old",
            current_template=template("one"),
            update="new",
            update_template=template("two"),
            pods=list(pods.values()),
            claim=lambda name: None,
            now=NOW,
        )
    )


def check(sset: StatefulSet, pods: dict[int, Pod], plan: StatefulSetPlan) -> None:
    """Check that each step of the plan is allowed."""
    expected, partition = ordinals(sset), sset.spec.updateStrategy.rollingUpdate.partition or 0  # type: ignore[union-attr]
    for step in plan.steps:
        ordinal = ordinal_of(step.pod)
        if step.action is ReplicaAction.CREATE:
            assert ordinal in expected
            assert ordinal not in pods
            assert revision_of(step.pod) == ("old" if ordinal < expected.start + partition else "new")
        else:
            assert step.action is ReplicaAction.DELETE
            assert step.pod is pods[ordinal]
            assert step.pod.metadata.deletionTimestamp is None
            is_for_update = revision_of(step.pod) == "old" and ordinal >= expected.start + partition
            assert ordinal not in expected or is_terminal(step.pod) or is_for_update
    if sset.spec.podManagementPolicy != PARALLEL:
        assert len(plan.steps) <= max_unavailable(sset)
        for step in plan.steps:
            if step.action is ReplicaAction.CREATE:
                below = [pods.get(ordinal) for ordinal in expected if ordinal < ordinal_of(step.pod)]
                assert all(pod is not None and is_available(pod, 0, NOW) for pod in below)


def apply_plan(sset: StatefulSet, pods: dict[int, Pod], plan: StatefulSetPlan) -> dict[int, Pod]:
    """The pods after the plan, when terminating pods are gone and other pods are ready."""
    gone = {ordinal_of(step.pod) for step in plan.steps if step.action is ReplicaAction.DELETE}
    created = {
        ordinal_of(step.pod): revision_of(step.pod) for step in plan.steps if step.action is ReplicaAction.CREATE
    }
    after = {}
    for ordinal, pod in pods.items():
        if ordinal in gone or pod.metadata.deletionTimestamp is not None:
            continue
        is_finished = is_terminal(pod)
        after[ordinal] = pod if is_finished else member(sset, ordinal, revision=revision_of(pod))
    return after | {ordinal: member(sset, ordinal, revision=revision) for ordinal, revision in created.items()}


@settings(max_examples=150, deadline=None)
@given(SETS, PODS)
def test_plans_reach_the_desired_state(sset: StatefulSet, states: dict[int, tuple[str, str]]) -> None:
    pods = {at: member(sset, at, revision=revision, **STATES[state]) for at, (state, revision) in states.items()}
    for _ in range(40):
        plan = plan_replicas(sset, pods)
        check(sset, pods, plan)
        pods = apply_plan(sset, pods, plan)
    expected, partition = ordinals(sset), sset.spec.updateStrategy.rollingUpdate.partition or 0  # type: ignore[union-attr]
    assert sorted(pods) == list(expected)
    assert all(is_available(pod, 0, NOW) for pod in pods.values())
    assert all(revision_of(pods[at]) == "new" for at in expected if at >= expected.start + partition)
    assert (plan.status.replicas, plan.status.readyReplicas) == (len(expected), len(expected))
