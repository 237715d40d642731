"""The classic rolling update of replication controllers, with a failure in the middle, continuation and rollback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sampan.cli.main import cli
from sampan.testing import Cluster
from tests.eventually import wait_until

FAST = ("--update-period=10ms", "--poll-interval=10ms")
Run = Callable[..., str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        yield running


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace("rolling") as name:
        yield name


@pytest.fixture
def kubectl(cluster: Cluster, namespace: str) -> Run:
    def run(*words: str, exit_code: int = 0, stdin: str = "") -> str:
        line = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "-n", namespace, *words]
        result = CliRunner().invoke(cli, line, input=stdin)
        assert result.exit_code == exit_code, result.output
        return result.output

    return run


@pytest.fixture
def manifest(tmp_path: Path) -> Callable[..., str]:
    """Writes a replication controller to a file. Pods with a node selector cannot start before a node has the
    label."""

    def write(version: str, *, replicas: int = 2, node_selector: dict[str, str] | None = None) -> str:
        labels = {"app": "web", "version": version}
        container = {"name": "main", "image": f"web:{version}"}
        spec: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": 0}
        if node_selector:
            spec["nodeSelector"] = node_selector
        value = {
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "metadata": {"name": f"web-{version}"},
            "spec": {
                "replicas": replicas,
                "selector": labels,
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        path = tmp_path / f"{version}.json"
        path.write_text(json.dumps(value))
        return str(path)

    return write


def create(kubectl: Run, path: str, name: str, count: int = 2) -> None:
    kubectl("create", "-f", path)
    ready = ("get", "rc", name, "-o", "jsonpath={.status.readyReplicas}")
    wait_until(lambda: kubectl(*ready) == str(count), poll_s=0.05)


def controllers(kubectl: Run) -> list[str]:
    return kubectl("get", "rc", "-o", "jsonpath={range .items[*]}{.metadata.name}={.spec.replicas} {end}").split()


def images(kubectl: Run) -> set[str]:
    path = "jsonpath={.items[*].spec.containers[0].image}"
    return set(kubectl("get", "pods", "--field-selector=status.phase=Running", "-o", path).split())


def test_new_controller_replaces_the_old_controller_pod_by_pod(kubectl: Run, manifest: Callable[..., str]) -> None:
    create(kubectl, manifest("v1"), "web-v1")
    output = kubectl("rolling-update", "web-v1", "-f", manifest("v2"), *FAST)
    assert output.splitlines() == [
        "Created web-v2",
        "Scaling up web-v2 from 0 to 2, scaling down web-v1 from 2 to 0 (keep 2 pods available, don't exceed 3 pods)",
        "Scaling web-v2 up to 1",
        *[line for line in output.splitlines() if line.startswith("Scaling web-v")][1:],
        "Update succeeded. Deleting web-v1",
        'replicationcontroller/web-v2 rolling updated to "web-v2"',
    ]
    assert output.index("Scaling web-v1 down to 1") < output.index("Scaling web-v2 up to 2")
    assert controllers(kubectl) == ["web-v2=2"]
    assert images(kubectl) == {"web:v2"}


def test_update_continues_after_a_failure(kubectl: Run, manifest: Callable[..., str], namespace: str) -> None:
    create(kubectl, manifest("v1"), "web-v1")
    path = manifest("v2", node_selector={namespace: "ready"})
    output = kubectl("rolling-update", "web-v1", "-f", path, "--timeout=1s", *FAST, exit_code=1)
    assert "timed out waiting for any update progress to be made" in output
    assert controllers(kubectl) == ["web-v1=2", "web-v2=1"], "the old pods stay while the new one is not ready"
    kubectl("label", "nodes", "--all", f"{namespace}=ready")
    output = kubectl("rolling-update", "web-v1", "-f", path, *FAST)
    assert output.startswith("Continuing update with existing controller web-v2.\n")
    assert controllers(kubectl) == ["web-v2=2"]
    assert images(kubectl) == {"web:v2"}
    annotations = json.loads(kubectl("get", "rc", "web-v2", "-o", "json"))["metadata"].get("annotations") or {}
    assert not any("kubectl.kubernetes.io" in key for key in annotations)


def test_rollback_after_a_failure(kubectl: Run, manifest: Callable[..., str]) -> None:
    create(kubectl, manifest("v1"), "web-v1")
    path = manifest("v2", replicas=3, node_selector={"no-such-node": "x"})
    kubectl("rolling-update", "web-v1", "-f", path, "--timeout=1s", *FAST, exit_code=1)
    output = kubectl("rolling-update", "web-v1", "web-v2", "--rollback", *FAST)
    assert output.splitlines()[:2] == [
        'Setting "web-v1" replicas to 2',
        "Continuing update with existing controller web-v1.",
    ]
    assert controllers(kubectl) == ["web-v1=2"]
    assert images(kubectl) == {"web:v1"}


def test_image_update_keeps_the_controller_name(kubectl: Run, manifest: Callable[..., str]) -> None:
    create(kubectl, manifest("v1"), "web-v1")
    output = kubectl("rolling-update", "web-v1", "--image=web:v9", *FAST)
    assert "Update succeeded. Deleting old controller: web-v1\nRenaming web-v1-" in output
    assert output.endswith("replicationcontroller/web-v1 rolling updated\n")
    assert controllers(kubectl) == ["web-v1=2"]
    assert images(kubectl) == {"web:v9"}


def test_interrupted_image_update_is_found_by_its_annotation(kubectl: Run, manifest: Callable[..., str]) -> None:
    create(kubectl, manifest("v1"), "web-v1")
    kubectl("cordon", "node-0")
    kubectl("rolling-update", "web-v1", "--image=web:v9", "--timeout=1s", *FAST, exit_code=1)
    other = kubectl("rolling-update", "web-v1", "--image=web:v8", *FAST, exit_code=1)
    assert "Found existing in-progress update to image (web:v9)." in other
    kubectl("uncordon", "node-0")
    output = kubectl("rolling-update", "web-v1", "--image=web:v9", *FAST)
    assert output.startswith("Found existing update in progress (web-v1-")
    assert controllers(kubectl) == ["web-v1=2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--image=x",), "must specify the controller to update"),
        (("a",), "must specify --filename or --image for new controller"),
        (("a", "--image=x", "-f", "y"), "--filename and --image can not both be specified"),
        (("a", "--rollback", "--image=x"), "Don't specify --filename or --image on rollback"),
    ],
)
def test_invalid_flag_combinations(kubectl: Run, words: tuple[str, ...], message: str) -> None:
    assert message in kubectl("rolling-update", *words, exit_code=1)
