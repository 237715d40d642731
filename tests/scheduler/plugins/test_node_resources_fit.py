"""NodeResourcesFit against a version that looks at one node at a time."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.semantics.pod_resources import effective_requests
from sampan.api.types.core_v1 import Container, Node, NodeStatus, Pod, PodSpec, ResourceRequirements
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.scheduler.config.plugin_args import ArgumentError
from sampan.scheduler.simulation import Simulation
from tests.scheduler.plugins.resource_oracle import amount, requested_amount, used_amount
from tests.scheduler.random_clusters import (
    GPU,
    Rejections,
    Situation,
    few,
    profile_with,
    rejections,
    scores,
    situations,
)

SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 50, "score": 10}, {"utilization": 100, "score": 3}]
RESOURCES = [{"name": "cpu", "weight": 2}, {"name": "memory", "weight": 1}, {"name": GPU, "weight": 3}]


@few
@given(situations())
def test_nodes_without_enough_resources_are_rejected(situation: Situation) -> None:
    actual = rejections(situation.simulation("NodeResourcesFit"), "NodeResourcesFit", situation.pod)
    assert actual == expected_rejections(situation)


def expected_rejections(situation: Situation, ignored: str = "") -> Rejections:
    """The expected rejections if the ignored resource is not checked."""
    pod, expected = situation.pod, {}
    names = [name for name in effective_requests(pod.spec) if name != ignored]
    for node in situation.nodes:
        there = {name: amount(name, text) for name, text in node.status.allocatable.items()}
        reasons = ["Too many pods"] if len(situation.pods_on(node)) + 1 > there["pods"] else []
        is_final = False
        for name in names:
            need = requested_amount(pod, name)
            if need and need > there.get(name, 0) - used_amount(situation, node, name):
                reasons.append(f"Insufficient {name}")
                is_final = is_final or need > there.get(name, 0)
        if reasons:
            expected[node.metadata.name] = (tuple(reasons), is_final)
    return expected


MANY = [f"example.com/r{number:03}" for number in range(200)]


@st.composite
def situations_with_many_resources(draw: Any) -> Situation:
    """A pod that requests 60 to 200 resources, of which each node lacks a few."""
    requested = MANY[: draw(st.integers(60, len(MANY)))]
    resources = ResourceRequirements(requests=dict.fromkeys(requested, "2"), limits=dict.fromkeys(requested, "2"))
    pod = Pod(
        metadata=ObjectMeta(name="p", namespace="x", uid="p"),
        spec=PodSpec(containers=[Container(name="c", image="i", resources=resources)]),
    )
    nodes = []
    for number in range(8):
        lacking = draw(st.sets(st.sampled_from([*requested, *requested[-2:] * 20, *requested[60:64] * 10]), max_size=3))
        has = {name: draw(st.sampled_from("01")) if name in lacking else "2" for name in requested}
        nodes.append(
            Node(
                metadata=ObjectMeta(name=f"n{number}"),
                status=NodeStatus(allocatable={**has, "pods": draw(st.sampled_from(["0", "9"]))}),
            )
        )
    return Situation(nodes=nodes, pods=[], pod=pod, namespaces={})


@few
@given(situations_with_many_resources())
def test_each_of_many_resources_is_checked(situation: Situation) -> None:
    actual = rejections(situation.simulation("NodeResourcesFit"), "NodeResourcesFit", situation.pod)
    assert actual == expected_rejections(situation)


ASSUMED = {"cpu": "100m", "memory": "200Mi"}


def weigh_scores(situation: Situation, node: Node, strategy: Any) -> Any:
    total = weights = 0
    for name, weight in (("cpu", 2), ("memory", 1), (GPU, 3)):
        there = amount(name, node.status.allocatable.get(name))
        assumed = ASSUMED if name != GPU else None
        own = requested_amount(situation.pod, name, assumed)
        if not there or (name == GPU and not own):
            continue
        score = strategy(used_amount(situation, node, name, assumed) + own, there)
        if score is not None:
            total, weights = total + score * weight, weights + weight
    return total, weights


def score_least_allocated(requested: int, there: int) -> int:
    return 0 if requested > there else (there - requested) * 100 // there


def score_most_allocated(requested: int, there: int) -> int:
    return min(requested, there) * 100 // there


def score_ratio(requested: int, there: int) -> int | None:
    ratio = 100 if requested > there else requested * 100 // there
    score = 100 * ratio // 50 if ratio <= 50 else 100 + int((30 - 100) * (ratio - 50) / 50)
    return score or None


@pytest.mark.parametrize(
    ("kind", "scorer"),
    [
        ("LeastAllocated", score_least_allocated),
        ("MostAllocated", score_most_allocated),
        ("RequestedToCapacityRatio", score_ratio),
    ],
)
def test_scoring_strategies(kind: str, scorer: Any) -> None:
    strategy: dict[str, Any] = {"type": kind, "resources": RESOURCES}
    if kind == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {"shape": SHAPE}
    profile = profile_with("NodeResourcesFit", scoringStrategy=strategy)

    @few
    @given(situations())
    def check(situation: Situation) -> None:
        expected = {}
        for node in situation.nodes:
            total, weights = weigh_scores(situation, node, scorer)
            if kind == "RequestedToCapacityRatio":
                expected[node.metadata.name] = math.floor(total / weights + 0.5) if weights else 0
            else:
                expected[node.metadata.name] = total // weights if weights else 0
        assert (
            scores(situation.simulation(profile=profile), "NodeResourcesFit", situation.pod, list(expected)) == expected
        )

    check()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"scoringStrategy": {"type": "Best"}}, 'Unsupported value: "Best"'),
        (
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "must be specified when type is RequestedToCapacityRatio",
        ),
        ({"scoringStrategie": {}}, "scoringStrategie"),
    ],
)
def test_invalid_arguments_are_rejected(args: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match="NodeResourcesFit") as caught:
        Simulation(profile=profile_with("NodeResourcesFit", **args))
    assert message in str(caught.value)


def test_ignored_resource_groups_are_not_checked() -> None:
    check_ignored_resource(ignoredResourceGroups=["example.com"])


def test_ignored_resources_are_not_checked() -> None:
    check_ignored_resource(ignoredResources=[GPU])


def check_ignored_resource(**args: Any) -> None:
    profile = profile_with("NodeResourcesFit", **args)

    @few
    @given(situations())
    def check(situation: Situation) -> None:
        actual = rejections(situation.simulation(profile=profile), "NodeResourcesFit", situation.pod)
        assert actual == expected_rejections(situation, ignored=GPU)

    check()


@pytest.mark.parametrize("args", [{"ignoredResources": ["other.com/gpu"]}, {"ignoredResourceGroups": ["other.com"]}])
def test_other_extended_resources_are_checked_beside_ignored_ones(args: dict[str, Any]) -> None:
    resources = ResourceRequirements(requests={GPU: "2"}, limits={GPU: "2"})
    pod = Pod(
        metadata=ObjectMeta(name="p", namespace="x", uid="p"),
        spec=PodSpec(containers=[Container(name="c", image="i", resources=resources)]),
    )
    node = Node(metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable={"pods": "9", GPU: "1"}))
    situation = Situation(nodes=[node], pods=[], pod=pod, namespaces={})
    simulation = situation.simulation(profile=profile_with("NodeResourcesFit", **args))
    assert rejections(simulation, "NodeResourcesFit", pod) == {"n": ((f"Insufficient {GPU}",), True)}
