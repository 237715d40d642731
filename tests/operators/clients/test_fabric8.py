"""The Java client fabric8 with the administrator's kubeconfig: informers, roll-outs, custom kinds, leader election."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.testing import Cluster
from tests.conformance.programs import program_cache
from tests.operators.go_program import build_once_or_skip, hash_files

HERE = Path(__file__).parent
PROJECT = HERE / "fabric8"
TIMEOUT_S = 300

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def libraries() -> Path:
    """The directory with the client and its dependencies."""
    target = program_cache() / "operators" / hash_files([PROJECT / "pom.xml"]) / "fabric8"
    return build_once_or_skip(target, download, "mvn")


def download(target: Path) -> None:
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    subprocess.run(command, cwd=PROJECT, check=True)


@pytest.fixture(scope="module")
def cluster(libraries: Path) -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        yield cluster


def test_flow_of_a_java_operator(cluster: Cluster, libraries: Path) -> None:
    command = ["java", "-cp", f"{libraries}/*:{HERE}", str(PROJECT / "Flow.java"), str(cluster.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    deployment = cluster.get("deployment/web", namespace="fabric8")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"
    assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    assert cluster.get("ship/junk", namespace="fabric8")["status"] == {"position": "harbor"}
    assert cluster.get("lease/flow", namespace="fabric8")["spec"]["holderIdentity"] == ""
