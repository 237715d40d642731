"""kwok as the nodes of a cluster that has none: its stages are custom resources, which the test extends."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.operators.api import has_condition
from tests.operators.program import running_operator
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD, GoModule
from tests.ports import free_port

pytestmark = NEEDS_TIME_TO_BUILD

KWOK = GoModule("sigs.k8s.io/kwok", "v0.8.0")
STAGES = ("node/fast/node-*.yaml", "node/heartbeat-with-lease/node-*.yaml", "pod/fast/pod-*.yaml")
NODES = ("kwok-0", "kwok-1")
WAIT_S = 120


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    program = KWOK.build_or_skip("./cmd/kwok")
    definitions = KWOK.files_or_skip("kustomize/crd/bases/*.yaml")
    stages = KWOK.files_or_skip(*(f"kustomize/stage/{pattern}" for pattern in STAGES))
    log = tmp_path_factory.mktemp("kwok") / "kwok.log"
    command = [str(program), "--manage-all-nodes", "--enable-crds=Stage", f"--server-address=127.0.0.1:{free_port()}"]
    command += ["--node-lease-duration-seconds=40", "--cidr=10.0.0.1/24"]
    with Cluster() as cluster:
        cluster.apply([*definitions, *stages])
        with running_operator([*command, "--kubeconfig", str(cluster.kubeconfig)], {}, log):
            cluster.apply([node(name) for name in NODES])
            yield cluster


def node(name: str) -> dict[str, Any]:
    status = {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}, "capacity": {"cpu": "8", "pods": "110"}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"type": "kwok"}},
        "status": status,
    }


def test_nodes_are_ready_and_renew_their_leases(cluster: Cluster) -> None:
    for name in NODES:
        cluster.wait_for(f"node/{name}", lambda value: has_condition(value, "Ready"), timeout_s=WAIT_S)
        lease = cluster.wait_for(f"lease/{name}", "create", namespace="kube-node-lease", timeout_s=WAIT_S)[0]
        is_renewed = partial(is_renewed_after, lease["spec"]["renewTime"])
        cluster.wait_for(f"lease/{name}", is_renewed, namespace="kube-node-lease", timeout_s=WAIT_S)


def is_renewed_after(time: str, lease: dict[str, Any]) -> bool:
    return bool(lease["spec"]["renewTime"] > time)


def test_pods_run_end_and_are_deleted_as_stages_say(cluster: Cluster) -> None:
    pod = {"containers": [{"name": "main", "image": "web"}]}
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 6, "selector": {"matchLabels": labels}, "template": template}
    cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    cluster.wait_for("deployment/web", "jsonpath={.status.readyReplicas}=6", timeout_s=WAIT_S)
    pods = cluster.list("pods", labels="app=web")
    assert {value["spec"]["nodeName"] for value in pods} == set(NODES)
    assert len({value["status"]["podIP"] for value in pods}) == 6
    job = {"template": {"spec": {**pod, "restartPolicy": "Never"}}, "completions": 3, "parallelism": 3}
    cluster.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"}, "spec": job})
    cluster.wait_for("job/work", lambda value: has_condition(value, "Complete"), timeout_s=WAIT_S)
    cluster.delete("deployment/web")
    for value in pods:
        cluster.wait_for(f"pod/{value['metadata']['name']}", "delete", timeout_s=WAIT_S)


def test_stage_of_the_user_fails_selected_pods(cluster: Cluster) -> None:
    selector = [
        {"key": '.metadata.labels["fate"]', "operator": "In", "values": ["lost"]},
        {"key": ".status.phase", "operator": "In", "values": ["Running"]},
    ]
    next_ = {"statusTemplate": "phase: Failed\nreason: Lost\n"}
    stage = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": "pod-lost"},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": selector},
            "next": next_,
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "lost", "labels": {"fate": "lost"}},
        "spec": {"containers": [{"name": "main", "image": "web"}]},
    }
    cluster.apply([stage, pod])
    failed = cluster.wait_for("pod/lost", "jsonpath={.status.phase}=Failed", timeout_s=WAIT_S)[0]
    assert failed["status"]["reason"] == "Lost"
