"""The conformance descriptions of sig-scheduling for nodes that will not do; a test's first line is its name."""

from tests.e2e.conformance.scheduling.scheduling_cluster import CPUS, NODES, Scene, pod


def test_requests_beyond_a_nodes_capacity(scene: Scene) -> None:
    """[sig-scheduling] SchedulerPredicates [Serial] validates resource limits of pods that are allowed to run
    [Conformance]"""
    fillers = [f"filler-{number}" for number in range(len(NODES))]
    scene.apply(*(pod(name, cpus=CPUS * 0.7) for name in fillers))
    scene.runs(*fillers)
    assert {scene.node_of(name) for name in fillers} == set(NODES)
    scene.apply(pod("additional", cpus=CPUS * 0.5))
    scene.refused("additional", "0/2 nodes are available: 2 Insufficient cpu.")
    scene.kubectl("delete", "pod", fillers[0], "--force", "--grace-period=0")
    scene.runs("additional")


def test_a_node_selector_that_matches(scene: Scene) -> None:
    """[sig-scheduling] SchedulerPredicates [Serial] validates that NodeSelector is respected if matching
    [Conformance]"""
    with scene.labelled(NODES[1], "kubernetes.io/e2e-test", "42"):
        scene.apply(pod("with-labels", nodeSelector={"kubernetes.io/e2e-test": "42"}))
        scene.runs("with-labels")
        assert scene.node_of("with-labels") == NODES[1]


def test_a_node_selector_that_does_not_match(scene: Scene) -> None:
    """[sig-scheduling] SchedulerPredicates [Serial] validates that NodeSelector is respected if not matching
    [Conformance]"""
    scene.apply(pod("restricted-pod", nodeSelector={"label": "nonempty"}))
    scene.refused("restricted-pod", "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. ")


def test_the_same_port_on_all_addresses(scene: Scene) -> None:
    """[sig-scheduling] SchedulerPredicates [Serial] validates that there exists conflict between pods with same
    hostPort and protocol but one using 0.0.0.0 hostIP [Conformance]"""

    def using(address: str) -> dict[str, object]:
        port = {"containerPort": 8080, "hostPort": 54322, "protocol": "TCP", "hostIP": address}
        return {"ports": [port]}

    chosen = {"kubernetes.io/hostname": NODES[0]}
    scene.apply(pod("pod4", nodeSelector=chosen, container=using("0.0.0.0")))
    scene.runs("pod4")
    scene.apply(pod("pod5", nodeSelector=chosen, container=using("127.0.0.1")))
    scene.refused(
        "pod5",
        "0/2 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, "
        "1 node(s) didn't match Pod's node affinity/selector.",
    )
