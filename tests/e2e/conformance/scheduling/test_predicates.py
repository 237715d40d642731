"""Conformance tests of sig-scheduling for predicates. The first paragraph of a docstring is the official test name."""

from tests.e2e.conformance.scheduling.scheduling_cluster import CPUS, NODES, SchedulingCluster, pod


def test_pod_above_free_node_capacity_is_unschedulable(scheduling_cluster: SchedulingCluster) -> None:
    """[sig-scheduling] SchedulerPredicates validates resource limits of pods that are allowed to run
    [Conformance]"""
    fillers = [f"filler-{number}" for number in range(len(NODES))]
    scheduling_cluster.apply(*(pod(name, cpus=CPUS * 0.7) for name in fillers))
    scheduling_cluster.wait_until_ready(*fillers)
    assert {scheduling_cluster.node_of(name) for name in fillers} == set(NODES)
    scheduling_cluster.apply(pod("additional", cpus=CPUS * 0.5))
    scheduling_cluster.wait_until_unschedulable("additional", "0/2 nodes are available: 2 Insufficient cpu.")
    scheduling_cluster.kubectl("delete", "pod", fillers[0], "--force", "--grace-period=0")
    scheduling_cluster.wait_until_ready("additional")


def test_matching_node_selector(scheduling_cluster: SchedulingCluster) -> None:
    """[sig-scheduling] SchedulerPredicates validates that NodeSelector is respected if matching
    [Conformance]"""
    with scheduling_cluster.labelled(NODES[1], "kubernetes.io/e2e-test", "42"):
        scheduling_cluster.apply(pod("with-labels", nodeSelector={"kubernetes.io/e2e-test": "42"}))
        scheduling_cluster.wait_until_ready("with-labels")
        assert scheduling_cluster.node_of("with-labels") == NODES[1]


def test_node_selector_without_match_is_unschedulable(scheduling_cluster: SchedulingCluster) -> None:
    """[sig-scheduling] SchedulerPredicates validates that NodeSelector is respected if not matching
    [Conformance]"""
    scheduling_cluster.apply(pod("restricted-pod", nodeSelector={"label": "nonempty"}))
    scheduling_cluster.wait_until_unschedulable(
        "restricted-pod", "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. "
    )


def test_host_port_conflict_with_wildcard_host_ip(scheduling_cluster: SchedulingCluster) -> None:
    """[sig-scheduling] SchedulerPredicates validates that there exists conflict between pods with same hostPort and
    protocol but one using 0.0.0.0 hostIP [Conformance]"""

    def container_with_host_ip(address: str) -> dict[str, object]:
        port = {"containerPort": 8080, "hostPort": 54322, "protocol": "TCP", "hostIP": address}
        return {"ports": [port]}

    chosen = {"kubernetes.io/hostname": NODES[0]}
    scheduling_cluster.apply(pod("pod4", nodeSelector=chosen, container=container_with_host_ip("0.0.0.0")))
    scheduling_cluster.wait_until_ready("pod4")
    scheduling_cluster.apply(pod("pod5", nodeSelector=chosen, container=container_with_host_ip("127.0.0.1")))
    scheduling_cluster.wait_until_unschedulable(
        "pod5",
        "0/2 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, "
        "1 node(s) didn't match Pod's node affinity/selector.",
    )
