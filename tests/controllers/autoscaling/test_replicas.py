"""How many replicas metrics call for, with a comparison against an oracle that counts pod by pod."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import Pod
from sampan.controllers.autoscaling.metrics import MetricsUnavailable, PodMetric
from sampan.controllers.autoscaling.replicas import (
    PodWarmup,
    ScalingInputs,
    ScalingTolerances,
    estimate_by_average,
    estimate_by_utilization,
    estimate_by_value,
    estimate_by_value_per_pod,
    group_pods,
)
from tests.controllers.autoscaling.pod_metrics import NOW, pod


def situation(pods: Sequence[Pod], current: int | None = None, *, tolerance: float = 0.1) -> ScalingInputs:
    count = len(pods) if current is None else current
    return ScalingInputs(
        pods=pods,
        current=count,
        actual=count,
        tolerances=ScalingTolerances(tolerance, tolerance),
        warmup=PodWarmup(),
        now=NOW,
    )


def usage_of(**values: int) -> dict[str, PodMetric]:
    return {name: PodMetric(value, timestamp=NOW) for name, value in values.items()}


@pytest.mark.parametrize(
    ("values", "target", "expected", "percent"),
    [
        ([50, 50, 50], 50, 3, 50),
        ([54, 54, 54], 50, 3, 54),
        ([90, 90, 90], 50, 6, 90),
        ([10, 10, 10], 50, 1, 10),
        ([100, 0, 0], 50, 2, 33),
        ([300, 300], 100, 6, 300),
    ],
)
def test_replicas_by_utilization(values: list[int], target: int, expected: int, percent: int) -> None:
    pods = [pod(f"p{number}") for number in range(len(values))]
    metrics = {f"p{number}": PodMetric(value, NOW) for number, value in enumerate(values)}
    estimate = estimate_by_utilization(situation(pods), metrics, target, "cpu", "")
    assert (estimate.replicas, estimate.utilization) == (expected, percent)


def test_pods_without_metrics_dampen_scaling() -> None:
    pods = [pod("a"), pod("b"), pod("c")]
    assert estimate_by_utilization(situation(pods), usage_of(a=10, b=10), 50, "cpu", "").replicas == 3
    assert estimate_by_utilization(situation(pods), usage_of(a=100, b=100), 50, "cpu", "").replicas == 4
    assert estimate_by_average(situation(pods), usage_of(a=10_000, b=10_000), 40_000).replicas == 2


@pytest.mark.parametrize(
    ("new_pod", "unready", "ignored"),
    [
        (pod("n", phase="Pending"), True, False),
        (pod("n", ready=False, started_s=60, changed_s=60), True, False),
        (pod("n", ready=True, started_s=60, changed_s=10), True, False),
        (pod("n", ready=None), True, False),
        (pod("n", ready=False, started_s=3600, changed_s=3590), True, False),
        (pod("n", ready=False, started_s=3600, changed_s=60), False, False),
        (pod("n", ready=True, started_s=60, changed_s=60), False, False),
        (pod("n", phase="Failed"), False, True),
        (pod("n", is_deleted=True), False, True),
    ],
    ids=[
        "pending",
        "not ready within the initialization period",
        "ready for less than the metric window",
        "without Ready condition",
        "never ready",
        "no longer ready",
        "ready since its start",
        "failed",
        "deleted",
    ],
)
def test_pod_groups_by_phase_and_readiness(new_pod: Pod, unready: bool, ignored: bool) -> None:
    metrics = {"n": PodMetric(100, NOW, window_s=30)}
    groups = group_pods([new_pod], metrics, resource="cpu", warmup=PodWarmup(), now=NOW)
    assert (bool(groups.unready), bool(groups.ignored), groups.missing) == (unready, ignored, set())
    assert groups.ready == (not unready and not ignored)


@pytest.mark.parametrize(
    ("pods", "metrics", "message"),
    [
        ([], usage_of(a=1), "no pods returned by selector while calculating replica count"),
        (
            [pod("a", phase="Pending")],
            usage_of(a=1),
            "did not receive metrics for targeted pods (pods might be unready)",
        ),
        ([pod("a", request=None)], usage_of(a=1), "missing request for cpu in container c of Pod a"),
        ([pod("a")], usage_of(b=1), "no metrics returned matched known pods"),
    ],
)
def test_unusable_pods_or_metrics_make_metrics_unavailable(
    pods: list[Pod], metrics: dict[str, PodMetric], message: str
) -> None:
    with pytest.raises(MetricsUnavailable) as caught:
        estimate_by_utilization(situation(pods), metrics, 50, "cpu", "")
    assert str(caught.value) == message


def test_unknown_container_makes_metrics_unavailable() -> None:
    with pytest.raises(MetricsUnavailable, match="container x not found in Pod a"):
        estimate_by_utilization(situation([pod("a")]), usage_of(a=1), 50, "cpu", "x")


@pytest.mark.parametrize(
    ("usage", "target", "current", "expected"), [(10, 10, 2, 2), (25, 10, 2, 5), (3, 10, 2, 1), (25, 10, 0, 3)]
)
def test_replicas_by_value(usage: int, target: int, current: int, expected: int) -> None:
    assert estimate_by_value(situation([pod("a"), pod("b")], current), usage, target).replicas == expected


@pytest.mark.parametrize(
    ("usage", "target", "current", "expected", "average"), [(20, 10, 2, 2, 10), (55, 10, 2, 6, 28), (5, 10, 0, 1, 5)]
)
def test_replicas_by_value_per_pod(usage: int, target: int, current: int, expected: int, average: int) -> None:
    estimate = estimate_by_value_per_pod(situation([], current), usage, target)
    assert (estimate.replicas, estimate.average) == (expected, average)


# -- the oracle ----------------------------------------------------------------------------------------------------

KINDS = ("plain", "missing", "pending", "cold", "failed")
States = list[tuple[str, int]]
states = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 500)), min_size=1, max_size=8)


def cluster_of(states: States) -> tuple[list[Pod], dict[str, PodMetric]]:
    pods, metrics = [], {}
    for number, (kind, value) in enumerate(states):
        name = f"p{number}"
        phase = {"pending": "Pending", "failed": "Failed"}.get(kind, "Running")
        pods.append(pod(name, phase=phase, ready=kind != "cold", started_s=60, changed_s=60))
        if kind != "missing":
            metrics[name] = PodMetric(value, NOW)
    return pods, metrics


def oracle(states: States, current: int, target: int, tolerance: float) -> int | None:
    """The replicas for a target percentage of requests of 100 each, counted pod by pod."""
    plain = [value for kind, value in states if kind == "plain"]
    if not plain:
        return None
    missing = sum(kind == "missing" for kind, _ in states)
    unready = sum(kind in ("pending", "cold") for kind, _ in states)

    def ratio_of(values: list[int]) -> float:
        return (sum(values) * 100 // (100 * len(values))) / target

    def is_near(ratio: float) -> bool:
        return 1 - tolerance <= ratio <= 1 + tolerance

    ratio = ratio_of(plain)
    if missing == 0 and (unready == 0 or ratio <= 1):
        return current if is_near(ratio) else math.ceil(ratio * len(plain))
    values = list(plain)
    if ratio < 1:
        values += [max(100, target)] * missing
    if ratio > 1:
        values += [0] * (missing + unready)
    adjusted_ratio = ratio_of(values)
    if is_near(adjusted_ratio) or (ratio < 1 < adjusted_ratio) or (adjusted_ratio < 1 < ratio):
        return current
    expected = math.ceil(adjusted_ratio * len(values))
    if (adjusted_ratio < 1 and expected > current) or (adjusted_ratio > 1 and expected < current):
        return current
    return expected


@given(states, st.integers(1, 20), st.integers(1, 150), st.sampled_from([0.0, 0.1, 0.5]))
def test_replicas_by_utilization_match_oracle(states: States, current: int, target: int, tolerance: float) -> None:
    pods, metrics = cluster_of(states)
    expected = oracle(states, current, target, tolerance)
    current_situation = situation(pods, current, tolerance=tolerance)
    if expected is None:
        with pytest.raises(MetricsUnavailable):
            estimate_by_utilization(current_situation, metrics, target, "cpu", "")
    else:
        assert estimate_by_utilization(current_situation, metrics, target, "cpu", "").replicas == expected


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=8), st.integers(1, 5000))
def test_higher_usage_never_lowers_replicas(values: list[int], target: int) -> None:
    pods = [pod(f"p{number}") for number in range(len(values))]
    metrics = {f"p{number}": PodMetric(value, NOW) for number, value in enumerate(values)}
    more = {name: PodMetric(metric.value * 2, NOW) for name, metric in metrics.items()}
    first, second = (
        estimate_by_average(situation(pods, tolerance=0.0), values, target).replicas for values in (metrics, more)
    )
    assert second >= first
