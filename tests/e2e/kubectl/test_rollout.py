"""kubectl with deployments whose pods run: rollout status, history, undo, pause, resume, restart; scale; wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sampan.testing.cluster import Cluster
from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.manifests import yaml
from tests.e2e.kubectl.namespace_objects import NamespaceObjects

DEPLOYMENT = yaml("""
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      annotations: {kubernetes.io/change-cause: first}
    spec:
      replicas: 3
      selector:
        matchLabels: {app: web}
      template:
        metadata:
          labels: {app: web}
        spec:
          terminationGracePeriodSeconds: 0
          containers:
          - name: main
            image: nginx:1
    """)


@pytest.fixture(scope="module")
def sampan_cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def web(kubectl: Kubectl, objects: NamespaceObjects) -> Kubectl:
    """kubectl with a Deployment whose pods are ready."""
    objects.apply(DEPLOYMENT)
    objects.wait_for("deployment/web", "jsonpath={.status.availableReplicas}=3")
    return kubectl


def pods(objects: NamespaceObjects) -> list[dict[str, Any]]:
    """Return the pods that are not being deleted."""
    return [pod for pod in objects.list("pods", labels="app=web") if "deletionTimestamp" not in pod["metadata"]]


def images(objects: NamespaceObjects) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in pods(objects)}


def uids(objects: NamespaceObjects) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods(objects)}


def set_image(kubectl: Kubectl, image: str, cause: str = "") -> None:
    kubectl("set", "image", "deployment/web", f"main={image}")
    if cause:
        kubectl("annotate", "deployment/web", f"kubernetes.io/change-cause={cause}", "--overwrite")


def test_status_waits_for_all_replicas(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    output = kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert output.splitlines()[-1] == 'deployment "web" successfully rolled out'
    header, row = kubectl.table("get", "deployment", "web")
    assert header[:4] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE"]
    assert row[:4] == ["web", "3/3", "3", "3"]
    kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
    described = kubectl("describe", "deployment", "web")
    assert "Scaled up replica set web-" in described
    assert "3 desired | 3 updated | 3 total | 3 available | 0 unavailable" in described


def test_history_and_undo(web: Kubectl, objects: NamespaceObjects) -> None:
    set_image(web, "nginx:2", "second")
    web("rollout", "status", "deployment/web", "--timeout=60s")
    assert images(objects) == {"nginx:2"}
    rows = [line.split() for line in web("rollout", "history", "deployment/web").splitlines() if line]
    assert rows[-2:] == [["1", "first"], ["2", "second"]]
    assert "nginx:1" in web("rollout", "history", "deployment/web", "--revision=1")

    assert web("rollout", "undo", "deployment/web").startswith("deployment.apps/web rolled back")
    web("rollout", "status", "deployment/web", "--timeout=60s")
    assert images(objects) == {"nginx:1"}
    rows = [line.split() for line in web("rollout", "history", "deployment/web").splitlines() if line]
    assert [row[0] for row in rows[-2:]] == ["2", "3"]

    web("rollout", "undo", "deployment/web", "--to-revision=2")
    web("rollout", "status", "deployment/web", "--timeout=60s")
    assert images(objects) == {"nginx:2"}
    assert "unable to find specified revision" in web.fails("rollout", "undo", "deployment/web", "--to-revision=9")


def test_pause_and_resume(web: Kubectl, objects: NamespaceObjects) -> None:
    web("rollout", "pause", "deployment/web")
    set_image(web, "nginx:2")
    web("scale", "deployment/web", "--replicas=5")
    web("wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
    assert images(objects) == {"nginx:1"}
    assert len(objects.list("replicasets")) == 1
    web("rollout", "resume", "deployment/web")
    web("rollout", "status", "deployment/web", "--timeout=60s")
    assert images(objects) == {"nginx:2"}
    assert objects.get("deployment/web")["status"]["availableReplicas"] == 5


def test_restart(web: Kubectl, objects: NamespaceObjects) -> None:
    before = uids(objects)
    assert web("rollout", "restart", "deployment/web") == "deployment.apps/web restarted\n"
    web("rollout", "status", "deployment/web", "--timeout=60s")
    after = uids(objects)
    assert len(after) == 3
    assert not before & after


def test_scale(web: Kubectl, objects: NamespaceObjects) -> None:
    assert web("scale", "deployment/web", "--replicas=5") == "deployment.apps/web scaled\n"
    web("rollout", "status", "deployment/web", "--timeout=60s")
    assert objects.get("deployment/web")["status"]["readyReplicas"] == 5
    web("scale", "deployment/web", "--current-replicas=5", "--replicas=1")
    web("rollout", "status", "deployment/web", "--timeout=60s")
    assert objects.get("deployment/web")["status"]["readyReplicas"] == 1
    assert (
        "expected replicas to be 5"
        in web.fails("scale", "deployment/web", "--current-replicas=5", "--replicas=2").lower()
    )


def test_status_fails_after_the_progress_deadline(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    late = DEPLOYMENT.replace("replicas: 3", "replicas: 1\n  progressDeadlineSeconds: 1").replace(
        "terminationGracePeriodSeconds: 0", "nodeSelector: {none: such}"
    )
    objects.apply(late)
    error = kubectl.fails("rollout", "status", "deployment/web", "--timeout=60s")
    assert 'deployment "web" exceeded its progress deadline' in error


def test_scaling_a_replica_set_and_a_replication_controller(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    replica_set = DEPLOYMENT.replace("kind: Deployment", "kind: ReplicaSet")
    controller = (
        DEPLOYMENT.replace("apps/v1", "v1")
        .replace("kind: Deployment", "kind: ReplicationController")
        .replace("    matchLabels: {app: web}", "    app: rc")
        .replace("{app: web}", "{app: rc}")
    )
    objects.apply([replica_set, controller])
    for name in ("rs/web", "rc/web"):
        assert kubectl("scale", name, "--replicas=2").endswith("/web scaled\n")
        objects.wait_for(name, lambda value: value["status"]["readyReplicas"] == value["status"]["replicas"] == 2)
