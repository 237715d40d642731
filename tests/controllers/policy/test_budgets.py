"""The status of a disruption budget, computed from its spec and pods."""

from typing import Any

import pytest

from sampan.api.types.core_v1 import Pod, PodCondition, PodStatus
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from sampan.api.values import times
from sampan.controllers.policy import budgets
from sampan.controllers.policy.budgets import ExpectedPods

NOW = 1_767_225_600.0
STAMP = times.format_time(NOW)


def ago(seconds: float) -> str:
    return times.format_time(NOW - seconds)


def pod(name: str = "p", *, is_ready: bool = True, is_deleted: bool = False, phase: str = "Running") -> Pod:
    ready = PodCondition(type="Ready", status="True" if is_ready else "False")
    return Pod(
        metadata=ObjectMeta(name=name, namespace="n", generation=3, deletionTimestamp=STAMP if is_deleted else None),
        status=PodStatus(phase=phase, conditions=[ready]),
    )


def budget(**status: Any) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="n", generation=2), status=PodDisruptionBudgetStatus(**status)
    )


@pytest.mark.parametrize(
    ("spec", "needs_scale", "expected"),
    [
        ({"minAvailable": 2}, False, ExpectedPods(5, 2)),
        ({"minAvailable": "50%"}, True, ExpectedPods(9, 5)),
        ({"minAvailable": "0%"}, True, ExpectedPods(9, 0)),
        ({"maxUnavailable": 2}, True, ExpectedPods(9, 7)),
        ({"maxUnavailable": 20}, True, ExpectedPods(9, 0)),
        ({"maxUnavailable": "30%"}, True, ExpectedPods(9, 6)),
        ({}, False, ExpectedPods(0, 0)),
    ],
)
def test_expected_pods_and_desired_healthy(spec: dict[str, Any], needs_scale: bool, expected: ExpectedPods) -> None:
    budget_spec = PodDisruptionBudgetSpec(**spec)
    assert budgets.needs_scale(budget_spec) is needs_scale
    assert budgets.expectation(budget_spec, 5, 9) == expected


@pytest.mark.parametrize(
    ("expected", "current", "allowed", "reason"),
    [
        (ExpectedPods(3, 2), 3, 1, "SufficientPods"),
        (ExpectedPods(3, 2), 2, 0, "InsufficientPods"),
        (ExpectedPods(3, 2), 1, 0, "InsufficientPods"),
        (ExpectedPods(0, 0), 3, 0, "InsufficientPods"),
    ],
)
def test_disruptions_allowed(expected: ExpectedPods, current: int, allowed: int, reason: str) -> None:
    status = budgets.compute_status(budget(), expected, current, {}, STAMP)
    assert (status.disruptionsAllowed, status.observedGeneration, status.currentHealthy) == (allowed, 2, current)
    (condition,) = status.conditions
    assert (condition.type, condition.reason, condition.observedGeneration) == ("DisruptionAllowed", reason, 2)
    assert condition.status == ("True" if allowed else "False")


def test_transition_time_changes_only_with_the_condition_status() -> None:
    first = budgets.compute_status(budget(), ExpectedPods(3, 2), 3, {}, ago(100)).conditions
    same = budgets.compute_status(budget(conditions=first), ExpectedPods(3, 1), 3, {}, STAMP).conditions
    other = budgets.compute_status(budget(conditions=first), ExpectedPods(3, 3), 3, {}, STAMP).conditions
    assert [condition.lastTransitionTime for condition in (*same, *other)] == [ago(100), STAMP]


def test_sync_failure_allows_no_disruptions() -> None:
    status = budgets.make_failed_status(
        budget(disruptionsAllowed=3, currentHealthy=4, observedGeneration=1), "no luck", STAMP
    )
    assert (status.disruptionsAllowed, status.currentHealthy) == (0, 4)
    (condition,) = status.conditions
    assert (condition.status, condition.reason, condition.message) == ("False", "SyncFailed", "no luck")


def test_granted_evictions_end_with_the_pod_or_expire() -> None:
    granted = {"fresh": ago(20), "old": ago(121), "going": ago(5), "unknown": ago(5)}
    pods = [pod("fresh"), pod("old"), pod("going", is_deleted=True), pod("other")]
    disrupted = budgets.find_disrupted_pods(budget(disruptedPods=granted), pods, NOW)
    assert dict(disrupted.since) == {"fresh": ago(20)}
    assert [pod.metadata.name for pod in disrupted.expired] == ["old"]
    assert disrupted.again_s == pytest.approx(100, abs=0.01)
    assert budgets.count_healthy_pods(pods, disrupted.since, NOW) == 2
    assert budgets.find_disrupted_pods(budget(), pods, NOW).again_s is None


@pytest.mark.parametrize(
    ("pod", "expected"),
    [(pod(), 1), (pod(is_ready=False), 0), (pod(is_deleted=True), 0)],
    ids=["ready", "not ready", "deleted"],
)
def test_healthy_pods(pod: Pod, expected: int) -> None:
    assert budgets.count_healthy_pods([pod], {}, NOW) == expected


def target(since_s: float, *, status: str = "True", reason: str = "EvictionByEvictionAPI", **more: Any) -> Pod:
    new_pod = pod(**more)
    condition = PodCondition(type="DisruptionTarget", status=status, reason=reason, lastTransitionTime=ago(since_s))
    new_pod.status.conditions.append(condition)
    return new_pod


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(pod(), None, id="without DisruptionTarget"),
        pytest.param(target(20), 100.0, id="fresh"),
        pytest.param(target(200), 0.0, id="stale"),
        pytest.param(target(200, status="False"), None, id="status False"),
        pytest.param(target(200, reason="TerminationByKubelet"), None, id="set by the kubelet"),
        pytest.param(target(200, phase="Failed"), None, id="failed pod"),
        pytest.param(target(200, is_deleted=True), None, id="deleted pod"),
    ],
)
def test_seconds_until_a_disruption_target_is_stale(pod: Pod, expected: float | None) -> None:
    assert budgets.stale_in_s(pod, NOW) == expected


def test_disruption_target_is_set_to_false() -> None:
    changed = budgets.without_disruption_target(target(200), STAMP)
    condition = changed.status.conditions[1]
    assert (condition.status, condition.reason, condition.lastTransitionTime) == ("False", "", STAMP)
    assert condition.observedGeneration == 3
