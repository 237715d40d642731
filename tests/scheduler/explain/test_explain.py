"""Explanations agree with decisions: what they say of every node is what the scheduler would do."""

import msgspec
import numpy as np
from hypothesis import given

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod, Taint
from sampan.scheduler.explain.explain import explain_by_plugins, inspect
from sampan.scheduler.explain.explain_endpoint import DECISIONS, WHY, ExplainEndpoint
from sampan.scheduler.explain.report import Explanation, ResourceShortage
from tests.scheduler.random_clusters import Situation, few, rejections, requests_nothing_else, situations
from tests.scheduler.running_scheduler import RunningScheduler, running_scheduler


@few
@given(situations())
def test_rejections_and_scores_are_those_of_scheduling(situation: Situation) -> None:
    simulation = situation.simulation()
    profile, table = simulation.profile, simulation.table
    inspection = inspect(profile, simulation.cycle(situation.pod))
    result = situation.simulation().select_node(situation.pod)
    assert (result.diagnosis is None) == bool(len(inspection.rows))
    if result.diagnosis is None:
        best = inspection.rows[inspection.total == inspection.total.max()]
        assert result.row in best
    else:
        assert np.array_equal(inspection.rows, [])
    for name in inspection.codes:
        expected = rejections(situation.simulation(name), name, situation.pod)
        rejected = {node for node, row in table.rows.items() if inspection.codes[name][row]}
        assert expected.keys() <= rejected  # besides, nodes that PreFilter excluded


@few
@given(situations())
def test_explanation_does_not_change_the_node_table(situation: Situation) -> None:
    simulation = situation.simulation()
    before = simulation.table.requested.copy()
    inspect(simulation.profile, simulation.cycle(situation.pod))
    assert requests_nothing_else(simulation, before)


def explain_pod(cluster: RunningScheduler, pod: Pod) -> Explanation:
    return explain_by_plugins(cluster.scheduler, pod, now=cluster.cluster.clock.now())[0]


async def test_explanation_of_an_unschedulable_pod() -> None:
    async with running_scheduler() as cluster:
        await cluster.node("a", cpu="1")
        await cluster.node("b", cpu="1", taints=[Taint(key="k", value="v", effect="NoSchedule")])
        pod = await cluster.create(cluster.pod("big", cpu="8"))
        await cluster.settle()
        explanation = explain_pod(cluster, pod)
        assert explanation.waiting is not None
        assert (explanation.waiting.queue, explanation.waiting.plugins) == (
            "unschedulable",
            ["NodeResourcesFit", "TaintToleration"],
        )
        assert explanation.decision is not None
        assert explanation.decision.message.startswith(explanation.message.removesuffix("."))
        by_name = {node.name: [refusal.plugin for refusal in node.refusals] for node in explanation.nodes}
        assert by_name == {"a": ["NodeResourcesFit"], "b": ["TaintToleration", "NodeResourcesFit"]}
        assert (explanation.count, explanation.feasible, explanation.best) == (2, 0, "")


async def test_amounts_of_resources_that_nodes_lack() -> None:
    async with running_scheduler() as cluster:
        await cluster.node("a", cpu="1")
        await cluster.node("b", cpu="3")
        await cluster.create(cluster.pod("used", cpu="1500m"))
        pod = await cluster.create(cluster.pod("big", cpu="8"))
        await cluster.settle()
        explanation = explain_pod(cluster, pod)
        assert [msgspec.structs.astuple(entry) for entry in explanation.shortages] == [("cpu", 8000, "b", 3000, 1500)]
        by_node = {report.name: report.shortages for report in explanation.nodes}
        assert by_node == {"a": [ResourceShortage("cpu", 8000, "a", 1000, 0)], "b": explanation.shortages}


async def test_explanation_of_a_bound_pod() -> None:
    async with running_scheduler() as cluster:
        await cluster.node("a", cpu="2")
        await cluster.node("b", cpu="1")
        await cluster.create(cluster.pod("p", cpu="1"))
        assert await cluster.find_nodes("p") == ["a"]
        pod = await cluster.get("p")
        assert pod is not None
        requested = cluster.scheduler.table.requested.copy()
        explanation = explain_pod(cluster, pod)
        assert (explanation.node, explanation.best, explanation.feasible) == ("a", "a", 2)
        assert explanation.decision is not None
        assert explanation.decision.node == "a"
        own, other = explanation.nodes
        assert own.name == "a"
        assert own.total == sum(score.score * score.weight for score in own.scores) > other.total
        assert (cluster.scheduler.table.requested == requested).all()


async def test_explanation_of_a_pod_of_another_scheduler() -> None:
    async with running_scheduler() as cluster:
        await cluster.node("a")
        other = cluster.pod("other")
        other.spec.schedulerName = "somebody"
        assert not explain_pod(cluster, await cluster.create(other)).isFamiliar


async def test_responses_of_the_explain_endpoint() -> None:
    async with running_scheduler() as cluster:
        await cluster.node("a")
        await cluster.create(cluster.pod("p"))
        await cluster.settle()
        endpoint = ExplainEndpoint(lambda: cluster.scheduler, cluster.cluster.clock.now)
        response = await endpoint.handle("GET", WHY, {"namespace": "default", "name": "p"}, b"")
        assert response.code == 200
        assert msgspec.json.decode(response.body, type=Explanation).node == "a"
        assert (await endpoint.handle("GET", WHY, {"namespace": "default", "name": "gone"}, b"")).code == 404
        assert (await endpoint.handle("GET", WHY, {"limit": "many"}, b"")).code == 400
        assert (await endpoint.handle("POST", WHY, {}, b"[]")).code == 400
        hypothetical = await endpoint.handle("POST", WHY, {"limit": "0"}, json.encode(cluster.pod("q")))
        explanation = msgspec.json.decode(hypothetical.body, type=Explanation)
        assert (explanation.best, explanation.nodes) == ("a", [])
        lines = (await endpoint.handle("GET", DECISIONS, {}, b"")).body.splitlines()
        assert [msgspec.json.decode(line)["pod"] for line in lines] == ["default/p"]
        assert (await ExplainEndpoint(lambda: None, cluster.cluster.clock.now).handle("GET", WHY, {}, b"")).code == 503
