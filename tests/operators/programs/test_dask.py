"""The Dask operator: clusters with worker groups that are scaled, and jobs that have a cluster of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.eventually import wait_until
from tests.operators.api import Api
from tests.operators.program import running_operator
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD
from tests.operators.programs.python_packages import PythonPackages

pytestmark = NEEDS_TIME_TO_BUILD

DASK = PythonPackages("dask", ("dask-kubernetes==2026.3.0", "distributed==2026.8.0", "kopf==1.45.2", "kr8s==0.20.15"))
CUSTOM = "/apis/kubernetes.dask.org/v1/namespaces/default"
_START_S = 300
"""The operator imports Dask, numpy and pandas."""
CLUSTER_LABEL, GROUP_LABEL = "dask.org/cluster-name", "dask.org/workergroup-name"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    python = DASK.interpreter_or_skip()
    chart = "lib/python3*/site-packages/dask_kubernetes/operator/deployment/helm/dask-kubernetes-operator"
    definitions = sorted(python.parents[1].glob(f"{chart}/crds/*.yaml"))
    directory = tmp_path_factory.mktemp("dask")
    command = [str(python), "-m", "kopf", "run", "-m", "dask_kubernetes.operator.controller", "--all-namespaces"]
    with Cluster(nodes=2) as cluster:
        cluster.apply(definitions)
        environment = {"KUBECONFIG": str(cluster.kubeconfig)}
        with running_operator(command, environment, directory / "dask.log") as operator:
            wait_until(lambda: "authentication has finished" in operator.text(), timeout_s=_START_S)
            yield cluster


def pod(name: str) -> dict[str, Any]:
    return {"containers": [{"name": name, "image": "ghcr.io/dask/dask", "args": [f"dask-{name}"]}]}


def cluster_spec(name: str, workers: int) -> dict[str, Any]:
    ports = [
        {"name": "tcp-comm", "protocol": "TCP", "port": 8786, "targetPort": "tcp-comm"},
        {"name": "http-dashboard", "protocol": "TCP", "port": 8787, "targetPort": "http-dashboard"},
    ]
    scheduler = pod("scheduler")
    scheduler["containers"][0]["ports"] = [
        {"name": "tcp-comm", "containerPort": 8786, "protocol": "TCP"},
        {"name": "http-dashboard", "containerPort": 8787, "protocol": "TCP"},
    ]
    selector = {CLUSTER_LABEL: name, "dask.org/component": "scheduler"}
    service = {"type": "LoadBalancer", "selector": selector, "ports": ports}
    return {
        "worker": {"replicas": workers, "spec": pod("worker")},
        "scheduler": {"spec": scheduler, "service": service},
    }


def custom(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "kubernetes.dask.org/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def has_phase(phase: str) -> Callable[[dict[str, Any]], bool]:
    return lambda value: value.get("status", {}).get("phase") == phase


def running_workers(cluster: Cluster, group: str) -> int:
    pods = cluster.list("pods", labels=f"{GROUP_LABEL}={group}")
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def scale(cluster: Cluster, group: str, workers: int) -> None:
    """Scale a worker group by its scale subresource, as kubectl does."""
    Api(cluster).merge(f"{CUSTOM}/daskworkergroups/{group}/scale", {"spec": {"replicas": workers}})


def test_cluster_starts_and_its_groups_are_scaled(cluster: Cluster) -> None:
    api = Api(cluster)
    cluster.apply(custom("DaskCluster", "simple", cluster_spec("simple", 2)))
    api.wait_for(f"{CUSTOM}/daskclusters/simple", has_phase("Pending"))
    balancer = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}
    api.merge("/api/v1/namespaces/default/services/simple-scheduler/status", balancer)
    api.wait_for(f"{CUSTOM}/daskclusters/simple", has_phase("Running"))
    wait_until(lambda: running_workers(cluster, "simple-default") == 2)
    endpoints = cluster.list("endpointslices", labels="kubernetes.io/service-name=simple-scheduler")
    assert {port["name"]: port["port"] for port in endpoints[0]["ports"]} == {"tcp-comm": 8786, "http-dashboard": 8787}
    scale(cluster, "simple-default", 4)
    wait_until(lambda: running_workers(cluster, "simple-default") == 4)
    extra = {"cluster": "simple", "worker": {"replicas": 1, "spec": pod("worker")}}
    cluster.apply(custom("DaskWorkerGroup", "extra", extra))
    wait_until(lambda: running_workers(cluster, "extra") == 1)
    (owner,) = api.get(f"{CUSTOM}/daskworkergroups/extra")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("DaskCluster", "simple")
    cluster.delete("daskcluster/simple")
    api.wait_gone(f"{CUSTOM}/daskworkergroups/extra")
    wait_until(lambda: not cluster.list("pods", labels=f"{CLUSTER_LABEL}=simple"))


@pytest.mark.parametrize(("name", "exit_code", "status"), [("good", 0, "Successful"), ("bad", 1, "Failed")])
def test_job_runs_with_a_cluster_of_its_own(cluster: Cluster, name: str, exit_code: int, status: str) -> None:
    api = Api(cluster)
    runner = {**pod("runner"), "restartPolicy": "Never"}
    annotations = {"hollow.sampan.dev/exit-code": str(exit_code), "hollow.sampan.dev/run": "3s"}
    spec = {
        "job": {"metadata": {"annotations": annotations}, "spec": runner},
        "cluster": {"spec": cluster_spec(name, 1)},
    }
    cluster.apply(custom("DaskJob", name, spec))
    ended = api.wait_for(f"{CUSTOM}/daskjobs/{name}", lambda value: value.get("status", {}).get("jobStatus") == status)
    assert ended["status"]["startTime"] <= ended["status"]["endTime"]
    api.wait_gone(f"{CUSTOM}/daskclusters/{name}")
    wait_until(lambda: not cluster.list("pods", labels=f"{GROUP_LABEL}={name}-default"))
    cluster.delete(f"daskjob/{name}")
    api.wait_gone(f"/api/v1/namespaces/default/pods/{name}-runner")
