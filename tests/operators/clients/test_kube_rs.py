"""An operator in Rust with kube-rs: its definition by server-side apply, streaming lists, owners and a finalizer."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.conformance.programs import program_cache
from tests.operators.go_program import build_once_or_skip, hash_files
from tests.operators.program import running_operator

PROJECT = Path(__file__).parent / "kube-rs"
PROGRAM = "kube-rs-operator"

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def program() -> Path:
    digest = hash_files([PROJECT / "Cargo.toml", PROJECT / "src/main.rs"])
    return build_once_or_skip(program_cache() / "operators" / digest / PROGRAM, build, "cargo")


def build(target: Path) -> None:
    """Build the operator from a copy of its source, because cargo writes a lock file beside it."""
    scratch = target.with_suffix(".build")
    try:
        shutil.copytree(PROJECT, scratch, dirs_exist_ok=True)
        subprocess.run(
            ["cargo", "build", "--jobs", "1"], cwd=scratch, env={**os.environ, "CARGO_TERM_QUIET": "true"}, check=True
        )
        (scratch / "target/debug" / PROGRAM).rename(target)
    finally:
        shutil.rmtree(scratch)


@pytest.fixture(scope="module")
def cluster(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    log = tmp_path_factory.mktemp("kube-rs") / "operator.log"
    with Cluster() as cluster, running_operator([str(program)], {"KUBECONFIG": str(cluster.kubeconfig)}, log):
        cluster.wait_for("customresourcedefinition/ships.rust.example.com", "condition=Established", timeout_s=60)
        yield cluster


def ship(name: str, masts: int) -> dict[str, Any]:
    return {
        "apiVersion": "rust.example.com/v1",
        "kind": "Ship",
        "metadata": {"name": name},
        "spec": {"masts": masts},
    }


def has_text(text: str) -> Any:
    return lambda value: value["data"]["text"] == text


def test_owned_object_follows_its_owner_and_is_restored(cluster: Cluster) -> None:
    cluster.apply(ship("junk", 3))
    config_map = cluster.wait_for("configmap/junk", "create", timeout_s=60)[0]
    assert config_map["metadata"]["ownerReferences"][0]["kind"] == "Ship"
    assert config_map["metadata"]["managedFields"][0]["manager"] == PROGRAM
    cluster.wait_for("ship/junk", "jsonpath={.status.position}=harbor", timeout_s=60)
    cluster.apply(ship("junk", 4))
    cluster.wait_for("configmap/junk", has_text("4 masts"), timeout_s=60)
    cluster.delete("configmap/junk")
    cluster.wait_for("configmap/junk", has_text("4 masts"), timeout_s=60)


def test_finalizer_runs_before_the_object_is_gone(cluster: Cluster) -> None:
    cluster.apply(ship("dhow", 1))
    cluster.wait_for("ship/dhow", lambda value: value["metadata"].get("finalizers"), timeout_s=60)
    cluster.wait_for("configmap/dhow", "create", timeout_s=60)
    cluster.delete("ship/dhow")
    cluster.wait_for("ship/dhow", "delete", timeout_s=60)
    cluster.wait_for("configmap/dhow", "delete", timeout_s=60)
    assert cluster.get("configmap/dhow-farewell")["data"] == {"text": "gone"}
