"""The scheduler's decision alone: pods a second at 5,000 nodes, and what a pod costs from 100 to 20,000 nodes."""

import time
from collections.abc import Iterator

from benchmarks import Row
from sampan.api.types.core_v1 import (
    Affinity,
    Container,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    ResourceRequirements,
    Taint,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.scheduler.simulation import Simulation

NODES, PODS = 5_000, 10_000
SIZES = (100, 1_000, 5_000, 20_000)
CASES = ("basic", "spread", "affinity")
GOALS = {"basic": 5_000.0, "spread": 2_000.0, "affinity": 2_000.0}


def node(number: int) -> Node:
    """Return a node. Nodes are in three zones, a fifth of them is tainted, and half of them have fast disks."""
    name = f"node-{number:05d}"
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "disk": "ssd" if number % 2 else "hdd",
    }
    taints = [] if number % 5 else [Taint(key="dedicated", value="infra", effect="NoSchedule")]
    amounts = {"cpu": "32", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=NodeSpec(taints=taints),
        status=NodeStatus(allocatable=amounts),
    )


def pod(number: int, case: str) -> Pod:
    app = {"app": f"app-{number % 20}"}
    requests = {"cpu": f"{(number % 4 + 1) * 50}m", "memory": f"{(number % 3 + 1) * 64}Mi"}
    container = Container(name="main", image="pause", resources=ResourceRequirements(requests=requests))
    spec = PodSpec(containers=[container])
    own = LabelSelector(matchLabels=app)
    if case == "spread":
        spec.topologySpreadConstraints = [
            TopologySpreadConstraint(
                maxSkew=1,
                topologyKey="topology.kubernetes.io/zone",
                whenUnsatisfiable="DoNotSchedule",
                labelSelector=own,
            )
        ]
    elif case == "affinity":
        spec.affinity = _affinity(own)
    meta = ObjectMeta(name=f"p{number}", namespace="bench", uid=f"u{number}", labels=app)
    return Pod(metadata=meta, spec=spec)


def _affinity(own: LabelSelector) -> Affinity:
    away = WeightedPodAffinityTerm(
        weight=100, podAffinityTerm=PodAffinityTerm(topologyKey="kubernetes.io/hostname", labelSelector=own)
    )
    fast = NodeSelectorTerm(matchExpressions=[NodeSelectorRequirement(key="disk", operator="In", values=["ssd"])])
    return Affinity(
        podAntiAffinity=PodAntiAffinity(preferredDuringSchedulingIgnoredDuringExecution=[away]),
        nodeAffinity=NodeAffinity(
            requiredDuringSchedulingIgnoredDuringExecution=NodeSelector(nodeSelectorTerms=[fast])
        ),
    )


def per_second(nodes: int, pods: int, case: str) -> float:
    """Return the decisions per CPU second, with the parsing of the pods and the updates of the node table."""
    simulation = Simulation()
    for number in range(nodes):
        simulation.add_node(node(number))
    pending = [pod(number, case) for number in range(pods)]
    began = time.process_time()
    for new_pod in pending:
        assert simulation.schedule(new_pod)
    return pods / (time.process_time() - began)


def pods_on(nodes: int) -> int:
    """Return the number of pods to schedule; small clusters have no room for all."""
    return min(PODS, nodes * 20)


def cost_us(nodes: int, case: str) -> float:
    """Return the CPU time of a decision in a cluster of that size."""
    return 1e6 / per_second(nodes, pods_on(nodes), case)


def rows() -> Iterator[Row]:
    for case in CASES:
        rate = per_second(NODES, PODS, case)
        yield Row(
            f"decisions, {case}", rate, "pods/s", GOALS[case], f"{NODES:,} nodes, {PODS:,} pods, every node looked at"
        )
    for case in CASES:
        for nodes in SIZES:
            yield Row(
                f"a decision, {case}", cost_us(nodes, case), "us", None, f"{nodes:,} nodes, {pods_on(nodes):,} pods"
            )
