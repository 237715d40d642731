"""Completion: candidates for the last word of a command line, and the scripts in a real shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from sampan.cli.main import cli
from sampan.testing import Cluster

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "lonely"},
    "spec": {
        "initContainers": [{"name": "before", "image": "a"}],
        "containers": [{"name": "main", "image": "a"}, {"name": "side", "image": "b"}],
    },
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Cluster, Path]]:
    with Cluster() as cluster, cluster.namespace("complete") as namespace:
        cluster.apply([POD], namespace=namespace)
        yield cluster, cluster.kubeconfig_for(namespace)


def complete(kubeconfig: Path, *words: str) -> list[str]:
    outcome = CliRunner().invoke(cli, ["kubectl", "__complete", *words], env={"KUBECONFIG": str(kubeconfig)})
    assert outcome.exit_code == 0, outcome.output
    return outcome.output.split()


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (["rollout", "re"], ["restart", "resume"]),
        (["get", "pod", "lo"], ["lonely"]),
        (["get", "pod/lo"], ["pod/lonely"]),
        (["delete", "po", ""], ["lonely"]),
        (["logs", "lonely", "-c", ""], ["before", "main", "side"]),
        (["exec", "lonely", "--container", "s"], ["side"]),
        (["get", "cm", "-n", "kube-s"], ["kube-system"]),
        (["get", "pods", "--all-n"], ["--all-namespaces"]),
        (["get", "pods", "-o", "jsonpath-"], ["jsonpath-as-json", "jsonpath-file"]),
        (["explain", "deployments"], ["deployments.apps"]),
        (["nosuch", ""], []),
        (["get", "nosuch", ""], []),
    ],
)
def test_candidates(cluster: tuple[Cluster, Path], words: list[str], candidates: list[str]) -> None:
    assert complete(cluster[1], *words) == candidates


def test_completion_without_a_cluster_does_not_fail(tmp_path: Path) -> None:
    assert complete(tmp_path / "nowhere", "get", "pods", "") == []
    assert "get" in complete(tmp_path / "nowhere", "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completion_script(cluster: tuple[Cluster, Path], tmp_path: Path) -> None:
    program = tmp_path / "sampan"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m sampan "$@"\n')
    program.chmod(0o755)
    script = """
source <(sampan kubectl completion bash)
COMP_WORDS=(sampan kubectl get pod lo) COMP_CWORD=4
_sampan_program
echo "${COMPREPLY[@]}"
COMP_WORDS=(kubectl get pod lo) COMP_CWORD=3
_sampan_kubectl
echo "${COMPREPLY[@]}"
"""
    environment = {**os.environ, "KUBECONFIG": str(cluster[1]), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["lonely", "lonely"], done
