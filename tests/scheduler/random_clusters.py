"""Random clusters: nodes, the pods on them, and a pod to schedule, small enough for a check node by node."""

from dataclasses import dataclass
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st

from sampan.api.types.core_v1 import (
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from sampan.api.types.meta_v1 import LabelSelector, LabelSelectorRequirement, ObjectMeta
from sampan.machinery.object_key import key_of
from sampan.scheduler.config import ProfileConfig
from sampan.scheduler.framework.contract import Code, PreFilterResult
from sampan.scheduler.simulation import Simulation

few = hypothesis.settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
"""Settings for situations, which are large and slow to draw."""

GPU = "example.com/gpu"
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
MIB = 1024 * 1024

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
taints = st.builds(Taint, key=st.sampled_from("kl"), value=st.sampled_from(["", "v"]), effect=st.sampled_from(_EFFECTS))
tolerations = st.builds(
    Toleration,
    key=st.sampled_from(["", "k", "l", "node.kubernetes.io/unschedulable"]),
    operator=st.sampled_from(["", "Equal", "Exists"]),
    value=st.sampled_from(["", "v"]),
    effect=st.sampled_from(["", *_EFFECTS]),
)
images = st.builds(
    ContainerImage,
    names=st.lists(st.sampled_from(["small:latest", "large:1", "reg:5000/large:latest"]), min_size=1, unique=True),
    sizeBytes=st.sampled_from([10 * MIB, 300 * MIB, 5000 * MIB]),
)


def optional(**choices: Any) -> Any:
    """A dictionary with some of the keys, each with one of its values."""
    return st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in choices.items()})


@st.composite
def nodes(draw: Any, name: str) -> Node:
    labels = draw(st.fixed_dictionaries({}, optional={ZONE: st.sampled_from("ab"), HOSTNAME: st.just(name)}))
    labels |= draw(optional(disk=["ssd", "hdd"], size=["1", "5", "10", "large"]))
    amounts = {
        "cpu": draw(st.sampled_from(["0", "500m", "1", "3"])),
        "memory": draw(st.sampled_from(["0", "256Mi", "1Gi"])),
        "pods": draw(st.sampled_from(["0", "1", "3", "10"])),
    } | draw(
        st.fixed_dictionaries({}, optional={GPU: st.sampled_from(["0", "1", "2"]), "ephemeral-storage": st.just("1Gi")})
    )
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=NodeSpec(taints=draw(st.lists(taints, max_size=2)), unschedulable=draw(st.booleans())),
        status=NodeStatus(allocatable=amounts, images=draw(st.lists(images, max_size=2))),
    )


