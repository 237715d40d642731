"""Airflow: the KubernetesExecutor runs a pod for each task and learns from its watch how the pods end."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sampan.testing import Cluster
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD
from tests.operators.programs.python_packages import PythonPackages

pytestmark = NEEDS_TIME_TO_BUILD

AIRFLOW = PythonPackages("airflow", ("apache-airflow-core==3.3.2", "apache-airflow-providers-cncf-kubernetes==10.25.0"))
FLOW = Path(__file__).with_name("airflow") / "flow.py"
TEMPLATE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "template"},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "base", "image": "apache/airflow"}]},
}
TIMEOUT_S = 600


@pytest.fixture(scope="module")
def python() -> Path:
    return AIRFLOW.interpreter_or_skip()


@pytest.fixture(scope="module")
def cluster(python: Path) -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        yield cluster


def test_executor_sees_pods_succeed_fail_and_vanish(cluster: Cluster, python: Path, tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text(yaml.safe_dump(TEMPLATE))
    settings = {
        "KUBERNETES_EXECUTOR__IN_CLUSTER": "False",
        "KUBERNETES_EXECUTOR__CONFIG_FILE": str(cluster.kubeconfig),
        "KUBERNETES_EXECUTOR__POD_TEMPLATE_FILE": str(template),
        "KUBERNETES_EXECUTOR__NAMESPACE": "default",
        "CORE__LOAD_EXAMPLES": "False",
    }
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(__file__).parents[3]),
        "HOME": str(tmp_path),
        "AIRFLOW_HOME": str(tmp_path),
        **{f"AIRFLOW__{name}": value for name, value in settings.items()},
    }
    run(["-m", "airflow", "db", "migrate"], python, environment)
    output = run([str(FLOW), "good=0", "bad=1", "gone=deleted"], python, environment)
    assert json.loads(output.splitlines()[-1]) == {"good": "None", "bad": "failed", "gone": "failed"}
    (pod,) = cluster.list("pods")
    labels = pod["metadata"]["labels"]
    assert (labels["dag_id"], labels["task_id"], labels["kubernetes_executor"]) == ("ships", "bad", "True")
    assert pod["status"]["phase"] == "Failed"


def run(words: list[str], python: Path, environment: dict[str, str]) -> str:
    command = [str(python), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
