"""Random clusters: nodes, the pods on them, and a pod to schedule, small enough for a check node by node."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

import hypothesis
import msgspec
import numpy as np
from hypothesis import strategies as st

from sampan.api.feature_gates import FeatureGates
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
from sampan.machinery.copies import copy_of
from sampan.machinery.object_key import key_of
from sampan.scheduler.cache.arrays import Ints
from sampan.scheduler.config import PluginChoice, ProfileConfig
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

_T = TypeVar("_T")


def all_combinations(kind: type[_T], **fields: Iterable[Any]) -> list[_T]:
    """All objects with one of these values in each field. To sample one of them is a single choice, while `st.builds`
    makes a choice for each field, and choices are what random clusters cost."""
    return [kind(**dict(zip(fields, values, strict=True))) for values in product(*fields.values())]


def subsets(choices: Mapping[str, Sequence[_T]]) -> list[dict[str, _T]]:
    """All dictionaries with some of the keys, each with one of its values. Half of them lack a certain key."""
    options = [[*([None] * len(values)), *values] for values in choices.values()]
    return [
        {key: value for key, value in zip(choices, values, strict=True) if value is not None}
        for values in product(*options)
    ]


def optional(**choices: Sequence[str]) -> st.SearchStrategy[dict[str, str]]:
    """A dictionary with some of the keys, each with one of its values."""
    return st.sampled_from(subsets(choices)).map(dict)


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
taints = st.sampled_from(all_combinations(Taint, key="kl", value=["", "v"], effect=_EFFECTS))
tolerations = st.sampled_from(
    all_combinations(
        Toleration,
        key=["", "k", "l", "node.kubernetes.io/unschedulable"],
        operator=["", "Equal", "Exists"],
        value=["", "v"],
        effect=["", *_EFFECTS],
    )
)
images = st.builds(
    ContainerImage,
    names=st.lists(st.sampled_from(["small:latest", "large:1", "reg:5000/large:latest"]), min_size=1, unique=True),
    sizeBytes=st.sampled_from([10 * MIB, 300 * MIB, 5000 * MIB]),
)
node_labels = optional(**{ZONE: "ab", "disk": ["ssd", "hdd"], "size": ["1", "5", "10", "large"]})
allocatable = st.sampled_from(
    [
        {**amounts, **more}
        for amounts in all_combinations(
            dict, cpu=["0", "500m", "1", "3"], memory=["0", "256Mi", "1Gi"], pods=["0", "1", "3", "10"]
        )
        for more in subsets({GPU: ["0", "1", "2"], "ephemeral-storage": ["1Gi"]})
    ]
)


@st.composite
def nodes(draw: Any, name: str) -> Node:
    node = Node(
        metadata=ObjectMeta(name=name, labels=draw(node_labels) | draw(st.sampled_from([{}, {HOSTNAME: name}]))),
        spec=NodeSpec(taints=draw(st.lists(taints, max_size=2)), unschedulable=draw(st.booleans())),
        status=NodeStatus(allocatable=draw(allocatable), images=draw(st.lists(images, max_size=2))),
    )
    return copy_of(node)


labels = optional(app="ab", tier=["front", "back"])
_one_or_two = [["a"], ["b"], ["a", "a"], ["a", "b"], ["b", "a"], ["b", "b"]]
_expressions = all_combinations(LabelSelectorRequirement, key=["app"], operator=["In", "NotIn"], values=_one_or_two)
selectors = st.sampled_from(
    [
        *[None] * 12,
        *[LabelSelector()] * 12,
        *all_combinations(LabelSelector, matchLabels=[{}, {}, {"app": "a"}, {"app": "b"}]) * 3,
        *all_combinations(LabelSelector, matchExpressions=[[expression] for expression in _expressions]),
    ]
)
topology_keys = [ZONE, HOSTNAME, "disk"]
_terms = all_combinations(
    PodAffinityTerm,
    topologyKey=topology_keys,
    namespaces=[[], [], ["x"], ["y"]],
    namespaceSelector=[*[None] * 4, LabelSelector(), LabelSelector(matchLabels={"team": "one"})],
)
terms = st.builds(msgspec.structs.replace, st.sampled_from(_terms), labelSelector=selectors)
weighted_terms = st.builds(WeightedPodAffinityTerm, weight=st.integers(1, 100), podAffinityTerm=terms)
_values = ["a", "b", "ssd", "5"]
requirements = st.sampled_from(
    [
        *all_combinations(
            NodeSelectorRequirement,
            key=[ZONE, "disk", "size"],
            operator=["In", "NotIn"],
            values=[*([value] for value in _values), *map(list, product(_values, _values))],
        ),
        *all_combinations(NodeSelectorRequirement, key=["disk", "gone"], operator=["Exists", "DoesNotExist"]) * 30,
        *all_combinations(NodeSelectorRequirement, key=["size"], operator=["Gt", "Lt"], values=[["4"]]) * 60,
    ]
)
names = st.sampled_from(
    all_combinations(
        NodeSelectorRequirement,
        key=["metadata.name"],
        operator=["In", "NotIn"],
        values=[["n0"], ["n1"], ["gone"]],
    )
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
_spreads = all_combinations(
    TopologySpreadConstraint,
    maxSkew=[1, 2],
    topologyKey=topology_keys,
    whenUnsatisfiable=["DoNotSchedule", "ScheduleAnyway"],
    minDomains=[None, 1, 3],
    nodeAffinityPolicy=[None, "Honor", "Ignore"],
    nodeTaintsPolicy=[None, "Honor", "Ignore"],
    matchLabelKeys=[[], ["tier"]],
)
spreads = st.builds(msgspec.structs.replace, st.sampled_from(_spreads), labelSelector=selectors)
ports = st.sampled_from(
    all_combinations(
        ContainerPort,
        containerPort=[80],
        hostPort=[0, 80, 81],
        hostIP=["", "10.0.0.1", "10.0.0.2"],
        protocol=["TCP", "UDP"],
    )
)
_requests = subsets(
    {
        "cpu": ["0", "100m", "600m", "2"],
        "memory": ["64Mi", "512Mi"],
        GPU: ["0", "1"],
        "ephemeral-storage": ["600Mi"],
    }
)
containers = st.builds(
    Container,
    name=st.just("main"),
    image=st.sampled_from(["small", "large:1", "reg:5000/large"]),
    resources=st.sampled_from(all_combinations(ResourceRequirements, requests=_requests)),
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
affinities = st.builds(
    Affinity,
    nodeAffinity=st.one_of(st.none(), node_affinities),
    podAffinity=st.one_of(st.none(), pod_affinities),
    podAntiAffinity=st.one_of(st.none(), anti_affinities),
)


@st.composite
def pods(draw: Any, name: str, node: str = "") -> Pod:
    spec = PodSpec(
        nodeName=node,
        containers=draw(st.lists(containers, min_size=1, max_size=2)),
        initContainers=draw(st.lists(containers, max_size=1)),
        nodeSelector=draw(optional(disk=["ssd", "hdd"])),
        tolerations=draw(st.lists(tolerations, max_size=2)),
        topologySpreadConstraints=draw(st.lists(spreads, max_size=2)),
        affinity=draw(st.one_of(st.none(), affinities)),
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
    return copy_of(Pod(metadata=meta, spec=spec, status=PodStatus(startTime=started)))


def profile_with(*plugins: str, **args: Any) -> ProfileConfig:
    """A profile with these plugins and the two that no profile can do without: it is made in a fraction of the time
    that all plugins take. `args` are the arguments of the first plugin."""
    names = ("PrioritySort", *plugins, "DefaultBinder")
    return ProfileConfig(plugins=[PluginChoice(name) for name in names], args={plugins[0]: args} if args else {})


@dataclass
class Situation:
    nodes: list[Node]
    pods: list[Pod]
    """Pods on nodes of the cluster, or on a node that does not exist."""
    pod: Pod
    namespaces: dict[str, dict[str, str]]

    def pods_on(self, node: Node) -> list[Pod]:
        return [pod for pod in self.pods if pod.spec.nodeName == node.metadata.name]

    @property
    def placed_pods(self) -> list[tuple[Pod, Node]]:
        """The pods on nodes of the cluster, with their nodes."""
        return [(pod, node) for node in self.nodes for pod in self.pods_on(node)]

    def simulation(
        self, *plugins: str, profile: ProfileConfig | None = None, feature_gates: FeatureGates | None = None
    ) -> Simulation:
        """A simulation with these plugins, or else with the profile, or else with the default plugins."""
        simulation = Simulation(profile=profile_with(*plugins) if plugins else profile, feature_gates=feature_gates)
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
def situations(draw: Any, max_nodes: int = 5, most_pods: int = 8) -> Situation:
    drawn = [draw(nodes(f"n{number}")) for number in range(draw(st.integers(1, max_nodes)))]
    homes = st.sampled_from([*(node.metadata.name for node in drawn), "gone"])
    return Situation(
        nodes=drawn,
        pods=[draw(pods(f"p{number}", draw(homes))) for number in range(draw(st.integers(0, most_pods)))],
        pod=draw(pods("new")),
        namespaces={"x": {"team": "one"}, "y": draw(optional(team=["one", "two"]))},
    )


def draw_nodes(situation: Situation, data: st.DataObject) -> list[Node]:
    return data.draw(st.lists(st.sampled_from(situation.nodes), min_size=1, unique_by=lambda node: node.metadata.name))


def fill_informers(simulation: Simulation, *objects: Any) -> None:
    for obj in objects:
        simulation.handle.informers.for_kind(type(obj))._put(key_of(obj), obj)


def plugin_of(simulation: Simulation, name: str) -> Any:
    return next(plugin for plugin in simulation.profile.plugins if plugin.name == name)


def requests_nothing_else(simulation: Simulation, before: Ints) -> bool:
    """Whether the requested amounts of all nodes are the same as before. A filter may have added resources that no node
    had until then; nothing is requested of them."""
    after = simulation.table.requested
    return bool((after[: len(before)] == before).all()) and not after[len(before) :].any()


Rejections = dict[str, tuple[tuple[str, ...], bool]]
"""The reasons, and whether the rejection is final, by node."""


def rejections(simulation: Simulation, name: str, pod: Pod) -> Rejections:
    """The rejections of PreFilter and Filter of a plugin, by node."""
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
    """The plugin's normalized scores of these nodes; None if the plugin skips the pod."""
    plugin, cycle, table = plugin_of(simulation, name), simulation.cycle(pod), simulation.table
    rows = np.array(sorted(table.rows[node] for node in among), dtype=np.intp)
    status = plugin.pre_score(cycle, rows) if hasattr(plugin, "pre_score") else None
    if status is not None and status.code is Code.SKIP:
        return None
    scores = plugin.score(cycle, rows)
    if hasattr(plugin, "normalize"):
        scores = plugin.normalize(cycle, scores)
    return {table.names[row]: int(score) for row, score in zip(rows, scores, strict=True)}
