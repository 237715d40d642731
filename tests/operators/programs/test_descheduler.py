"""The descheduler moves pods away from a tainted node, as fast as their disruption budget allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from sampan.testing import Cluster
from tests.operators.program import Operator, running_operator
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD, GoModule
from tests.ports import free_port

pytestmark = NEEDS_TIME_TO_BUILD

DESCHEDULER = GoModule("sigs.k8s.io/descheduler", "v0.36.0")
PLUGIN = "RemovePodsViolatingNodeTaints"
PROFILE = {
    "name": "taints",
    "pluginConfig": [{"name": PLUGIN, "args": {}}, {"name": "DefaultEvictor", "args": {}}],
    "plugins": {"deschedule": {"enabled": [PLUGIN]}},
}
POLICY = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [PROFILE]}
WAIT_S = 120


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    DESCHEDULER.build_or_skip("./cmd/descheduler")
    with Cluster(nodes=2) as cluster:
        yield cluster


@pytest.fixture
def descheduler(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    directory = tmp_path_factory.mktemp("descheduler")
    policy = directory / "policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY))
    command = [str(DESCHEDULER.build_or_skip("./cmd/descheduler")), f"--kubeconfig={cluster.kubeconfig}"]
    command += [f"--policy-config-file={policy}", "--descheduling-interval=1s", "--leader-elect"]
    command += ["--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--cert-dir={directory}"]
    with running_operator(command, {}, directory / "descheduler.log") as operator:
        yield operator


def pods_by_node(cluster: Cluster) -> dict[str, list[dict[str, Any]]]:
    nodes: dict[str, list[dict[str, Any]]] = {}
    for pod in cluster.list("pods", labels="app=web"):
        nodes.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)
    return nodes


def names(pods: list[dict[str, Any]]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


def test_pods_leave_a_tainted_node_within_their_budget(cluster: Cluster, descheduler: Operator) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web"}]}}
    spec = {"replicas": 6, "selector": {"matchLabels": labels}, "template": template}
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    cluster.apply(
        [
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec},
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": budget},
        ]
    )
    cluster.wait_for("deployment/web", "jsonpath={.status.readyReplicas}=6", timeout_s=WAIT_S)
    cluster.wait_for("poddisruptionbudget/web", "jsonpath={.status.disruptionsAllowed}=1", timeout_s=WAIT_S)
    before = pods_by_node(cluster)
    assert len(before["node-0"]) == 3
    taint = [{"key": "maintenance", "effect": "NoSchedule"}]
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}, "spec": {"taints": taint}})
    for pod in before["node-0"]:
        cluster.wait_for(f"pod/{pod['metadata']['name']}", "delete", timeout_s=WAIT_S)
    cluster.wait_for("deployment/web", "jsonpath={.status.readyReplicas}=6", timeout_s=WAIT_S)
    after = pods_by_node(cluster)
    assert set(after) == {"node-1"}
    assert names(before["node-1"]) <= names(after["node-1"])
    evictions = [event for event in cluster.list("events") if event["reason"] == PLUGIN]
    assert {event["involvedObject"]["name"] for event in evictions} == names(before["node-0"])
