"""Taints, cordons, drains and priority classes with the real kubectl, and the scheduling events that it shows."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.e2e.kubectl.command import Kubectl, find
from tests.eventually import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as cluster:
        cluster.warm_up()
        yield cluster


@pytest.fixture
def kubectl(cluster: Cluster, kubectl_home: Path) -> Iterator[Kubectl]:
    program = find()
    if program is None:
        pytest.skip("there is no kubectl here")
    with cluster.namespace("nodes") as namespace:
        yield Kubectl(program=program, kubeconfig=cluster.kubeconfig_for(namespace), home=kubectl_home)


def run(kubectl: Kubectl, name: str, **spec: Any) -> None:
    kubectl("run", name, "--image=pause:3", f"--overrides={json.dumps({'spec': spec})}")


def node_of(kubectl: Kubectl, name: str) -> str:
    return kubectl.jsonpath("get", "pod", name, "{.spec.nodeName}")


def described(kubectl: Kubectl, name: str) -> list[str]:
    """Return the scheduling events of a pod, with single spaces."""
    lines = kubectl("describe", "pod", name).partition("Events:")[2].splitlines()
    return [" ".join(line.split()) for line in lines if "cheduling" in line or "Scheduled" in line]


def test_taint_keeps_pods_off_nodes_until_it_is_removed(kubectl: Kubectl) -> None:
    for node in ("node-0", "node-1"):
        kubectl("taint", "node", node, "team=red:NoSchedule")
    run(kubectl, "blue")
    wait_until(lambda: bool(described(kubectl, "blue")))
    (line,) = described(kubectl, "blue")
    kind, reason, _, sender, message = line.split(" ", 4)
    assert (kind, reason, sender) == ("Warning", "FailedScheduling", "default-scheduler")
    assert message == (
        "0/2 nodes are available: 2 node(s) had untolerated taint(s). no new claims to deallocate, preemption: "
        "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    toleration = {"key": "team", "operator": "Equal", "value": "red", "effect": "NoSchedule"}
    run(kubectl, "red", tolerations=[toleration])
    kubectl("wait", "--for=condition=Ready", "pod/red", "--timeout=60s")
    assert node_of(kubectl, "blue") == ""
    kubectl("taint", "node", "node-1", "team=red:NoSchedule-")
    kubectl("wait", "--for=condition=Ready", "pod/blue", "--timeout=60s")
    assert node_of(kubectl, "blue") == "node-1"
    assert described(kubectl, "blue")[-1].endswith("/blue to node-1")
    kubectl("taint", "node", "node-0", "team:NoSchedule-")


def test_cordoned_node_gets_no_new_pods(kubectl: Kubectl) -> None:
    kubectl("cordon", "node-0")
    for name in ("a", "b", "c"):
        run(kubectl, name)
    kubectl("wait", "--for=condition=Ready", "pod/a", "pod/b", "pod/c", "--timeout=60s")
    assert {node_of(kubectl, name) for name in ("a", "b", "c")} == {"node-1"}
    kubectl("cordon", "node-1")
    run(kubectl, "d")
    wait_until(lambda: bool(described(kubectl, "d")))
    assert "0/2 nodes are available: 2 node(s) were unschedulable." in described(kubectl, "d")[0]
    kubectl("uncordon", "node-0")
    kubectl("wait", "--for=condition=Ready", "pod/d", "--timeout=60s")
    assert node_of(kubectl, "d") == "node-0"
    kubectl("uncordon", "node-1")


def test_pods_of_a_drained_node_run_on_another_node(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=web:1", "--replicas=4")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    kubectl("drain", "node-1", "--force", "--ignore-daemonsets", "--pod-selector=app=web", "--timeout=60s")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    pods = kubectl.json("get", "pods", "-l", "app=web")["items"]
    assert {pod["spec"]["nodeName"] for pod in pods if not pod["metadata"].get("deletionTimestamp")} == {"node-0"}
    kubectl("uncordon", "node-1")


def test_priority_classes_by_name_and_by_default(kubectl: Kubectl) -> None:
    kubectl("create", "priorityclass", "high", "--value=1000", "--description=important")
    kubectl("create", "priorityclass", "usual", "--value=10", "--global-default=true", "--preemption-policy=Never")
    try:
        run(kubectl, "plain")
        run(kubectl, "important", priorityClassName="high")
        path = "{.spec.priority} {.spec.priorityClassName} {.spec.preemptionPolicy}"
        assert kubectl.jsonpath("get", "pod", "plain", path) == "10 usual Never"
        assert kubectl.jsonpath("get", "pod", "important", path) == "1000 high PreemptLowerPriority"
        assert ["high", "1000", "false"] in [row[:3] for row in kubectl.table("get", "priorityclasses")]
        assert "no PriorityClass with name gone was found" in kubectl.fails(
            "run", "lost", "--image=i", '--overrides={"spec":{"priorityClassName":"gone"}}'
        )
    finally:
        kubectl("delete", "priorityclass", "high", "usual")
