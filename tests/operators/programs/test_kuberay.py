"""KubeRay's operator on hollow nodes: clusters with a head and workers, which are scaled, replaced, suspended and
deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from sampan.testing import Cluster
from tests.operators.api import Api, has_condition
from tests.operators.program import running_operator
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD, GoModule
from tests.ports import free_ports

pytestmark = NEEDS_TIME_TO_BUILD

KUBERAY = GoModule("github.com/ray-project/kuberay/ray-operator", "v1.6.1")
CLUSTERS = "/apis/ray.io/v1/namespaces/default/rayclusters"
NAMESPACE = "ray-system"
SAMPLE = "raycluster-kuberay"
"""The cluster of the project's sample: one head and one worker."""
WAIT_S = 120


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    program = KUBERAY.build_or_skip(".", "kuberay-operator")
    definitions = KUBERAY.files_or_skip("config/crd/bases/*.yaml")
    log = tmp_path_factory.mktemp("kuberay") / "operator.log"
    metrics, probe = free_ports(2)
    command = [
        str(program),
        f"--metrics-addr=127.0.0.1:{metrics}",
        f"--health-probe-bind-address=127.0.0.1:{probe}",
        f"--leader-election-namespace={NAMESPACE}",
        "--feature-gates=RayCronJob=true",
    ]
    with Cluster(nodes=2) as cluster:
        cluster.apply([*definitions, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
        with running_operator(command, {"KUBECONFIG": str(cluster.kubeconfig)}, log):
            yield cluster


@pytest.fixture(scope="module")
def sample() -> dict[str, Any]:
    value: dict[str, Any] = yaml.safe_load(
        KUBERAY.files_or_skip("config/samples/ray-cluster.sample.yaml")[0].read_text()
    )
    return value


def pods_of(cluster: Cluster, node_type: str) -> dict[str, str]:
    """Return the names and phases of the pods of the sample's cluster of one type, head or worker."""
    pods = [pod for pod in cluster.list("pods") if pod["metadata"].get("labels", {}).get("ray.io/cluster") == SAMPLE]
    return {
        pod["metadata"]["name"]: pod["status"]["phase"]
        for pod in pods
        if pod["metadata"]["labels"]["ray.io/node-type"] == node_type and "deletionTimestamp" not in pod["metadata"]
    }


def wait_until_ready(cluster: Cluster, workers: int) -> dict[str, Any]:
    def is_ready(value: dict[str, Any]) -> bool:
        status = value.get("status", {})
        return (status.get("state"), status.get("readyWorkerReplicas", 0)) == ("ready", workers)

    ready: dict[str, Any] = cluster.wait_for(f"raycluster/{SAMPLE}", is_ready, timeout_s=WAIT_S)[0]
    return ready


def test_cluster_has_a_head_with_a_service_and_workers(cluster: Cluster, sample: dict[str, Any]) -> None:
    cluster.apply(sample)
    ready = wait_until_ready(cluster, workers=1)
    assert has_condition(ready, "HeadPodReady")
    assert has_condition(ready, "RayClusterProvisioned")
    (head,) = pods_of(cluster, "head")
    assert ready["status"]["head"]["podName"] == head
    service = cluster.get(f"service/{SAMPLE}-head-svc")
    assert {port["name"] for port in service["spec"]["ports"]} >= {"gcs-server", "dashboard", "client"}
    assert list(pods_of(cluster, "worker").values()) == ["Running"]


def test_workers_are_scaled_and_replaced(cluster: Cluster, sample: dict[str, Any]) -> None:
    cluster.apply(sample)
    wait_until_ready(cluster, workers=1)
    groups = [{**sample["spec"]["workerGroupSpecs"][0], "replicas": 3}]
    api = Api(cluster)
    api.merge(f"{CLUSTERS}/{SAMPLE}", {"spec": {"workerGroupSpecs": groups}})
    wait_until_ready(cluster, workers=3)
    lost = sorted(pods_of(cluster, "worker"))[0]
    cluster.delete(f"pod/{lost}")
    api.wait_gone(f"/api/v1/namespaces/default/pods/{lost}")
    wait_until_ready(cluster, workers=3)
    groups[0]["replicas"] = 1
    api.merge(f"{CLUSTERS}/{SAMPLE}", {"spec": {"workerGroupSpecs": groups}})
    wait_until_ready(cluster, workers=1)


def test_suspended_cluster_has_no_pods_until_it_is_resumed(cluster: Cluster, sample: dict[str, Any]) -> None:
    cluster.apply(sample)
    api = Api(cluster)
    api.merge(f"{CLUSTERS}/{SAMPLE}", {"spec": {"suspend": True}})
    cluster.wait_for(
        f"raycluster/{SAMPLE}", lambda value: has_condition(value, "RayClusterSuspended"), timeout_s=WAIT_S
    )
    assert pods_of(cluster, "head") == pods_of(cluster, "worker") == {}
    api.merge(f"{CLUSTERS}/{SAMPLE}", {"spec": {"suspend": False}})
    wait_until_ready(cluster, workers=1)


def test_schema_refuses_a_cluster_without_head(cluster: Cluster, sample: dict[str, Any]) -> None:
    spec = {name: value for name, value in sample["spec"].items() if name != "headGroupSpec"}
    reply = Api(cluster).send("POST", CLUSTERS, {**sample, "metadata": {"name": "headless"}, "spec": spec})
    assert (reply.code, reply.body["reason"]) == (422, "Invalid")
    assert "spec.headGroupSpec: Required value" in reply.message


def test_deleted_cluster_takes_its_pods_and_services_along(cluster: Cluster, sample: dict[str, Any]) -> None:
    cluster.apply(sample)
    wait_until_ready(cluster, workers=1)
    cluster.delete(f"raycluster/{SAMPLE}")
    api = Api(cluster)
    api.wait_gone(f"/api/v1/namespaces/default/services/{SAMPLE}-head-svc")
    api.wait_for("/api/v1/namespaces/default/pods", lambda page: not page["items"])
