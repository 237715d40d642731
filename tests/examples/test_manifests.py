"""The manifests in examples/ do what their first lines say, on hollow nodes and with virtual time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.testing import Cluster

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, clock="virtual") as cluster:
        yield cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace() as name:
        yield name


def apply(cluster: Cluster, example: str, namespace: str) -> list[dict[str, Any]]:
    objects = cluster.apply(EXAMPLES / example, namespace=namespace)
    cluster.advance(seconds=30)
    return list(objects)


def test_guestbook(cluster: Cluster, namespace: str) -> None:
    objects = apply(cluster, "guestbook.yaml", namespace)
    cluster.wait_for([value for value in objects if value["kind"] == "Deployment"], "condition=Available")
    slices = cluster.list("endpointslices", namespace=namespace, labels="kubernetes.io/service-name=frontend")
    assert [len(part["endpoints"]) for part in slices] == [3]


def test_claims(cluster: Cluster, namespace: str) -> None:
    apply(cluster, "claims.yaml", namespace)
    cluster.wait_for("statefulset/shelf", "jsonpath={.status.readyReplicas}=2", namespace=namespace)
    cluster.wait_for("pod/writer", "condition=Ready", namespace=namespace)
    claims = cluster.list("persistentvolumeclaims", namespace=namespace)
    assert {claim["metadata"]["name"]: claim["status"]["phase"] for claim in claims} == {
        "diary": "Bound",
        "books-shelf-0": "Bound",
        "books-shelf-1": "Bound",
    }


def test_cron_job(cluster: Cluster, namespace: str) -> None:
    apply(cluster, "cron-job.yaml", namespace)
    cluster.advance(minutes=5)
    jobs = cluster.list("jobs", namespace=namespace)
    assert 3 <= len([job for job in jobs if job["status"].get("succeeded")]) <= 4


def test_spread(cluster: Cluster, namespace: str) -> None:
    apply(cluster, "spread.yaml", namespace)
    cluster.wait_for("deployment/web", "condition=Available", namespace=namespace)
    for app in ("web", "agent"):
        pods = cluster.list("pods", namespace=namespace, labels=f"app={app}")
        assert {pod["spec"]["nodeName"] for pod in pods} == {"node-0", "node-1", "node-2"}
    budget = cluster.get("poddisruptionbudget/web", namespace=namespace)
    assert budget["status"]["disruptionsAllowed"] == 1


@pytest.mark.parametrize("example", ["static-pod.yaml", "hello.yaml", "service.yaml"])
def test_other_manifests_are_valid(cluster: Cluster, namespace: str, example: str) -> None:
    cluster.apply(EXAMPLES / example, namespace=namespace)


def test_readme_lists_every_example() -> None:
    text = (EXAMPLES / "README.md").read_text()
    missing = [path.name for path in EXAMPLES.iterdir() if f"({path.name}" not in text and path.name != "README.md"]
    assert missing == []


def test_the_kopf_operator_passes_its_tests() -> None:
    pytest.importorskip("kopf")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "CHECKS"))}
    directory = EXAMPLES / "kopf-operator"
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
