"""ServiceAffinity, a plugin of classic policies, against a version that looks at one node at a time."""

import pytest
from hypothesis import given

from sampan.api.types.core_v1 import Node, Service
from sampan.scheduler.config.plugin_args import ArgumentError
from sampan.scheduler.simulation import Simulation
from tests.scheduler.classic.policy_profile import (
    LABELS,
    PLUGIN,
    profile,
    selected_pods,
    service_selectors,
    services,
    simulate,
)
from tests.scheduler.random_clusters import Situation, few, labels, rejections, scores, situations


@few
@given(situations(), services(), labels)
def test_pods_of_a_service_stay_together(situation: Situation, services_: list[Service], own: dict[str, str]) -> None:
    pod = situation.pod
    pod.metadata.labels = own
    expected = {label: pod.spec.nodeSelector[label] for label in LABELS if label in pod.spec.nodeSelector}
    if len(expected) < len(LABELS) and service_selectors(services_, pod):
        others = selected_pods(situation, own)
        if others:
            there = others[0][1].metadata.labels
            expected = {label: there[label] for label in LABELS if label in there} | expected
    rejected = {
        node.metadata.name: (("node(s) didn't match service affinity",), False)
        for node in situation.nodes
        if any(node.metadata.labels.get(label) != value for label, value in expected.items())
    }
    simulation = simulate(situation, services_, "ServiceAffinity", labels=LABELS)
    assert rejections(simulation, PLUGIN, pod) == rejected


@few
@given(situations(), services(), labels)
def test_pods_of_a_service_are_spread_over_a_label(
    situation: Situation, services_: list[Service], own: dict[str, str]
) -> None:
    pod = situation.pod
    pod.metadata.labels = own
    selectors = service_selectors(services_, pod)
    there = [
        (pod_, node)
        for pod_, node in (selected_pods(situation, selectors[0]) if selectors else [])
        if pod_.metadata.deletionTimestamp is None
    ]

    def score(node: Node) -> int:
        value = node.metadata.labels.get("disk")
        if value is None:
            return 0
        near = sum(other.metadata.labels.get("disk") == value for _, other in there)
        return 100 * (len(there) - near) // len(there) if there else 100

    expected = {node.metadata.name: score(node) for node in situation.nodes}
    simulation = simulate(situation, services_, "ServiceAffinity", antiAffinityLabel="disk")
    assert scores(simulation, PLUGIN, pod, list(expected)) == expected


def test_a_service_affinity_needs_a_label() -> None:
    with pytest.raises(ArgumentError, match="labels: Required value"):
        Simulation(profile=profile("ServiceAffinity"))
