"""The real kubectl drains hollow nodes and respects disruption budgets."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.e2e.kubectl.command import Kubectl, find
from tests.eventually import wait_until

LABELS = {"app": "web"}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def drainer(cluster: Cluster, kubectl_home: Path) -> Kubectl:
    program = find()
    if program is None:
        pytest.skip("there is no kubectl here")
    return Kubectl(program=program, kubeconfig=cluster.kubeconfig, home=kubectl_home)


def pod_spec() -> dict[str, Any]:
    return {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "web:1"}]}


def manifest(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    version = {"Pod": "v1", "PodDisruptionBudget": "policy/v1"}.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": LABELS}, "spec": spec}


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": LABELS}, "spec": pod_spec()}
    return manifest(kind, name, selector={"matchLabels": LABELS}, template=template, **spec)


def apply(kubectl: Kubectl, *objects: dict[str, Any]) -> None:
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def pods(kubectl: Kubectl) -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = json.loads(kubectl("get", "pods", "-l", "app=web", "-o", "json"))["items"]
    return pods


def ready(kubectl: Kubectl) -> int:
    conditions = [condition for pod in pods(kubectl) for condition in pod["status"].get("conditions", ())]
    return sum(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def allowed(kubectl: Kubectl, budget: str) -> int:
    status = json.loads(kubectl("get", "pdb", budget, "-o", "json"))["status"]
    return int(status["disruptionsAllowed"])


def test_drain_moves_pods_to_other_nodes(drainer: Kubectl) -> None:
    apply(drainer, workload("Deployment", "web", replicas=6))
    wait_until(lambda: ready(drainer) == 6)
    output = drainer("drain", "node-0", "--timeout=60s")
    assert "node/node-0 cordoned" in output
    assert "node/node-0 drained" in output or "node/node-0 evicted" in output
    wait_until(lambda: ready(drainer) == 6)
    assert "node-0" not in {pod["spec"]["nodeName"] for pod in pods(drainer)}
    assert drainer("get", "node", "node-0", "-o", "jsonpath={.spec.unschedulable}") == "true"
    drainer("uncordon", "node-0")
    assert drainer("get", "node", "node-0", "-o", "jsonpath={.spec.unschedulable}") == ""


def test_disruption_budget_blocks_a_drain_until_it_is_relaxed(drainer: Kubectl) -> None:
    apply(
        drainer,
        workload("Deployment", "web", replicas=3),
        manifest("PodDisruptionBudget", "web", minAvailable=3, selector={"matchLabels": LABELS}),
    )
    wait_until(lambda: ready(drainer) == 3)
    node = pods(drainer)[0]["spec"]["nodeName"]
    before = {pod["metadata"]["uid"] for pod in pods(drainer)}
    refused = drainer.fails("drain", node, "--timeout=3s")
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused
    assert {pod["metadata"]["uid"] for pod in pods(drainer)} == before
    drainer("patch", "pdb", "web", "--type=merge", "-p", '{"spec":{"minAvailable":2}}')
    wait_until(lambda: allowed(drainer, "web") == 1)
    drainer("drain", node, "--timeout=60s")
    assert node not in {pod["spec"].get("nodeName") for pod in pods(drainer)}
    wait_until(lambda: ready(drainer) == 3)


def test_drain_needs_flags_for_daemon_set_pods_and_unmanaged_pods(drainer: Kubectl) -> None:
    alone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}, "spec": pod_spec()}
    apply(drainer, workload("DaemonSet", "agent"), alone)
    drainer("wait", "--for=condition=Ready", "pod/alone", "--timeout=60s")
    wait_until(lambda: ready(drainer) == 3)
    node = json.loads(drainer("get", "pod", "alone", "-o", "json"))["spec"]["nodeName"]
    refused = drainer.fails("drain", node, "--timeout=60s")
    assert "cannot delete DaemonSet-managed Pods" in refused
    assert "use --force to override" in refused
    drainer("drain", node, "--force", "--ignore-daemonsets", "--timeout=60s")
    drainer.fails("get", "pod", "alone")
    wait_until(lambda: ready(drainer) == 3)
