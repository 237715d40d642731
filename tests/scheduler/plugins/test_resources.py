"""NodePorts, NodeResourcesFit, NodeResourcesBalancedAllocation and ImageLocality against their oracles."""

import math
from typing import Any

import pytest
from hypothesis import given

from sampan.api import quantity
from sampan.api.semantics.pod_resources import effective_requests
from sampan.api.types.core_v1 import Node, Pod
from sampan.scheduler.config import ProfileConfig
from sampan.scheduler.config.plugin_args import ArgumentError
from sampan.scheduler.simulation import Simulation
from tests.scheduler.random_clusters import GPU, MIB, Situation, few, refusals, scores, situations

SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 50, "score": 10}, {"utilization": 100, "score": 3}]
RESOURCES = [{"name": "cpu", "weight": 2}, {"name": "memory", "weight": 1}, {"name": GPU, "weight": 3}]


def amount(name: str, text: Any) -> int:
    quantity_ = quantity.parse(text) if isinstance(text, str) else text
    return 0 if quantity_ is None else quantity_.milli_value() if name == "cpu" else quantity_.value()


def requested_amount(pod: Pod, name: str, assumed: dict[str, str] | None = None) -> int:
    return amount(name, effective_requests(pod.spec, assumed).get(name))


def used(situation: Situation, node: Node, name: str, assumed: dict[str, str] | None = None) -> int:
    return sum(requested_amount(pod, name, assumed) for pod in situation.on(node))


@few
@given(situations())
def test_what_does_not_fit(situation: Situation) -> None:
    pod, expected = situation.pod, {}
    names = effective_requests(pod.spec)
    for node in situation.nodes:
        there = {name: amount(name, text) for name, text in node.status.allocatable.items()}
        reasons = ["Too many pods"] if len(situation.on(node)) + 1 > there["pods"] else []
        is_final = False
        for name in names:
            need = requested_amount(pod, name)
            if need and need > there.get(name, 0) - used(situation, node, name):
                reasons.append(f"Insufficient {name}")
                is_final = is_final or need > there.get(name, 0)
        if reasons:
            expected[node.metadata.name] = (tuple(reasons), is_final)
    assert refusals(situation.simulation(), "NodeResourcesFit", pod) == expected


ASSUMED = {"cpu": "100m", "memory": "200Mi"}


def weighed(situation: Situation, node: Node, strategy: Any) -> Any:
    total = weights = 0
    for name, weight in (("cpu", 2), ("memory", 1), (GPU, 3)):
        there = amount(name, node.status.allocatable.get(name))
        assumed = ASSUMED if name != GPU else None
        own = requested_amount(situation.pod, name, assumed)
        if not there or (name == GPU and not own):
            continue
        score = strategy(used(situation, node, name, assumed) + own, there)
        if score is not None:
            total, weights = total + score * weight, weights + weight
    return total, weights


def least(requested: int, there: int) -> int:
    return 0 if requested > there else (there - requested) * 100 // there


def most(requested: int, there: int) -> int:
    return min(requested, there) * 100 // there


def shaped(requested: int, there: int) -> int | None:
    ratio = 100 if requested > there else requested * 100 // there
    score = 100 * ratio // 50 if ratio <= 50 else 100 + int((30 - 100) * (ratio - 50) / 50)
    return score or None


@pytest.mark.parametrize(
    ("kind", "scorer"), [("LeastAllocated", least), ("MostAllocated", most), ("RequestedToCapacityRatio", shaped)]
)
def test_how_full_a_node_would_be(kind: str, scorer: Any) -> None:
    strategy: dict[str, Any] = {"type": kind, "resources": RESOURCES}
    if kind == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {"shape": SHAPE}
    profile = ProfileConfig(args={"NodeResourcesFit": {"scoringStrategy": strategy}})

    @few
    @given(situations())
    def check(situation: Situation) -> None:
        expected = {}
        for node in situation.nodes:
            total, weights = weighed(situation, node, scorer)
            if kind == "RequestedToCapacityRatio":
                expected[node.metadata.name] = math.floor(total / weights + 0.5) if weights else 0
            else:
                expected[node.metadata.name] = total // weights if weights else 0
        assert scores(situation.simulation(profile), "NodeResourcesFit", situation.pod, list(expected)) == expected

    check()


