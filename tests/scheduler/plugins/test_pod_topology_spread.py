"""PodTopologySpread against its oracle."""

import math
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import (
    Container,
    Node,
    NodeSpec,
    Pod,
    PodSpec,
    Service,
    ServiceSpec,
    Taint,
    TopologySpreadConstraint,
)
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.scheduler.config import ProfileConfig
from sampan.scheduler.framework.cluster_event import EventResource
from sampan.scheduler.simulation import Simulation
from tests.scheduler.plugins.selector_oracle import has_untolerated_taints, is_empty, matches_required_affinity, selects
from tests.scheduler.random_clusters import (
    HOSTNAME,
    ZONE,
    Rejections,
    Situation,
    draw_nodes,
    few,
    fill_informers,
    plugin_of,
    profile_with,
    rejections,
    scores,
    situations,
)

REASON = "node(s) didn't match pod topology spread constraints"


def selects_pod(constraint: Any, pod: Pod, other: Pod) -> bool:
    """Whether the constraint of `pod` selects `other` by its labels."""
    if constraint.labelSelector is None:
        return False
    keys = [key for key in constraint.matchLabelKeys if key in pod.metadata.labels]
    if any(other.metadata.labels.get(key) != pod.metadata.labels[key] for key in keys):
        return False
    return selects(constraint.labelSelector, other.metadata.labels)


def count_selected(constraint: Any, pod: Pod, others: list[Pod]) -> int:
    keys = [key for key in constraint.matchLabelKeys if key in pod.metadata.labels]
    if is_empty(constraint.labelSelector) and not keys:
        return 0
    return sum(
        selects_pod(constraint, pod, other)
        for other in others
        if other.metadata.namespace == pod.metadata.namespace and other.metadata.deletionTimestamp is None
    )


def considers_node(constraint: Any, pod: Pod, node: Node) -> bool:
    """Whether the constraint considers the node."""
    if constraint.nodeAffinityPolicy != "Ignore" and not matches_required_affinity(node, pod):
        return False
    return not (constraint.nodeTaintsPolicy == "Honor" and has_untolerated_taints(node, pod))


def has_topology_labels(node: Node, constraints: list[Any]) -> bool:
    return all(constraint.topologyKey in node.metadata.labels for constraint in constraints)