labels = optional(app=["a", "b"], tier=["front", "back"])
selectors = st.one_of(
    st.none(),
    st.builds(LabelSelector),
    st.builds(LabelSelector, matchLabels=optional(app=["a", "b"])),
    st.builds(
        LabelSelector,
        matchExpressions=st.lists(
            st.builds(
                LabelSelectorRequirement,
                key=st.just("app"),
                operator=st.sampled_from(["In", "NotIn"]),
                values=st.lists(st.sampled_from("ab"), min_size=1, max_size=2),
            ),
            min_size=1,
            max_size=1,
        ),
    ),
)
topology_keys = st.sampled_from([ZONE, HOSTNAME, "disk"])
terms = st.builds(
    PodAffinityTerm,
    labelSelector=selectors,
    topologyKey=topology_keys,
    namespaces=st.lists(st.sampled_from("xy"), max_size=1),
    namespaceSelector=st.one_of(st.none(), st.none(), st.builds(LabelSelector, matchLabels=optional(team=["one"]))),
)
weighted_terms = st.builds(WeightedPodAffinityTerm, weight=st.integers(1, 100), podAffinityTerm=terms)
requirements = st.one_of(
    st.builds(
        NodeSelectorRequirement,
        key=st.sampled_from([ZONE, "disk", "size"]),
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(st.sampled_from(["a", "b", "ssd", "5"]), min_size=1, max_size=2),
    ),
    st.builds(
        NodeSelectorRequirement,
        key=st.sampled_from(["disk", "gone"]),
        operator=st.sampled_from(["Exists", "DoesNotExist"]),
    ),
    st.builds(
        NodeSelectorRequirement, key=st.just("size"), operator=st.sampled_from(["Gt", "Lt"]), values=st.just(["4"])
    ),
)
names = st.builds(
    NodeSelectorRequirement,
    key=st.just("metadata.name"),
    operator=st.sampled_from(["In", "NotIn"]),
    values=st.sampled_from([["n0"], ["n1"], ["gone"]]),
)
node_terms = st.builds(
    NodeSelectorTerm, matchExpressions=st.lists(requirements, max_size=2), matchFields=st.lists(names, max_size=1)
)
node_affinities = st.builds(
    NodeAffinity,
    requiredDuringSchedulingIgnoredDuringExecution=st.one_of(
        st.none(), st.builds(NodeSelector, nodeSelectorTerms=st.lists(node_terms, min_size=1, max_size=2))
    ),
    preferredDuringSchedulingIgnoredDuringExecution=st.lists(
        st.builds(PreferredSchedulingTerm, weight=st.integers(1, 100), preference=node_terms), max_size=2
    ),
)
spreads = st.builds(
    TopologySpreadConstraint,
    maxSkew=st.integers(1, 2),
    topologyKey=topology_keys,
    whenUnsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    labelSelector=selectors,
    minDomains=st.sampled_from([None, 1, 3]),
    nodeAffinityPolicy=st.sampled_from([None, "Honor", "Ignore"]),
    nodeTaintsPolicy=st.sampled_from([None, "Honor", "Ignore"]),
    matchLabelKeys=st.lists(st.just("tier"), max_size=1),
)
ports = st.builds(
    ContainerPort,
    containerPort=st.just(80),
    hostPort=st.sampled_from([0, 80, 81]),
    hostIP=st.sampled_from(["", "10.0.0.1", "10.0.0.2"]),
    protocol=st.sampled_from(["TCP", "UDP"]),
)
requests = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "100m", "600m", "2"]),
        "memory": st.sampled_from(["64Mi", "512Mi"]),
        GPU: st.sampled_from(["0", "1"]),
        "ephemeral-storage": st.just("600Mi"),
    },
)
containers = st.builds(
    Container,
    name=st.just("main"),
    image=st.sampled_from(["small", "large:1", "reg:5000/large"]),
    resources=st.builds(ResourceRequirements, requests=requests),
    ports=st.lists(ports, max_size=1),
)
pod_affinities = st.builds(
    PodAffinity,
    requiredDuringSchedulingIgnoredDuringExecution=st.lists(terms, max_size=2),
    preferredDuringSchedulingIgnoredDuringExecution=st.lists(weighted_terms, max_size=2),
)
anti_affinities = st.builds(
    PodAntiAffinity,
    requiredDuringSchedulingIgnoredDuringExecution=st.lists(terms, max_size=1),
    preferredDuringSchedulingIgnoredDuringExecution=st.lists(weighted_terms, max_size=2),
)


@st.composite
def pods(draw: Any, name: str, node: str = "") -> Pod:
    affinity = Affinity(
        nodeAffinity=draw(st.one_of(st.none(), node_affinities)),
        podAffinity=draw(st.one_of(st.none(), pod_affinities)),
        podAntiAffinity=draw(st.one_of(st.none(), anti_affinities)),
    )
    spec = PodSpec(
        nodeName=node,
        containers=draw(st.lists(containers, min_size=1, max_size=2)),
        initContainers=draw(st.lists(containers, max_size=1)),
        nodeSelector=draw(optional(disk=["ssd", "hdd"])),
        tolerations=draw(st.lists(tolerations, max_size=2)),
        topologySpreadConstraints=draw(st.lists(spreads, max_size=2)),
        affinity=draw(st.sampled_from([None, affinity])),
        priority=draw(st.integers(0, 3)),
    )
    deleted_at = draw(st.sampled_from([None, None, None, "2026-01-01T00:00:00Z"])) if node else None
    meta = ObjectMeta(
        name=name,
        namespace=draw(st.sampled_from("xy")),
        uid=f"uid-{name}",
        labels=draw(labels),
        deletionTimestamp=deleted_at,
    )
    started = f"2026-01-01T00:00:{draw(st.integers(0, 9)):02d}Z"
    return Pod(metadata=meta, spec=spec, status=PodStatus(startTime=started))