@pytest.mark.parametrize("names", [["cpu", "memory"], ["cpu", "memory", GPU]])
def test_how_even_a_node_becomes(names: list[str]) -> None:
    resources = [{"name": name, "weight": 1} for name in names]
    profile = ProfileConfig(args={"NodeResourcesBalancedAllocation": {"resources": resources}})

    def evenness(fractions: list[float]) -> int:
        if len(fractions) == 2:
            return int((1 - abs(fractions[0] - fractions[1]) / 2) * 100)
        if len(fractions) < 2:
            return 100
        mean = sum(fractions) / len(fractions)
        return int((1 - math.sqrt(sum((fraction - mean) ** 2 for fraction in fractions) / len(fractions))) * 100)

    @few
    @given(situations())
    def check(situation: Situation) -> None:
        pod, expected = situation.pod, {}
        for node in situation.nodes:
            after, before = [], []
            for name in names:
                there, own = amount(name, node.status.allocatable.get(name)), requested_amount(pod, name)
                if there and (own or name != GPU):
                    in_use = used(situation, node, name)
                    after.append(min(1.0, (in_use + own) / there))
                    before.append(min(1.0, in_use / there))
            expected[node.metadata.name] = 50 + (50 + evenness(after) - evenness(before)) // 2
        actual = scores(situation.simulation(profile), "NodeResourcesBalancedAllocation", pod, list(expected))
        if not any(requested_amount(pod, name) for name in names):
            assert actual is None
        else:
            assert actual is not None
            # sums of floats in another order may round to another whole number
            assert all(abs(actual[node] - score) <= (len(names) > 2) for node, score in expected.items())

    check()


@few
@given(situations())
def test_ports(situation: Situation) -> None:
    def counted_requests(pod: Pod) -> list[Any]:
        return [
            (port.hostIP or "0.0.0.0", port.protocol, port.hostPort)
            for container in pod.spec.containers or ()
            for port in container.ports
            if port.hostPort
        ]

    def clash(item: Any, other: Any) -> bool:
        return item[1:] == other[1:] and (item[0] == other[0] or "0.0.0.0" in (item[0], other[0]))

    expected = {
        node.metadata.name: (("node(s) didn't have free ports for the requested pod ports",), False)
        for node in situation.nodes
        if any(
            clash(mine, theirs)
            for mine in counted_requests(situation.pod)
            for pod in situation.on(node)
            for theirs in counted_requests(pod)
        )
    }
    assert refusals(situation.simulation(), "NodePorts", situation.pod) == expected


@few
@given(situations(most_pods=0))
def test_images(situation: Situation) -> None:
    pod = situation.pod
    images = [container.image for container in (*pod.spec.initContainers, *(pod.spec.containers or ()))]
    full = [name if ":" in name.rpartition("/")[2] else f"{name}:latest" for name in images]
    size: dict[str, int] = {}
    having: dict[str, set[str]] = {}
    for node in situation.nodes:
        sizes = {name: image.sizeBytes for image in node.status.images for name in image.names or ()}
        for name, bytes_ in sizes.items():
            size.setdefault(name, bytes_)
            having.setdefault(name, set()).add(node.metadata.name)
    expected = {}
    for node in situation.nodes:
        total = sum(
            int(size[name] * (len(having[name]) / len(situation.nodes)))
            for name in full
            if node.metadata.name in having.get(name, ())
        )
        least_, most_ = 23 * MIB, 1000 * MIB * len(images)
        expected[node.metadata.name] = 100 * (min(max(total, least_), most_) - least_) // (most_ - least_)
    actual = scores(situation.simulation(), "ImageLocality", pod, list(expected))
    assert actual == (expected if any(name in having for name in full) else None)


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
def test_arguments_that_make_no_sense(args: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match="NodeResourcesFit") as caught:
        Simulation(profile=ProfileConfig(args={"NodeResourcesFit": args}))
    assert message in str(caught.value)


def test_resources_that_are_ignored() -> None:
    profile = ProfileConfig(args={"NodeResourcesFit": {"ignoredResourceGroups": ["example.com"]}})

    @few
    @given(situations())
    def check(situation: Situation) -> None:
        actual = refusals(situation.simulation(profile), "NodeResourcesFit", situation.pod)
        assert all(f"Insufficient {GPU}" not in reasons for reasons, _ in actual.values())

    check()
