"""The real kubectl drains hollow nodes and respects disruption budgets."""

from collections.abc import Iterator
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.namespace_objects import NamespaceObjects
from tests.eventually import wait_until

LABELS = {"app": "web"}


@pytest.fixture(scope="module")
def sampan_cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def drainer(kubectl: Kubectl, sampan_cluster: Cluster) -> Iterator[Kubectl]:
    """kubectl for a cluster without pods of earlier tests, whose nodes are schedulable again after the test."""
    wait_until(lambda: not sampan_cluster.list("pods", namespace=""))
    yield kubectl
    kubectl("uncordon", "node-0", "node-1", "node-2")


def pod_spec() -> dict[str, Any]:
    return {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "web:1"}]}


def manifest(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    version = {"Pod": "v1", "PodDisruptionBudget": "policy/v1"}.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": LABELS}, "spec": spec}


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": LABELS}, "spec": pod_spec()}
    return manifest(kind, name, selector={"matchLabels": LABELS}, template=template, **spec)


def pods(objects: NamespaceObjects) -> list[dict[str, Any]]:
    return objects.list("pods", labels="app=web")


def ready(objects: NamespaceObjects) -> int:
    conditions = [condition for pod in pods(objects) for condition in pod["status"].get("conditions", ())]
    return sum(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def test_drain_moves_pods_to_other_nodes(drainer: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(workload("Deployment", "web", replicas=6))
    wait_until(lambda: ready(objects) == 6)
    output = drainer("drain", "node-0", "--timeout=60s")
    assert "node/node-0 cordoned" in output
    assert "node/node-0 drained" in output or "node/node-0 evicted" in output
    wait_until(lambda: ready(objects) == 6)
    assert "node-0" not in {pod["spec"]["nodeName"] for pod in pods(objects)}
    assert objects.get("node/node-0")["spec"]["unschedulable"] is True
    drainer("uncordon", "node-0")
    assert "unschedulable" not in objects.get("node/node-0")["spec"]


def test_disruption_budget_blocks_a_drain_until_it_is_relaxed(drainer: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(
        [
            workload("Deployment", "web", replicas=3),
            manifest("PodDisruptionBudget", "web", minAvailable=3, selector={"matchLabels": LABELS}),
        ]
    )
    wait_until(lambda: ready(objects) == 3)
    node = pods(objects)[0]["spec"]["nodeName"]
    before = {pod["metadata"]["uid"] for pod in pods(objects)}
    refused = drainer.fails("drain", node, "--timeout=3s")
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused
    assert {pod["metadata"]["uid"] for pod in pods(objects)} == before
    drainer("patch", "pdb", "web", "--type=merge", "-p", '{"spec":{"minAvailable":2}}')
    objects.wait_for("pdb/web", "jsonpath={.status.disruptionsAllowed}=1")
    drainer("drain", node, "--timeout=60s")
    assert node not in {pod["spec"].get("nodeName") for pod in pods(objects)}
    wait_until(lambda: ready(objects) == 3)


def test_drain_needs_flags_for_daemon_set_pods_and_unmanaged_pods(drainer: Kubectl, objects: NamespaceObjects) -> None:
    alone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}, "spec": pod_spec()}
    objects.apply([workload("DaemonSet", "agent"), alone])
    objects.wait_for("pod/alone", "condition=Ready")
    wait_until(lambda: ready(objects) == 3)
    node = objects.get("pod/alone")["spec"]["nodeName"]
    refused = drainer.fails("drain", node, "--timeout=60s")
    assert "cannot delete DaemonSet-managed Pods" in refused
    assert "use --force to override" in refused
    drainer("drain", node, "--force", "--ignore-daemonsets", "--timeout=60s")
    assert "alone" not in objects.names("pods")
    wait_until(lambda: ready(objects) == 3)