@dataclass
class Situation:
    nodes: list[Node]
    pods: list[Pod]
    """Pods on nodes of the cluster, or on a node that does not exist."""
    pod: Pod
    namespaces: dict[str, dict[str, str]]

    def on(self, node: Node) -> list[Pod]:
        return [pod for pod in self.pods if pod.spec.nodeName == node.metadata.name]

    @property
    def placed_pods(self) -> list[tuple[Pod, Node]]:
        """The pods on nodes of the cluster, with their nodes."""
        return [(pod, node) for node in self.nodes for pod in self.on(node)]

    def simulation(self, profile: ProfileConfig | None = None) -> Simulation:
        simulation = Simulation(profile=profile)
        for name, labels in self.namespaces.items():
            simulation.table.counts.set_namespace(name, labels)
        for pod in self.pods[::2]:
            simulation.add_pod(pod)  # before their nodes are known
        for node in self.nodes:
            simulation.add_node(node)
        for pod in self.pods[1::2]:
            simulation.add_pod(pod)
        return simulation


@st.composite
def situations(draw: Any, most_nodes: int = 5, most_pods: int = 8) -> Situation:
    drawn = [draw(nodes(f"n{number}")) for number in range(draw(st.integers(1, most_nodes)))]
    homes = st.sampled_from([*(node.metadata.name for node in drawn), "gone"])
    return Situation(
        nodes=drawn,
        pods=[draw(pods(f"p{number}", draw(homes))) for number in range(draw(st.integers(0, most_pods)))],
        pod=draw(pods("new")),
        namespaces={"x": {"team": "one"}, "y": draw(optional(team=["one", "two"]))},
    )


def some_nodes(situation: Situation, data: st.DataObject) -> list[Node]:
    return data.draw(st.lists(st.sampled_from(situation.nodes), min_size=1, unique_by=lambda node: node.metadata.name))


def fill_informers(simulation: Simulation, *objects: Any) -> None:
    for obj in objects:
        simulation.handle.informers.of(type(obj))._put(key_of(obj), obj)


def plugin_of(simulation: Simulation, name: str) -> Any:
    return next(plugin for plugin in simulation.profile.plugins if plugin.name == name)


Rejections = dict[str, tuple[tuple[str, ...], bool]]
"""The reasons, and whether the rejection is final, by node."""


def rejections(simulation: Simulation, name: str, pod: Pod) -> Rejections:
    """The rejections of PreFilter and Filter of a plug-in, by node."""
    plugin, cycle, table = plugin_of(simulation, name), simulation.cycle(pod), simulation.table
    status = plugin.pre_filter(cycle) if hasattr(plugin, "pre_filter") else None
    if status is not None and not isinstance(status, PreFilterResult):
        if status.code is Code.SKIP:
            return {}
        return dict.fromkeys(table.rows, (status.reasons, status.code is Code.UNRESOLVABLE))
    by_slice = plugin.filter(cycle, table.every_row)
    numbers = np.arange(table.used, dtype=np.intp)
    assert (plugin.filter(cycle, numbers) == by_slice).all()
    by_node = {}
    for node, row in table.rows.items():
        rejection = cycle.rejections[int(by_slice[row])]
        if by_slice[row]:
            assert rejection.plugin == name
            by_node[node] = (rejection.reasons, rejection.is_final)
    return by_node


def scores(simulation: Simulation, name: str, pod: Pod, among: list[str]) -> dict[str, int] | None:
    """The plug-in's normalized scores of these nodes; None if the plug-in skips the pod."""
    plugin, cycle, table = plugin_of(simulation, name), simulation.cycle(pod), simulation.table
    rows = np.array(sorted(table.rows[node] for node in among), dtype=np.intp)
    status = plugin.pre_score(cycle, rows) if hasattr(plugin, "pre_score") else None
    if status is not None and status.code is Code.SKIP:
        return None
    scores = plugin.score(cycle, rows)
    if hasattr(plugin, "normalize"):
        scores = plugin.normalize(cycle, scores)
    return {table.names[row]: int(score) for row, score in zip(rows, scores, strict=True)}
