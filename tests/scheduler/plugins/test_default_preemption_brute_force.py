"""DefaultPreemption on small full clusters, compared with a search through every set of victims."""

import asyncio
from dataclasses import dataclass
from itertools import product
from typing import Any

import hypothesis
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import Container, Node, NodeStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.api.types.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from sampan.scheduler.framework.contract import PostFilterResult
from sampan.scheduler.simulation import Simulation
from tests.scheduler.random_clusters import fill_informers, plugin_of, profile_with


@dataclass
class FullCluster:
    capacity: dict[str, int]
    """CPUs by node."""
    pods: list[Pod]
    budgets: list[PodDisruptionBudget]
    nominated_pods: list[tuple[Pod, str]]
    """Nominated pods with their nodes."""
    pod: Pod

    def pods_on(self, node: str) -> list[Pod]:
        return [pod for pod in self.pods if pod.spec.nodeName == node]


def cpus(pod: Pod) -> int:
    assert pod.spec.containers
    return int(pod.spec.containers[0].resources.requests["cpu"])


def running_pod(name: str, cpu: int, priority: int, node: str = "", started: int = 0, app: str = "") -> Pod:
    container = Container(name="c", resources=ResourceRequirements(requests={"cpu": str(cpu)}))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="x", uid=name, labels={"app": app} if app else {}),
        spec=PodSpec(nodeName=node, containers=[container], priority=priority),
        status=PodStatus(startTime=f"2026-01-01T00:00:{started:02d}Z"),
    )


