"""The plug-ins that only classic policies use, against oracles that look at one node and one pod at a time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import Node, Pod, Service, ServiceSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery.object_key import key_of
from sampan.scheduler.config import PluginChoice, ProfileConfig
from sampan.scheduler.config.plugin_args import ArgumentError
from sampan.scheduler.simulation import Simulation
from tests.scheduler.random_clusters import ZONE, Situation, few, labels, optional, refusals, scores, situations

NAME = "Mine"
LABELS = ["disk", ZONE]


def profile(plugin: str, **args: Any) -> ProfileConfig:
    always = [PluginChoice("PrioritySort"), PluginChoice("DefaultBinder")]
    return ProfileConfig(plugins=[*always, PluginChoice(NAME, plugin=plugin)], args={NAME: args})


def simulated(situation: Situation, services: list[Service], plugin: str, **args: Any) -> Simulation:
    simulation = situation.simulation(profile(plugin, **args))
    for service in services:
        simulation.handle.informers.of(Service)._put(key_of(service), service)
    return simulation


@st.composite
def services(draw: Any) -> list[Service]:
    count = draw(st.integers(0, 3))
    return [
        Service(
            metadata=ObjectMeta(name=f"s{number}", namespace=draw(st.sampled_from("xy"))),
            spec=ServiceSpec(selector=draw(optional(app=["a", "b"], tier=["front"]))),
        )
        for number in range(count)
    ]


def covering(services: list[Service], pod: Pod) -> list[dict[str, str]]:
    """The selectors of the pod's services."""
    return [
        service.spec.selector
        for service in services
        if service.metadata.namespace == pod.metadata.namespace
        and service.spec.selector
        and all(pod.metadata.labels.get(key) == value for key, value in service.spec.selector.items())
    ]


def chosen(situation: Situation, selector: dict[str, str]) -> list[tuple[Pod, Node]]:
    """Pods on nodes that are in the new pod's namespace and have the labels."""
    return [
        (pod, node)
        for pod, node in situation.there
        if pod.metadata.namespace == situation.pod.metadata.namespace
        and all(pod.metadata.labels.get(key) == value for key, value in selector.items())
    ]


# -- labels of nodes -------------------------------------------------------------------------------------------------


@few
@given(situations(most_pods=0), st.lists(st.sampled_from([*LABELS, "gone"]), unique=True), st.booleans())
def test_labels_that_nodes_must_have_or_must_not(situation: Situation, labels: list[str], presence: bool) -> None:
    refused = {
        node.metadata.name: (("node(s) didn't have the requested labels",), True)
        for node in situation.nodes
        if any((label in node.metadata.labels) != presence for label in labels)
    }
    simulation = simulated(situation, [], "NodeLabel", labels=labels, presence=presence)
    assert refusals(simulation, NAME, situation.pod) == refused


@few
@given(situations(most_pods=0), st.sampled_from([*LABELS, "gone"]), st.booleans())
def test_labels_that_speak_for_a_node(situation: Situation, label: str, presence: bool) -> None:
    expected = {
        node.metadata.name: 100 if (label in node.metadata.labels) == presence else 0 for node in situation.nodes
    }
    simulation = simulated(situation, [], "NodeLabel", labels=[label], presence=presence)
    assert scores(simulation, NAME, situation.pod, list(expected)) == expected


# -- pods of services ------------------------------------------------------------------------------------------------


@few
@given(situations(), services(), labels)
def test_pods_of_a_service_stay_together(situation: Situation, services_: list[Service], own: dict[str, str]) -> None:
    pod = situation.pod
    pod.metadata.labels = own
    expected = {label: pod.spec.nodeSelector[label] for label in LABELS if label in pod.spec.nodeSelector}
    if len(expected) < len(LABELS) and covering(services_, pod):
        others = chosen(situation, own)
        if others:
            there = others[0][1].metadata.labels
            expected = {label: there[label] for label in LABELS if label in there} | expected
    refused = {
        node.metadata.name: (("node(s) didn't match service affinity",), False)
        for node in situation.nodes
        if any(node.metadata.labels.get(label) != value for label, value in expected.items())
    }
    simulation = simulated(situation, services_, "ServiceAffinity", labels=LABELS)
    assert refusals(simulation, NAME, pod) == refused


@few
@given(situations(), services(), labels)
def test_pods_of_a_service_are_spread_over_a_label(
    situation: Situation, services_: list[Service], own: dict[str, str]
) -> None:
    pod = situation.pod
    pod.metadata.labels = own
    selectors = covering(services_, pod)
    there = [
        (pod_, node)
        for pod_, node in (chosen(situation, selectors[0]) if selectors else [])
        if pod_.metadata.deletionTimestamp is None
    ]

    def score(node: Node) -> int:
        value = node.metadata.labels.get("disk")
        if value is None:
            return 0
        near = sum(other.metadata.labels.get("disk") == value for _, other in there)
        return 100 * (len(there) - near) // len(there) if there else 100

    expected = {node.metadata.name: score(node) for node in situation.nodes}
    simulation = simulated(situation, services_, "ServiceAffinity", antiAffinityLabel="disk")
    assert scores(simulation, NAME, pod, list(expected)) == expected


def test_a_service_affinity_needs_a_label() -> None:
    with pytest.raises(ArgumentError, match="labels: Required value"):
        Simulation(profile=profile("ServiceAffinity"))


# -- spreading -------------------------------------------------------------------------------------------------------


@few
@given(situations(), services(), labels, st.booleans(), st.data())
def test_pods_of_a_service_are_spread(
    situation: Situation, services_: list[Service], own: dict[str, str], only: bool, data: st.DataObject
) -> None:
    pod = situation.pod
    pod.metadata.labels = own
    among = data.draw(st.lists(st.sampled_from(situation.nodes), min_size=1, unique_by=lambda node: node.metadata.name))
    merged = {key: value for selector in covering(services_, pod) for key, value in selector.items()}
    simulation = simulated(situation, services_, "SelectorSpread", servicesOnly=only)
    scores_ = scores(simulation, NAME, pod, [node.metadata.name for node in among])
    if not merged or pod.spec.topologySpreadConstraints:
        assert scores_ is None
        return
    alive = [(pod_, node) for pod_, node in chosen(situation, merged) if pod_.metadata.deletionTimestamp is None]
    counts = {node.metadata.name: sum(other is node for _, other in alive) for node in among}
    zones: dict[str, int] = {}
    for node in among:
        if (zone := node.metadata.labels.get(ZONE)) is not None:
            zones[zone] = zones.get(zone, 0) + counts[node.metadata.name]

    def score(node: Node) -> int:
        on_node = emptiness(counts[node.metadata.name], max(counts.values()))
        zone = node.metadata.labels.get(ZONE)
        if zone is None:
            return int(on_node)
        return int(on_node * (1 - 2 / 3) + 2 / 3 * emptiness(zones[zone], max(zones.values())))

    assert scores_ == {node.metadata.name: score(node) for node in among}


def emptiness(count: int, most: int) -> float:
    return 100 * ((most - count) / most) if most else 100.0
