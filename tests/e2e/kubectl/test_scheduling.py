"""Taints, cordons, drains and priority classes with the real kubectl, and the scheduling events that it shows."""

from collections.abc import Iterator
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.namespace_objects import NamespaceObjects
from tests.eventually import wait_until


@pytest.fixture(scope="module")
def sampan_cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as cluster:
        cluster.warm_up()
        yield cluster


def run(objects: NamespaceObjects, name: str, **spec: Any) -> None:
    """Create a pod, as `kubectl run` does."""
    container = {"name": name, "image": "pause:3"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}
    objects.apply(pod)


def node_of(objects: NamespaceObjects, name: str) -> str:
    return str(objects.get(f"pod/{name}")["spec"].get("nodeName", ""))


def wait_for_event(objects: NamespaceObjects, pod: str) -> None:
    wait_until(lambda: any(event["involvedObject"]["name"] == pod for event in objects.list("events")))


def list_scheduling_events(kubectl: Kubectl, name: str) -> list[str]:
    """Return the scheduling events of a pod, with single spaces."""
    lines = kubectl("describe", "pod", name).partition("Events:")[2].splitlines()
    return [" ".join(line.split()) for line in lines if "cheduling" in line or "Scheduled" in line]


def test_taint_keeps_pods_off_nodes_until_it_is_removed(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    for node in ("node-0", "node-1"):
        kubectl("taint", "node", node, "team=red:NoSchedule")
    run(objects, "blue")
    wait_for_event(objects, "blue")
    (line,) = list_scheduling_events(kubectl, "blue")
    kind, reason, _, sender, message = line.split(" ", 4)
    assert (kind, reason, sender) == ("Warning", "FailedScheduling", "default-scheduler")
    assert message == (
        "0/2 nodes are available: 2 node(s) had untolerated taint(s). no new claims to deallocate, preemption: "
        "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    toleration = {"key": "team", "operator": "Equal", "value": "red", "effect": "NoSchedule"}
    run(objects, "red", tolerations=[toleration])
    kubectl("wait", "--for=condition=Ready", "pod/red", "--timeout=60s")
    assert node_of(objects, "blue") == ""
    kubectl("taint", "node", "node-1", "team=red:NoSchedule-")
    kubectl("wait", "--for=condition=Ready", "pod/blue", "--timeout=60s")
    assert node_of(objects, "blue") == "node-1"
    assert list_scheduling_events(kubectl, "blue")[-1].endswith("/blue to node-1")
    kubectl("taint", "node", "node-0", "team:NoSchedule-")


def test_cordoned_node_gets_no_new_pods(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    kubectl("cordon", "node-0")
    for name in ("a", "b", "c"):
        run(objects, name)
    kubectl("wait", "--for=condition=Ready", "pod/a", "pod/b", "pod/c", "--timeout=60s")
    assert {node_of(objects, name) for name in ("a", "b", "c")} == {"node-1"}
    kubectl("cordon", "node-1")
    run(objects, "d")
    wait_for_event(objects, "d")
    assert "0/2 nodes are available: 2 node(s) were unschedulable." in list_scheduling_events(kubectl, "d")[0]
    kubectl("uncordon", "node-0")
    kubectl("wait", "--for=condition=Ready", "pod/d", "--timeout=60s")
    assert node_of(objects, "d") == "node-0"
    kubectl("uncordon", "node-1")


def test_pods_of_a_drained_node_run_on_another_node(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    kubectl("create", "deployment", "web", "--image=web:1", "--replicas=4")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    kubectl("drain", "node-1", "--force", "--ignore-daemonsets", "--pod-selector=app=web", "--timeout=60s")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    pods = objects.list("pods", labels="app=web")
    assert {pod["spec"]["nodeName"] for pod in pods if not pod["metadata"].get("deletionTimestamp")} == {"node-0"}
    kubectl("uncordon", "node-1")


def priority_of(objects: NamespaceObjects, name: str) -> tuple[int, str, str]:
    spec = objects.get(f"pod/{name}")["spec"]
    return spec["priority"], spec["priorityClassName"], spec["preemptionPolicy"]


def test_priority_classes_by_name_and_by_default(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    kubectl("create", "priorityclass", "high", "--value=1000", "--description=important")
    kubectl("create", "priorityclass", "usual", "--value=10", "--global-default=true", "--preemption-policy=Never")
    try:
        run(objects, "plain")
        run(objects, "important", priorityClassName="high")
        assert priority_of(objects, "plain") == (10, "usual", "Never")
        assert priority_of(objects, "important") == (1000, "high", "PreemptLowerPriority")
        assert ["high", "1000", "false"] in [row[:3] for row in kubectl.table("get", "priorityclasses")]
        assert "no PriorityClass with name gone was found" in kubectl.fails(
            "run", "lost", "--image=i", '--overrides={"spec":{"priorityClassName":"gone"}}'
        )
    finally:
        kubectl("delete", "priorityclass", "high", "usual")
