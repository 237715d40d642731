"""DefaultPreemption against brute force on small clusters, and its choice between nodes."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import Container, Node, NodeStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.api.types.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from sampan.scheduler.cache.pod_info import PodInfo, PodInfoTable
from sampan.scheduler.framework.contract import PostFilterResult
from sampan.scheduler.plugins.default_preemption import PreemptionCandidate, choose, split_by_budget, victims_on
from sampan.scheduler.simulation import Simulation
from tests.scheduler.random_clusters import Situation, few, fill_informers, plugin_of, requests_nothing_else, situations


def run_post_filter(simulation: Simulation, pod: Pod) -> PostFilterResult | None:
    """The result of PostFilter; None if the pod fits without preemption."""
    cycle = simulation.cycle(pod)
    result = simulation.profile.select_node(cycle)
    if result.diagnosis is None:
        return None
    plugin = plugin_of(simulation, "DefaultPreemption")
    nomination: PostFilterResult = asyncio.run(plugin.post_filter(cycle, result.diagnosis))
    return nomination


def fits_without(situation: Situation, node: str, removed: tuple[Pod, ...]) -> bool:
    """Whether the pod fits on the node without these pods."""
    left = [pod for pod in situation.pods if pod not in removed]
    simulation = Situation(situation.nodes, left, situation.pod, situation.namespaces).simulation()
    return simulation.profile.fits(simulation.cycle(situation.pod), simulation.table.rows[node])


def make_pod(name: str, node: str, cpu: str, priority: int) -> Pod:
    container = Container(name="c", resources=ResourceRequirements(requests={"cpu": cpu}))
    meta = ObjectMeta(name=name, namespace="x", uid=name)
    return Pod(metadata=meta, spec=PodSpec(nodeName=node, priority=priority, containers=[container]))


@st.composite
def crowded_situations(draw: Any) -> Situation:
    """Nodes that are full of pods, most of which have a lower priority than the pending pod."""
    nodes, pods = [], []
    for number in range(draw(st.integers(1, 3))):
        name = f"n{number}"
        cpus = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
        nodes.append(
            Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable={"cpu": str(sum(cpus)), "pods": "9"}))
        )
        for at, cpu in enumerate(cpus):
            pods.append(make_pod(f"{name}-{at}", name, str(cpu), draw(st.sampled_from([0, 0, 1, 1, 2]))))
    pod = make_pod("new", "", str(draw(st.integers(1, 5))), 2)
    return Situation(nodes=nodes, pods=pods, pod=pod, namespaces={"x": {}})


def test_preemption_succeeds_where_possible_with_minimal_victims() -> None:
    outcomes: Counter[str] = Counter()

    @few
    @given(st.one_of(situations(max_nodes=3, most_pods=5), crowded_situations(), crowded_situations()))
    def check(situation: Situation) -> None:
        outcomes[check_preemption(situation)] += 1

    check()
    assert outcomes["success"] >= 5, outcomes
    assert outcomes["failure"] >= 1, outcomes


def check_preemption(situation: Situation) -> str:
    """Compare the preemption for the pending pod with brute force. Return "fits", "success" or "failure"."""
    situation.pod.spec.priority = 2
    simulation = situation.simulation()
    before = simulation.table.requested.copy()
    result = run_post_filter(simulation, situation.pod)
    assert requests_nothing_else(simulation, before), "a plan changes nothing"
    if result is None:
        return "fits"
    possible = {
        node.metadata.name
        for node in situation.nodes
        if (lower := tuple(pod for pod in situation.pods_on(node) if (pod.spec.priority or 0) < 2))
        and fits_without(situation, node.metadata.name, lower)
    }
    if not result.is_success:
        assert result.message.startswith("preemption: 0/")
        final = finally_rejected_nodes(situation)
        assert possible <= final, "only nodes with a final rejection are skipped"
        return "failure"
    assert result.nominated in possible
    victims = tuple(info.pod for info in result.victims)
    placement = f"found a potential placement for pod on node {result.nominated}, preempting {len(victims)} victims"
    assert result.message == f"preemption: {placement}"
    assert fits_without(situation, result.nominated, victims)
    for spared in victims:
        others = tuple(pod for pod in victims if pod is not spared)
        assert not fits_without(situation, result.nominated, others), "every victim is needed"
    return "success"


def finally_rejected_nodes(situation: Situation) -> set[str]:
    simulation = situation.simulation()
    diagnosis = simulation.select_node(situation.pod).diagnosis
    assert diagnosis is not None
    codes = {name: int(diagnosis.codes[row]) for name, row in simulation.table.rows.items()}
    return {name for name, code in codes.items() if diagnosis.rejections[code].is_final}


PODS = PodInfoTable()


def victim(name: str, priority: int, started: str = "2026-01-01T00:00:00Z", app: str = "") -> PodInfo:
    labels = {"app": app} if app else {}
    meta = ObjectMeta(name=name, namespace="n", uid=name, labels=labels)
    return PODS.info(Pod(metadata=meta, spec=PodSpec(priority=priority), status=PodStatus(startTime=started)))


@pytest.mark.parametrize(
    ("best", "other"),
    [
        pytest.param(([victim("a", 9)], 0), ([victim("b", 1)], 1), id="fewest budget violations"),
        pytest.param(([victim("a", 1), victim("b", 1)], 0), ([victim("c", 2)], 0), id="lowest maximum priority"),
        pytest.param(([victim("a", 2)], 0), ([victim("b", 2), victim("c", 1)], 0), id="lowest sum of priorities"),
        pytest.param(
            ([victim("a", 2, "2026-01-02T00:00:00Z")], 0),
            ([victim("b", 2, "2026-01-01T00:00:00Z")], 0),
            id="latest start",
        ),
    ],
)
def test_candidate_with_the_least_disruption_is_chosen(
    best: tuple[list[PodInfo], int], other: tuple[list[PodInfo], int]
) -> None:
    expected = PreemptionCandidate(1, tuple(best[0]), best[1])
    worse = PreemptionCandidate(0, tuple(other[0]), other[1])
    assert choose([worse, expected]) is expected
    assert choose([expected, worse]) is expected


def test_victims_are_split_by_disruption_budget() -> None:
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="n"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(matchLabels={"app": "a"})),
        status=PodDisruptionBudgetStatus(disruptionsAllowed=1),
    )
    pods = [victim("1", 3, app="a"), victim("2", 2, app="b"), victim("3", 1, app="a"), victim("4", 0)]
    violating, others = split_by_budget(pods, [budget])
    assert [pod_info.name for pod_info in violating] == ["3"]
    assert [other.name for other in others] == ["1", "2", "4"]
    empty = msgspec.structs.replace(budget, spec=PodDisruptionBudgetSpec(selector=LabelSelector()))
    assert split_by_budget(pods, [empty])[0] == []


def test_violations_of_budgets_are_counted_and_the_pods_of_a_budget_spared() -> None:
    """Of two nodes with one victim each, the one without a protected pod is chosen, despite its higher priority."""
    nodes = [
        Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable={"cpu": "2", "pods": "9"}))
        for name in ("protected", "other")
    ]
    pods = [make_pod("guarded", "protected", "2", 0), make_pod("plain", "other", "2", 1)]
    pods[0].metadata.labels = {"app": "a"}
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="x"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(matchLabels={"app": "a"})),
        status=PodDisruptionBudgetStatus(disruptionsAllowed=0),
    )
    situation = Situation(nodes=nodes, pods=pods, pod=make_pod("new", "", "1", 2), namespaces={"x": {}})
    simulation = situation.simulation()
    fill_informers(simulation, budget)
    result = run_post_filter(simulation, situation.pod)
    assert result is not None
    assert result.nominated == "other"
    cycle = simulation.cycle(situation.pod)
    simulation.profile.select_node(cycle)
    violations = {}
    for node in nodes:
        candidate = victims_on(cycle, simulation.table.rows[node.metadata.name], [budget])
        assert isinstance(candidate, PreemptionCandidate)
        violations[node.metadata.name] = candidate.violations
    assert violations == {"protected": 1, "other": 0}
