"""Plugins of kubectl and tools that call it: kubectx and kubens as `kubectl ctx` and `ns`, kubetail, kubecolor."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from sampan.testing import Cluster

DEPLOYMENT = Path(__file__).parent / "deployment.yaml"
PROGRAMS = ("kubectl", "kubectx", "kubens", "kubetail", "kubecolor")
TIMEOUT_S = 120

missing = [program for program in PROGRAMS if shutil.which(program) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} (kubectl plugins) are not installed")


@dataclass(frozen=True, slots=True)
class Shell:
    """The environment of a user whose kubeconfig has two contexts, and whose path has the plugins."""

    kubeconfig: Path
    plugins: Path

    def run(self, *words: str) -> str:
        environment = {
            "PATH": f"{self.plugins}:{os.environ['PATH']}",
            "HOME": str(self.kubeconfig.parent),
            "KUBECONFIG": str(self.kubeconfig),
            "TERM": "xterm",
        }
        # kubetail ends with a signal to its process group.
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, start_new_session=True
        )
        assert done.returncode in (0, -signal.SIGTERM), done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        cluster.apply(DEPLOYMENT, namespace="shop")
        cluster.wait_for("deployment/web", "condition=Available", namespace="shop")
        yield cluster


@pytest.fixture
def shell(cluster: Cluster, tmp_path: Path) -> Shell:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    first = config["contexts"][0]
    config["contexts"].append({**first, "name": "second"})
    kubeconfig, plugins = tmp_path / "config", tmp_path / "plugins"
    kubeconfig.write_text(yaml.safe_dump(config))
    plugins.mkdir()
    for plugin, program in (("kubectl-ns", "kubens"), ("kubectl-ctx", "kubectx")):
        (plugins / plugin).symlink_to(str(shutil.which(program)))
    return Shell(kubeconfig, plugins)


@pytest.mark.parametrize("kubectl", [["kubectl"], [sys.executable, "-m", "sampan", "kubectl"]], ids=["real", "sampan"])
def test_plugins_switch_namespace_and_context(shell: Shell, kubectl: list[str]) -> None:
    assert "shop" in shell.run(*kubectl, "ns").split()
    shell.run(*kubectl, "ns", "shop")
    assert shell.run(*kubectl, "get", "deployments", "--output=name").split() == ["deployment.apps/web"]
    assert "second" in shell.run(*kubectl, "ctx").split()
    shell.run(*kubectl, "ctx", "second")
    assert shell.run(*kubectl, "config", "current-context").strip() == "second"
    assert shell.run(*kubectl, "get", "deployments", "--output=name").split() == []


def test_kubetail_reads_the_logs_of_all_pods(cluster: Cluster, shell: Shell) -> None:
    output = shell.run(
        "kubetail", "web", "-n", "shop", "--since", "1h", "--follow", "false", "--colored-output", "false"
    )
    pod = cluster.list("pods", namespace="shop")[0]["metadata"]["name"]
    assert f"[{pod}] hello from web " in output


def test_kubecolor_colors_what_kubectl_prints(shell: Shell) -> None:
    plain = shell.run("kubecolor", "--plain", "get", "deployments", "--namespace=shop", "--output=name")
    assert plain.strip() == "deployment.apps/web"
    assert "\x1b[" in shell.run("kubecolor", "--force-colors", "get", "deployments", "--namespace=shop")
