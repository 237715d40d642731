"""The official client for Node.js: informers, watches, roll-outs, logs and custom resources."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.testing import Cluster
from tests.conformance.programs import program_cache
from tests.operators.go_program import build_once_or_skip, hash_files

HERE = Path(__file__).parent
PROJECT = HERE / "node"
TIMEOUT_S = 300

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def library() -> Path:
    """The entry point of the client, whose dependencies are installed beside it."""
    target = program_cache() / "operators" / hash_files([PROJECT / "package.json"]) / "client-nodejs"
    return build_once_or_skip(target, install, "npm") / "node_modules/@kubernetes/client-node/dist/index.js"


def install(target: Path) -> None:
    target.mkdir()
    shutil.copy(PROJECT / "package.json", target)
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    subprocess.run(command, cwd=target, check=True)


@pytest.fixture(scope="module")
def cluster(library: Path) -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        yield cluster


def test_flow_of_an_operator_on_node(cluster: Cluster, library: Path) -> None:
    done = subprocess.run(
        ["node", str(PROJECT / "flow.mjs"), str(library), str(HERE)],
        env={"PATH": "/usr/bin:/usr/local/bin", "KUBECONFIG": str(cluster.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    deployment = cluster.get("deployment/web", namespace="node")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"
    assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    ship = cluster.get("ship/junk", namespace="node")
    assert (ship["spec"], ship["status"]) == ({"masts": 4}, {"position": "harbor"})