def count_pods_by_domain(situation: Situation, constraint: Any, constraints: list[Any]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for node in situation.nodes:
        if has_topology_labels(node, constraints) and considers_node(constraint, situation.pod, node):
            value = node.metadata.labels[constraint.topologyKey]
            sizes[value] = sizes.get(value, 0) + count_selected(constraint, situation.pod, situation.pods_on(node))
    return sizes


def crowd_situation(situation: Situation) -> Situation:
    """Make all pods and most nodes count, so that skews arise."""
    situation.pod.metadata.namespace, situation.pod.metadata.labels = "x", {"app": "a"}
    for number, node in enumerate(situation.nodes):
        node.metadata.labels |= {ZONE: "ab"[number % 2], HOSTNAME: node.metadata.name}
    for number, pod in enumerate(situation.pods):
        pod.metadata.namespace, pod.metadata.labels = "x", {"app": "a"}
        pod.spec.nodeName = situation.nodes[number % len(situation.nodes)].metadata.name
    situation.pod.spec.topologySpreadConstraints = [
        TopologySpreadConstraint(
            maxSkew=1, topologyKey=key, whenUnsatisfiable=action, labelSelector=LabelSelector(matchLabels={"app": "a"})
        )
        for key, action in ((ZONE, "DoNotSchedule"), (HOSTNAME, "DoNotSchedule"), (ZONE, "ScheduleAnyway"))
    ]
    situation.pod.spec.nodeSelector, situation.pod.spec.affinity = {}, None
    return situation


@st.composite
def dense_situations(draw: Any) -> Situation:
    """Nodes that mostly count and pods that mostly are counted, with every setting of a constraint at work."""
    nodes = []
    for at in range(draw(st.integers(2, 5))):
        labels = {HOSTNAME: f"n{at}"} | draw(st.sampled_from([{ZONE: "a"}, {ZONE: "a"}, {ZONE: "b"}, {ZONE: "b"}, {}]))
        tainted = draw(st.sampled_from([False, False, True]))
        labels["disk"] = draw(st.sampled_from(["ssd", "ssd", "hdd"]))
        taints = [Taint(key="k", value="", effect="NoSchedule")] if tainted else []
        nodes.append(Node(metadata=ObjectMeta(name=f"n{at}", labels=labels), spec=NodeSpec(taints=taints)))

    def pod(name: str, node: str, is_deleted: bool) -> Pod:
        meta = ObjectMeta(
            name=name,
            namespace=draw(st.sampled_from("xxxxxy")) if node else "x",
            uid=name,
            labels={"app": draw(st.sampled_from("aaaaab")), "tier": draw(st.sampled_from(["front", "back"]))},
            deletionTimestamp="2026-01-01T00:00:00Z" if is_deleted else None,
        )
        return Pod(metadata=meta, spec=PodSpec(nodeName=node, containers=[Container(name="c")]))

    homes = st.sampled_from([node.metadata.name for node in nodes])
    is_deleted = st.sampled_from([False, False, False, True])
    there = [pod(f"p{at}", draw(homes), draw(is_deleted)) for at in range(draw(st.integers(2, 9)))]
    new = pod("new", "", False)
    new.spec.nodeSelector = draw(st.sampled_from([{}, {"disk": "ssd"}]))
    new.spec.topologySpreadConstraints = [
        TopologySpreadConstraint(
            maxSkew=1,
            topologyKey=key,
            whenUnsatisfiable=draw(st.sampled_from(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"])),
            labelSelector=LabelSelector(matchLabels={"app": "a"}),
            minDomains=draw(st.sampled_from([None, 3, 3])),
            nodeAffinityPolicy=draw(st.sampled_from([None, "Ignore"])),
            nodeTaintsPolicy=draw(st.sampled_from([None, "Honor"])),
            matchLabelKeys=draw(st.sampled_from([[], [], [], ["tier"]])),
        )
        for key in draw(st.sampled_from([(ZONE,), (HOSTNAME,), (ZONE, HOSTNAME)]))
    ]
    return Situation(nodes, there, new, {"x": {}, "y": {}})


many = hypothesis.settings(max_examples=100, deadline=None)


@many
@given(
    st.one_of(
        dense_situations(),
        dense_situations(),
        dense_situations(),
        dense_situations(),
        situations(max_nodes=4).map(crowd_situation),
        situations(),
    )
)
def test_hard_constraints(situation: Situation) -> None:
    pod = situation.pod
    hard = [
        constraint
        for constraint in pod.spec.topologySpreadConstraints
        if constraint.whenUnsatisfiable == "DoNotSchedule"
    ]
    actual = rejections(situation.simulation("PodTopologySpread"), "PodTopologySpread", pod)
    assert actual == expected_rejections(situation, hard)


def expected_rejections(situation: Situation, hard: list[TopologySpreadConstraint]) -> Rejections:
    expected: Rejections = {}
    for node in situation.nodes:
        for constraint in hard:
            value = node.metadata.labels.get(constraint.topologyKey)
            if value is None:
                expected[node.metadata.name] = ((f"{REASON} (missing required label)",), True)
                break
            by_domain = count_pods_by_domain(situation, constraint, hard)
            least = min(by_domain.values(), default=2**31 - 1) if len(by_domain) >= (constraint.minDomains or 1) else 0
            itself = selects_pod(constraint, situation.pod, situation.pod)
            if by_domain.get(value, 0) + itself - least > constraint.maxSkew:
                expected[node.metadata.name] = ((REASON,), False)
                break
    return expected


@many
@given(
    st.one_of(
        dense_situations(),
        dense_situations(),
        dense_situations(),
        dense_situations(),
        situations(max_nodes=4).map(crowd_situation),
        situations(),
    ),
    st.data(),
)
def test_soft_constraints(situation: Situation, data: st.DataObject) -> None:
    pod = situation.pod
    soft = [
        constraint
        for constraint in pod.spec.topologySpreadConstraints
        if constraint.whenUnsatisfiable == "ScheduleAnyway"
    ]
    among = data.draw(st.lists(st.sampled_from(situation.nodes), min_size=1, unique_by=lambda node: node.metadata.name))
    names = [node.metadata.name for node in among]
    actual = scores(situation.simulation("PodTopologySpread"), "PodTopologySpread", pod, names)
    assert actual == (normalize(raw_scores(situation, soft, among)) if soft else None)


def raw_scores(situation: Situation, soft: list[Any], among: list[Node]) -> dict[str, int | None]:
    """Scores before normalization; None for nodes without all topology labels."""
    able = [node for node in among if has_topology_labels(node, soft)]
    totals: dict[str, int | None] = {node.metadata.name: None for node in among}
    for node in able:
        total = 0.0
        for constraint in soft:
            if constraint.topologyKey == HOSTNAME:
                size, count = len(able), count_selected(constraint, situation.pod, situation.pods_on(node))
            else:
                size = len({other.metadata.labels[constraint.topologyKey] for other in able})
                count = count_pods_by_domain(situation, constraint, soft).get(
                    node.metadata.labels[constraint.topologyKey], 0
                )
            total += count * math.log(size + 2) + constraint.maxSkew - 1
        totals[node.metadata.name] = math.floor(total + 0.5)
    return totals


def normalize(raw: dict[str, int | None]) -> dict[str, int]:
    real = [score for score in raw.values() if score is not None]
    least, most = min(real, default=0), max(real, default=0)
    return {
        name: 0 if score is None else 100 * (most + least - score) // most if most else 100
        for name, score in raw.items()
    }


def default_constraints(*constraints: TopologySpreadConstraint) -> ProfileConfig:
    return profile_with("PodTopologySpread", defaultingType="List", defaultConstraints=msgspec.to_builtins(constraints))


def constraint(key: str, action: str) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(maxSkew=1, topologyKey=key, whenUnsatisfiable=action)


def service(selector: dict[str, str]) -> Service:
    return Service(metadata=ObjectMeta(name="s", namespace="x"), spec=ServiceSpec(selector=selector))


@few
@given(dense_situations(), st.sampled_from([ZONE, HOSTNAME]), st.data())
def test_default_constraints_use_the_selector_of_the_service(
    situation: Situation, key: str, data: st.DataObject
) -> None:
    pod = situation.pod
    pod.spec.topologySpreadConstraints = []
    hard, soft = constraint(key, "DoNotSchedule"), constraint(key, "ScheduleAnyway")
    simulation = situation.simulation(profile=default_constraints(hard, soft))
    fill_informers(simulation, service({"app": "a"}))
    rejected = rejections(simulation, "PodTopologySpread", pod)
    among = draw_nodes(situation, data)
    scores_ = scores(simulation, "PodTopologySpread", pod, [node.metadata.name for node in among])
    if pod.metadata.labels["app"] != "a":
        assert (rejected, scores_) == ({}, None), "the service does not select the pod"
        return
    hard.labelSelector = soft.labelSelector = LabelSelector(matchLabels={"app": "a"})
    assert rejected == expected_rejections(situation, [hard])
    assert scores_ == normalize(raw_scores(situation, [soft], among))


@few
@given(situations(), st.data())
def test_default_constraints_ignore_pods_without_service_or_controller(
    situation: Situation, data: st.DataObject
) -> None:
    """Default constraints need a selector, which a pod without service and controller does not have."""
    pod = situation.pod
    pod.spec.topologySpreadConstraints = []
    constraints = constraint(ZONE, "DoNotSchedule"), constraint(ZONE, "ScheduleAnyway")
    simulation = situation.simulation(profile=default_constraints(*constraints))
    names = [node.metadata.name for node in draw_nodes(situation, data)]
    assert rejections(simulation, "PodTopologySpread", pod) == {}
    assert scores(simulation, "PodTopologySpread", pod, names) is None


def test_system_default_constraints_spread_over_nodes_and_zones() -> None:
    """The node without a zone is scored too: the system default constraints exclude no node."""
    zones = {"n0": {ZONE: "a"}, "n1": {ZONE: "a"}, "n2": {ZONE: "b"}, "n3": {}}
    nodes = [Node(metadata=ObjectMeta(name=name, labels={HOSTNAME: name} | zone)) for name, zone in zones.items()]

    def pod(name: str, node: str = "") -> Pod:
        meta = ObjectMeta(name=name, namespace="x", uid=name, labels={"app": "a"})
        return Pod(metadata=meta, spec=PodSpec(nodeName=node, containers=[Container(name="c")]))

    homes = [*["n0"] * 5, "n1", "n2"]
    situation = Situation(nodes, [pod(f"p{at}", node) for at, node in enumerate(homes)], pod("new"), {"x": {}})
    simulation = situation.simulation("PodTopologySpread")
    fill_informers(simulation, service({"app": "a"}))
    assert rejections(simulation, "PodTopologySpread", situation.pod) == {}
    by_node = scores(simulation, "PodTopologySpread", situation.pod, list(zones))
    assert by_node is not None
    assert sorted(by_node, key=lambda node: -by_node[node]) == ["n3", "n2", "n1", "n0"]
    assert len(set(by_node.values())) == len(zones)


def make_spread_pod(name: str, node: str = "", namespace: str = "x", app: str = "a") -> Pod:
    pod = Pod(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=name, labels={"app": app}),
        spec=PodSpec(nodeName=node, containers=[Container(name="c")]),
    )
    pod.spec.topologySpreadConstraints = [
        TopologySpreadConstraint(
            maxSkew=1,
            topologyKey=ZONE,
            whenUnsatisfiable="DoNotSchedule",
            labelSelector=LabelSelector(matchLabels={"app": "a"}),
        )
    ]
    return pod


def make_zone_node(name: str, zone: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels={ZONE: zone, HOSTNAME: name}))


def test_domains_are_counted_again_after_changes_of_nodes() -> None:
    """The sums of domains are cached by signature. After each change the result is that of a new simulation."""
    nodes = {"n0": make_zone_node("n0", "a")}
    simulation = Simulation(profile=profile_with("PodTopologySpread"))
    simulation.add_node(nodes["n0"])
    scheduled: list[Pod] = []

    def check(number: int) -> None:
        pod = make_spread_pod(f"new-{number}")
        fresh = Simulation(profile=profile_with("PodTopologySpread"))
        for node in nodes.values():
            fresh.add_node(node)
        for other in scheduled:
            fresh.add_pod(other)
        assert rejections(simulation, "PodTopologySpread", pod) == rejections(fresh, "PodTopologySpread", pod)
        if home := simulation.schedule(pod):
            scheduled.append(make_spread_pod(pod.metadata.name, home))

    check(0)
    check(1)
    nodes["n1"] = make_zone_node("n1", "b")
    simulation.add_node(nodes["n1"])
    check(2)
    assert scheduled[-1].spec.nodeName == "n1"
    nodes["n2"] = make_zone_node("n2", "c")
    simulation.add_node(nodes["n2"])
    for number in range(3, 6):
        check(number)
    nodes["n1"] = make_zone_node("n1", "c")  # relabelled
    simulation.add_node(nodes["n1"])
    for number in range(6, 10):
        check(number)
    nodes["n3"] = make_zone_node("n3", "d")
    simulation.add_node(nodes["n3"])
    for number in range(10, 14):
        check(number)


@pytest.mark.parametrize(
    ("event", "is_helpful"),
    [
        ((make_spread_pod("p", "n"), None), True),
        ((None, make_spread_pod("p", "n")), True),
        ((make_spread_pod("p", "n", app="b"), make_spread_pod("p", "n", app="a")), True),
        ((make_spread_pod("p", "n", namespace="y"), None), False),
        ((make_spread_pod("p", "n", app="b"), None), False),
        ((None, make_spread_pod("p", "n", app="b")), False),
    ],
)
def test_changes_of_matching_pods_wake_a_waiting_pod(event: tuple[Pod | None, Pod | None], is_helpful: bool) -> None:
    simulation = Simulation(profile=profile_with("PodTopologySpread"))
    info = simulation.pods.info(make_spread_pod("waiting"))
    plugin = plugin_of(simulation, "PodTopologySpread")
    hints = [hint for event_, hint in plugin.events_to_register() if event_.resource is EventResource.ASSIGNED_POD]
    assert len(hints) == 3
    assert [hint(info, *event) for hint in hints] == [is_helpful] * 3
