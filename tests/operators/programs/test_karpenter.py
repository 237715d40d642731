"""Karpenter with its kwok provider: nodes come with pending pods and go when they are not needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.operators.api import Api, has_condition
from tests.operators.program import running_operator
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD, GoModule
from tests.ports import free_ports

pytestmark = NEEDS_TIME_TO_BUILD

KARPENTER = GoModule("sigs.k8s.io/karpenter", "v1.0.8")
NODE_CLASSES = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"
WAIT_S = 120


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    program = KARPENTER.build_or_skip("./kwok", "karpenter")
    definitions = KARPENTER.files_or_skip("pkg/apis/crds/*.yaml", "kwok/apis/crds/*.yaml")
    log = tmp_path_factory.mktemp("karpenter") / "karpenter.log"
    metrics, health = free_ports(2)
    environment = {
        "SYSTEM_NAMESPACE": "kube-system",
        "DISABLE_WEBHOOK": "true",
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
        "BATCH_IDLE_DURATION": "100ms",
    }
    with Cluster() as cluster:
        cluster.apply(definitions)
        with running_operator([str(program)], {"KUBECONFIG": str(cluster.kubeconfig), **environment}, log):
            create_pool(cluster)
            yield cluster


def node_pool(name: str, **template: Any) -> dict[str, Any]:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    spec = {
        "nodeClassRef": reference,
        "expireAfter": "720h",
        "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
        **template,
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": spec},
            "limits": {"cpu": "1000"},
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"},
        },
    }


def create_pool(cluster: Cluster) -> None:
    api = Api(cluster)
    cluster.apply(
        {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}
    )
    now = api.get(f"{NODE_CLASSES}/default")["metadata"]["creationTimestamp"]
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": now}
    api.merge(
        f"{NODE_CLASSES}/default/status", {"status": {"conditions": [ready]}}
    )  # the provider has no controller for it
    cluster.apply(node_pool("default"))
    cluster.wait_for("nodepool/default", lambda value: has_condition(value, "Ready"), timeout_s=WAIT_S)


def deployment(replicas: int) -> dict[str, Any]:
    labels = {"app": "web"}
    container = {"name": "main", "image": "web", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def start_machines(cluster: Cluster) -> None:
    """Start the hollow nodes of all claims. Karpenter finds the node of a claim only if the node changes after the
    identity of the machine has been written into the claim."""
    api = Api(cluster)
    claims = api.wait_for("/apis/karpenter.sh/v1/nodeclaims", are_launched)["items"]
    for claim in claims:
        name = claim["status"]["providerID"].removeprefix("kwok://")
        api.merge(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {"sampan.dev/runtime": "hollow"}}})


def are_launched(page: dict[str, Any]) -> bool:
    return bool(page["items"]) and all(claim.get("status", {}).get("providerID") for claim in page["items"])


def test_nodes_come_with_pending_pods_and_go_with_them(cluster: Cluster) -> None:
    cluster.apply(deployment(5))
    start_machines(cluster)
    cluster.wait_for("deployment/web", "jsonpath={.status.readyReplicas}=5", timeout_s=WAIT_S)
    claims = [
        cluster.wait_for(claim, lambda value: has_condition(value, "Initialized"), timeout_s=WAIT_S)[0]
        for claim in cluster.list("nodeclaims")
    ]
    assert claims
    nodes = {node["metadata"]["name"]: node for node in cluster.list("nodes")}
    assert {claim["status"]["nodeName"] for claim in claims} == set(nodes)
    assert all(node["metadata"]["labels"]["karpenter.sh/nodepool"] == "default" for node in nodes.values())
    assert all("karpenter.sh/termination" in node["metadata"]["finalizers"] for node in nodes.values())
    cluster.delete("deployment/web")
    for name in nodes:
        cluster.wait_for(f"node/{name}", "delete", timeout_s=WAIT_S)
    assert cluster.list("nodeclaims") == []


def test_rules_of_the_schema_refuse_an_invalid_pool(cluster: Cluster) -> None:
    api = Api(cluster)
    requirement = {"key": "karpenter.sh/custom", "operator": "In", "values": ["x"]}
    reply = api.send("POST", NODE_POOLS, node_pool("restricted", requirements=[requirement]))
    assert (reply.code, 'label domain "karpenter.sh" is restricted' in reply.message) == (422, True)
    requirement = {"key": "kubernetes.io/os", "operator": "In", "values": []}
    reply = api.send("POST", NODE_POOLS, node_pool("empty", requirements=[requirement]))
    assert (reply.code, "requirements with operator 'In' must have a value defined" in reply.message) == (422, True)
