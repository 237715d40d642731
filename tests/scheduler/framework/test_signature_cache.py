"""Results cached for a pod signature equal fresh results, whatever changes in between."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import Node, Pod
from sampan.scheduler.framework.contract import ScheduleResult
from sampan.scheduler.simulation import Simulation
from tests.scheduler.random_clusters import Situation, few, nodes, pods, situations


class _FirstByName:
    """A tie breaker that picks the node whose name sorts first, because rows may differ."""

    def __init__(self, simulation: Simulation) -> None:
        self._table = simulation.table

    def pick(self, rows: Any) -> int:
        return int(min(rows, key=lambda row: self._table.names[row]))


def schedule_pod(simulation: Simulation, pod: Pod) -> tuple[str, str]:
    simulation.profile.tie_breaker = _FirstByName(simulation)  # type: ignore[assignment]
    result: ScheduleResult = simulation.select_node(pod)
    if result.diagnosis is not None:
        return "", result.diagnosis.message
    return simulation.table.names[result.row], ""


@st.composite
def steps(draw: Any, situation: Situation) -> list[tuple[str, Any]]:
    placements: list[tuple[str, Any]] = []
    for number in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["pod", "unpod", "node", "unnode", "label"]))
        if kind == "pod":
            placements.append((kind, draw(pods(f"q{number}", draw(st.sampled_from(["n0", "n1", "n2", "n9"]))))))
        elif kind == "node":
            placements.append((kind, draw(nodes(draw(st.sampled_from(["n0", "n1", "n9"]))))))
        elif kind == "unnode":
            placements.append((kind, draw(st.sampled_from(["n0", "n1", "n9"]))))
        elif situation.pods:
            placements.append((kind, draw(st.sampled_from(situation.pods)).metadata.uid))
    return placements


def apply(simulation: Simulation, situation: Situation, kind: str, change: Any) -> None:
    if kind == "pod":
        simulation.add_pod(change)
        situation.pods.append(change)
    elif kind == "node":
        simulation.add_node(change)
        _replace_node(situation, change)
    elif kind == "unnode":
        simulation.table.remove_node(change)
        situation.nodes = [node for node in situation.nodes if node.metadata.name != change]
    else:
        _change_pod(simulation, situation, kind, change)


def _replace_node(situation: Situation, node: Node) -> None:
    name = node.metadata.name
    situation.nodes = [node for node in situation.nodes if node.metadata.name != name]
    situation.nodes.append(node)


def _change_pod(simulation: Simulation, situation: Situation, kind: str, uid: str) -> None:
    old = next((pod for pod in situation.pods if pod.metadata.uid == uid), None)
    if old is None:
        return
    situation.pods.remove(old)
    if kind == "unpod":
        assert simulation.table.remove_pod(uid, old.spec.nodeName) is not None
        return
    meta = msgspec.structs.replace(old.metadata, labels={"app": "b", "tier": "front"})
    new = msgspec.structs.replace(old, metadata=meta)
    simulation.table.replace_pod(simulation.pods.info(new), old.spec.nodeName)
    situation.pods.append(new)


@few
@given(st.data())
def test_cached_results_equal_fresh_results(data: st.DataObject) -> None:
    situation = data.draw(situations(most_pods=5))
    unplaced = [situation.pod, data.draw(pods("other"))]
    simulation = situation.simulation()
    for kind, change in data.draw(steps(situation)):
        for pod in unplaced:
            schedule_pod(simulation, pod)
        apply(simulation, situation, kind, change)
        fresh = situation.simulation()
        for pod in unplaced:
            assert schedule_pod(simulation, pod) == schedule_pod(fresh, pod)


@few
@given(situations())
def test_removing_all_pods_leaves_an_empty_table(situation: Situation) -> None:
    simulation = situation.simulation()
    schedule_pod(simulation, situation.pod)
    table = simulation.table
    for pod in situation.pods:
        table.remove_pod(pod.metadata.uid, pod.spec.nodeName)
    assert not table.requested.any()
    assert not table.nonzero.any()
    assert all(not pods for pods in table.pods)
    for pod in situation.pods:
        group = simulation.pods.info(pod).group
        assert not group.rows
        assert all(tally is None or not tally.per_node.any() for tally in (ref() for ref in group.tallies))


def test_scheduling_while_the_node_table_grows() -> None:
    situation = Situation([], [], Pod(), {})
    simulation = situation.simulation()
    for number in range(300):
        node = Node(metadata=msgspec.structs.replace(Node().metadata, name=f"n{number}"))
        node.status.allocatable = {"cpu": "1", "memory": "1Gi", "pods": "10"}
        simulation.add_node(node)
        assert schedule_pod(simulation, situation.pod)[0] == "n0"
    assert simulation.table.size >= 300
