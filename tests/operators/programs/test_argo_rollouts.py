"""Argo Rollouts: a canary that waits for promotion and for an analysis, and blue and green behind two services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.operators.api import Api
from tests.operators.program import running_operator
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD, GoModule
from tests.ports import free_ports

pytestmark = NEEDS_TIME_TO_BUILD

ROLLOUTS = GoModule("github.com/argoproj/argo-rollouts", "v1.10.0")
PATH = "/apis/argoproj.io/v1alpha1/namespaces/default/rollouts"
HASH = "rollouts-pod-template-hash"
WAIT_S = 120


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    program = ROLLOUTS.build_or_skip("./cmd/rollouts-controller")
    definitions = ROLLOUTS.files_or_skip("manifests/crds/*-crd.yaml")
    log = tmp_path_factory.mktemp("rollouts") / "controller.log"
    health, metrics = free_ports(2)
    command = [str(program), "--healthzPort", str(health), "--metricsPort", str(metrics), "--leader-elect"]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argo-rollouts"}}
    with Cluster(nodes=2) as cluster:
        cluster.apply([*definitions, namespace])
        with running_operator(command, {"KUBECONFIG": str(cluster.kubeconfig)}, log):
            yield cluster


def rollout(name: str, strategy: dict[str, Any], **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    containers = [{"name": "main", "image": "web:1"}]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": name},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            "strategy": strategy,
            **spec,
        },
    }


def service(name: str, app: str) -> dict[str, Any]:
    spec = {"selector": {"app": app}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def analysis(name: str, exit_code: str) -> dict[str, Any]:
    """A template whose only metric is a Job that succeeds or fails."""
    pod = {
        "metadata": {"annotations": {"hollow.sampan.dev/exit-code": exit_code}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "check", "image": "check"}]},
    }
    provider = {"job": {"spec": {"backoffLimit": 0, "template": pod}}}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AnalysisTemplate",
        "metadata": {"name": name},
        "spec": {"metrics": [{"name": "check", "provider": provider}]},
    }


def set_image(cluster: Cluster, name: str, image: str) -> None:
    patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]
    reply = Api(cluster).send("PATCH", f"{PATH}/{name}", patch, "application/json-patch+json")
    assert reply.code == 200, reply.body


def wait_for_phase(cluster: Cluster, name: str, phase: str) -> dict[str, Any]:
    def has_phase(value: dict[str, Any]) -> bool:
        status, generation = value.get("status", {}), str(value["metadata"]["generation"])
        return (status.get("phase"), status.get("observedGeneration")) == (phase, generation)

    return dict(cluster.wait_for(f"rollout/{name}", has_phase, timeout_s=WAIT_S)[0])


def selected_hash(cluster: Cluster, name: str) -> str:
    return str(cluster.get(f"service/{name}")["spec"]["selector"][HASH])


def images(cluster: Cluster, app: str) -> list[str]:
    pods = cluster.list("pods", labels=f"app={app}")
    return sorted(pod["spec"]["containers"][0]["image"] for pod in pods if "deletionTimestamp" not in pod["metadata"])


def test_canary_waits_for_its_promotion_and_its_analysis(cluster: Cluster) -> None:
    cluster.apply([service("canary-stable", "canary"), service("canary-next", "canary"), analysis("sound", "0")])
    steps = [{"setWeight": 50}, {"pause": {}}, {"analysis": {"templates": [{"templateName": "sound"}]}}]
    strategy = {"canary": {"stableService": "canary-stable", "canaryService": "canary-next", "steps": steps}}
    cluster.apply(rollout("canary", strategy))
    first = wait_for_phase(cluster, "canary", "Healthy")["status"]["stableRS"]
    assert selected_hash(cluster, "canary-stable") == selected_hash(cluster, "canary-next") == first
    set_image(cluster, "canary", "web:2")
    paused = wait_for_phase(cluster, "canary", "Paused")["status"]
    assert paused["currentStepIndex"] == 1
    assert images(cluster, "canary") == ["web:1", "web:1", "web:2", "web:2"]
    assert (selected_hash(cluster, "canary-stable"), selected_hash(cluster, "canary-next")) == (
        first,
        paused["currentPodHash"],
    )
    Api(cluster).merge(f"{PATH}/canary/status", {"status": {"pauseConditions": None}})
    healthy = wait_for_phase(cluster, "canary", "Healthy")["status"]
    assert healthy["stableRS"] == paused["currentPodHash"]
    assert images(cluster, "canary") == ["web:2"] * 4
    runs = cluster.list("analysisruns")
    assert [run["status"]["phase"] for run in runs] == ["Successful"]


def test_failed_analysis_aborts_the_update(cluster: Cluster) -> None:
    cluster.apply(analysis("broken", "1"))
    steps = [{"setWeight": 25}, {"analysis": {"templates": [{"templateName": "broken"}]}}]
    cluster.apply(rollout("careful", {"canary": {"steps": steps}}))
    stable = wait_for_phase(cluster, "careful", "Healthy")["status"]["stableRS"]
    set_image(cluster, "careful", "web:2")
    degraded = wait_for_phase(cluster, "careful", "Degraded")["status"]
    assert (degraded["abort"], degraded["stableRS"]) == (True, stable)
    cluster.wait_for(
        "rollout/careful",
        lambda value: value["status"].get("HPAReplicas") == 4 and not value["status"].get("updatedReplicas"),
    )
    assert images(cluster, "careful") == ["web:1"] * 4


def test_promotion_moves_the_active_service_from_blue_to_green(cluster: Cluster) -> None:
    cluster.apply([service("active", "colors"), service("preview", "colors")])
    strategy = {"activeService": "active", "previewService": "preview", "autoPromotionEnabled": False}
    cluster.apply(rollout("colors", {"blueGreen": strategy}))
    wait_for_phase(cluster, "colors", "Healthy")
    blue = selected_hash(cluster, "active")
    set_image(cluster, "colors", "web:2")
    wait_for_phase(cluster, "colors", "Paused")
    green = selected_hash(cluster, "preview")
    assert (selected_hash(cluster, "active"), green != blue) == (blue, True)
    Api(cluster).merge(f"{PATH}/colors/status", {"status": {"pauseConditions": None}})
    cluster.wait_for("service/active", lambda value: value["spec"]["selector"][HASH] == green, timeout_s=WAIT_S)
    wait_for_phase(cluster, "colors", "Healthy")


def test_rule_of_the_schema_keeps_the_selector(cluster: Cluster) -> None:
    cluster.apply(rollout("fixed", {"canary": {}}))
    selector = {"matchLabels": {"app": "other"}}
    reply = Api(cluster).send(
        "PATCH", f"{PATH}/fixed", {"spec": {"selector": selector}}, "application/merge-patch+json"
    )
    assert reply.code == 422
    assert reply.message.endswith(".spec.selector is immutable")
