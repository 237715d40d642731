"""The workflow controller of Argo Workflows: steps one after the other, a failed step, deletion.

Hollow nodes run no processes: the executor in a pod reports no outputs, so workflows without parameters of steps end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.operators.program import running_operator
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD, GoModule
from tests.ports import free_port

pytestmark = NEEDS_TIME_TO_BUILD

WORKFLOWS = GoModule("github.com/argoproj/argo-workflows/v3", "v3.7.0")
NAMESPACE = "argo"
WAIT_S = 120


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    program = WORKFLOWS.build_or_skip("./cmd/workflow-controller", "argo-workflow-controller")
    definitions = WORKFLOWS.files_or_skip("manifests/base/crds/full/argoproj.io_*.yaml")
    command = [str(program), "--namespace", NAMESPACE, "--executor-image", "argoexec"]
    log = tmp_path_factory.mktemp("argo") / "workflow-controller.log"
    with Cluster(nodes=2) as cluster:
        cluster.apply([*definitions, *settings(free_port())])
        environment = {"KUBECONFIG": str(cluster.kubeconfig), "LEADER_ELECTION_IDENTITY": "workflow-controller-0"}
        with running_operator(command, environment, log):
            yield cluster


def settings(metrics_port: int) -> list[dict[str, Any]]:
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "workflow-controller-configmap", "namespace": NAMESPACE},
            "data": {"metricsConfig": f"port: {metrics_port}\nsecure: false\n"},
        },
    ]


def template(name: str, **metadata: Any) -> dict[str, Any]:
    """A step with a command, because the controller looks for others in the registry of the image."""
    return {"name": name, "metadata": metadata, "container": {"image": "busybox", "command": ["echo", name]}}


def workflow(name: str, *templates: dict[str, Any]) -> dict[str, Any]:
    """A workflow that runs its templates one after the other."""
    steps = [[{"name": value["name"], "template": value["name"]}] for value in templates]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name},
        "spec": {"entrypoint": "main", "templates": [{"name": "main", "steps": steps}, *templates]},
    }


def wait_for_phase(cluster: Cluster, name: str, phase: str) -> dict[str, Any]:
    def has_phase(value: dict[str, Any]) -> bool:
        return bool(value.get("status", {}).get("phase") == phase)

    return dict(cluster.wait_for(f"workflow/{name}", has_phase, timeout_s=WAIT_S)[0]["status"])


def pod_nodes(status: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {node["displayName"]: node for node in status["nodes"].values() if node["type"] == "Pod"}


def test_steps_run_one_after_the_other(cluster: Cluster) -> None:
    cluster.apply(workflow("build", template("compile"), template("test")))
    status = wait_for_phase(cluster, "build", "Succeeded")
    nodes = pod_nodes(status)
    assert {name: node["phase"] for name, node in nodes.items()} == {"compile": "Succeeded", "test": "Succeeded"}
    assert nodes["compile"]["finishedAt"] <= nodes["test"]["startedAt"]
    assert (status["progress"], [node["outputs"]["exitCode"] for node in nodes.values()]) == ("2/2", ["0", "0"])
    pods = cluster.list("pods", labels="workflows.argoproj.io/workflow=build")
    assert [sorted(part["name"] for part in pod["spec"]["containers"]) for pod in pods] == [["main", "wait"]] * 2
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}


def test_failed_step_ends_its_workflow(cluster: Cluster) -> None:
    failing = template("compile", annotations={"hollow.sampan.dev/exit-code.main": "3"})
    cluster.apply(workflow("broken", failing, template("test")))
    nodes = pod_nodes(wait_for_phase(cluster, "broken", "Failed"))
    assert {name: node["phase"] for name, node in nodes.items()} == {"compile": "Failed"}
    assert nodes["compile"]["outputs"]["exitCode"] == "3"


def test_deletion_takes_the_pods_along(cluster: Cluster) -> None:
    cluster.apply(workflow("short", template("compile")))
    wait_for_phase(cluster, "short", "Succeeded")
    (pod,) = cluster.list("pods", labels="workflows.argoproj.io/workflow=short")
    cluster.delete("workflow/short")
    cluster.wait_for(f"pod/{pod['metadata']['name']}", "delete", timeout_s=WAIT_S)