@st.composite
def full_clusters(draw: Any) -> FullCluster:
    """Clusters whose nodes are full, or nearly so."""
    room: dict[str, int] = {}
    pods: list[Pod] = []
    for number in range(draw(st.sampled_from([1, 2, 3, 3]))):
        node, used = f"n{number}", 0
        for at in range(draw(st.integers(1, 4))):
            cpu = draw(st.sampled_from([1, 1, 2]))
            used += cpu
            started, app = draw(st.integers(0, 5)), draw(st.sampled_from(["", "", "a", "a", "b"]))
            pods.append(running_pod(f"{node}-{at}", cpu, draw(st.integers(0, 3)), node, started, app))
        room[node] = used + draw(st.sampled_from([0, 0, 0, 1]))
    budgets = [
        PodDisruptionBudget(
            metadata=ObjectMeta(name=app, namespace="x"),
            spec=PodDisruptionBudgetSpec(selector=LabelSelector(matchLabels={"app": app})),
            status=PodDisruptionBudgetStatus(disruptionsAllowed=draw(st.sampled_from([0, 0, 1]))),
        )
        for app in draw(st.sampled_from([(), ("a",), ("a",), ("a", "b")]))
    ]
    waiting = []
    if draw(st.booleans()):
        waiting.append((running_pod("kept", 1, draw(st.integers(1, 4))), draw(st.sampled_from(sorted(room)))))
    return FullCluster(
        room, pods, budgets, waiting, running_pod("new", draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    )


def run_post_filter(cluster: FullCluster) -> PostFilterResult | None:
    """The result of PostFilter; None if the pod fits without preemption."""
    simulation = Simulation(profile=profile_with("NodeResourcesFit", "DefaultPreemption"))
    for node, cpu in cluster.capacity.items():
        amounts = {"cpu": str(cpu), "pods": "20"}
        simulation.add_node(Node(metadata=ObjectMeta(name=node), status=NodeStatus(allocatable=amounts)))
    for pod in cluster.pods:
        simulation.add_pod(pod)
    fill_informers(simulation, *cluster.budgets)
    nominator = simulation.handle.nominator
    for pod, node in cluster.nominated_pods:
        nominator.add(simulation.pods.info(pod), node)
    cycle = simulation.cycle(cluster.pod)
    nominated = cycle.memo["nominated"] = nominator.list_higher_priority_pods(cycle.info, simulation.table.rows)
    before = simulation.table.requested.copy()
    result = simulation.profile.select_node(cycle, nominated)
    if result.diagnosis is None:
        return None
    plugin = plugin_of(simulation, "DefaultPreemption")
    nomination: PostFilterResult = asyncio.run(plugin.post_filter(cycle, result.diagnosis))
    assert (simulation.table.requested == before).all(), "a plan changes nothing"
    return nomination


def priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def fits(cluster: FullCluster, node: str, gone: set[str]) -> bool:
    kept = sum(cpus(pod) for pod, at in cluster.nominated_pods if at == node and priority(pod) >= priority(cluster.pod))
    used = sum(cpus(pod) for pod in cluster.pods_on(node) if pod.metadata.uid not in gone)
    return used + kept + cpus(cluster.pod) <= cluster.capacity[node]


def importance(pod: Pod) -> tuple[int, str]:
    return (-priority(pod), pod.status.startTime or "")


def find_budget_violations(cluster: FullCluster, pods: list[Pod]) -> set[str]:
    """Pods whose deletion violates a budget, if all are deleted, the most important first."""
    left = {budget.metadata.name: budget.status.disruptionsAllowed for budget in cluster.budgets}
    protected = set()
    for pod in sorted(pods, key=lambda pod: (*importance(pod), pod.metadata.name)):
        app = pod.metadata.labels.get("app", "")
        if app in left:
            left[app] -= 1
            if left[app] < 0:
                protected.add(pod.metadata.uid)
    return protected


def find_victims(cluster: FullCluster, node: str) -> list[Pod] | None:
    """The set of victims on the node that spares protected pods first, then important ones."""
    lower = [pod for pod in cluster.pods_on(node) if priority(pod) < priority(cluster.pod)]
    if not lower or cpus(cluster.pod) > cluster.capacity[node]:
        return None
    protected = find_budget_violations(cluster, lower)
    order = sorted(lower, key=lambda pod: (pod.metadata.uid not in protected, *importance(pod), pod.metadata.name))
    for victim_flags in product((False, True), repeat=len(order)):  # the first pods are spared the longest
        gone = [pod for pod, is_victim in zip(order, victim_flags, strict=True) if is_victim]
        if fits(cluster, node, {pod.metadata.uid for pod in gone}):
            return gone
    return None


def disruption(cluster: FullCluster, node: str, gone: list[Pod]) -> tuple[Any, ...]:
    lower = [pod for pod in cluster.pods_on(node) if priority(pod) < priority(cluster.pod)]
    broken = len(find_budget_violations(cluster, lower) & {pod.metadata.uid for pod in gone})
    if not gone:
        return (broken, -1, 0, 0, 0)
    highest = max(priority(pod) for pod in gone)
    total = sum(priority(pod) + 2**31 for pod in gone)
    started = min(pod.status.startTime or "" for pod in gone if priority(pod) == highest)
    return (broken, highest, total, len(gone), -int(started[17:19]))


@hypothesis.settings(max_examples=300, deadline=None)
@given(full_clusters())
def test_victims_cause_the_least_disruption(cluster: FullCluster) -> None:
    result = run_post_filter(cluster)
    if result is None:
        assert any(fits(cluster, node, set()) for node in cluster.capacity)
        return
    assert not any(fits(cluster, node, set()) for node in cluster.capacity)
    options = {node: gone for node in cluster.capacity if (gone := find_victims(cluster, node)) is not None}
    if not options:
        assert not result.is_success
        assert result.nominated == ""
        return
    assert result.is_success
    assert result.nominated is not None
    victims = {info.uid for info in result.victims}
    ranks = {node: disruption(cluster, node, gone) for node, gone in options.items()}
    assert ranks[result.nominated] == min(ranks.values())
    gone = options[result.nominated]
    expected = sorted((cpus(pod), importance(pod), pod.metadata.labels.get("app", "")) for pod in gone)
    chosen = [pod for pod in cluster.pods if pod.metadata.uid in victims]
    assert sorted((cpus(pod), importance(pod), pod.metadata.labels.get("app", "")) for pod in chosen) == expected


@hypothesis.settings(max_examples=30, deadline=None)
@given(full_clusters())
def test_preemption_policy_never_is_not_eligible(cluster: FullCluster) -> None:
    cluster.pod.spec.preemptionPolicy = "Never"
    fits_anywhere = any(fits(cluster, node, set()) for node in cluster.capacity)
    refusal = PostFilterResult(message="preemption: not eligible due to preemptionPolicy=Never.")
    assert run_post_filter(cluster) == (None if fits_anywhere else refusal)
