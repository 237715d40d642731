"""`sampan kubectl` on a terminal, with containers of a real runtime: run, attach, exec, resize, detach keys."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import missing_requirement
from tests.e2e.kubectl.pseudo_terminal import PseudoTerminal

IMAGE = "--image=sampan.local/host"
SHELL = ("--restart=Never", IMAGE, "--command", "--", "sh")
DETACH = "\x10\x11"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if reason := missing_requirement():
        pytest.skip(reason)
    with Cluster(nodes=1, runtime="oci") as cluster:
        yield cluster


@contextmanager
def kubectl(cluster: Cluster, *words: str) -> Iterator[PseudoTerminal]:
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "TERM": "xterm"}
    with PseudoTerminal([sys.executable, "-m", "sampan", "kubectl", *words], environment) as terminal:
        yield terminal


def wait_for_size(size: str) -> str:
    """Return a shell command that waits until the terminal has a size: size and input are sent on separate channels."""
    return f"until [ \"$(stty size)\" = '{size}' ]; do sleep 0.1; done"


def pods(cluster: Cluster) -> list[str]:
    with kubectl(cluster, "get", "pods", "-o", "name") as terminal:
        terminal.wait()
        return [line for line in terminal.output.split() if line.startswith("pod/")]


def test_run_with_a_terminal(cluster: Cluster) -> None:
    with kubectl(cluster, "run", "shell", "-it", "--rm", *SHELL) as terminal:
        terminal.wait_for("try pressing enter")
        terminal.type(f"\ntty; {wait_for_size('24 80')}; echo one-$((1+1))\n")
        terminal.wait_for("/dev/pts/")
        terminal.wait_for("one-2")
        terminal.resize(40, 100)
        terminal.type(f"{wait_for_size('40 100')}; echo two-$((1+2))\n")
        terminal.wait_for("two-3")
        terminal.type("exit 7\n")
        assert terminal.wait() == 7
    assert 'pod "shell" deleted from default namespace' in terminal.output
    assert "pod default/shell terminated (Error)" in terminal.output
    assert "falling back" not in terminal.output, "an attached client does not learn the exit code"
    assert "pod/shell" not in pods(cluster)


def test_detach_and_attach_again(cluster: Cluster) -> None:
    with kubectl(cluster, "run", "kept", "-it", "--leave-stdin-open", *SHELL) as terminal:
        terminal.wait_for("try pressing enter")
        terminal.type("\nname=sampan; echo one-$((1+1))\n")
        terminal.wait_for("one-2")
        terminal.type(DETACH)
        terminal.wait_for("Session ended, resume using 'kubectl attach kept -c kept -n default -i -t' command")
    with kubectl(cluster, "attach", "kept", "-it") as terminal:
        terminal.wait_for("try pressing enter")
        terminal.type("\necho hello $name\n")
        terminal.wait_for("hello sampan")
        terminal.type("exit\n")
        assert terminal.wait() == 0


def test_exec_with_a_terminal(cluster: Cluster) -> None:
    with kubectl(cluster, "run", "server", IMAGE, "--command", "--", "sleep", "1000000") as terminal:
        assert terminal.wait() == 0
    with kubectl(cluster, "wait", "--for=condition=Ready", "pod/server", "--timeout=60s") as terminal:
        assert terminal.wait() == 0
    with kubectl(cluster, "exec", "-it", "server", "--", "sh") as terminal:
        terminal.wait_for("# ")
        terminal.type(f"{wait_for_size('24 80')}; exit 3\n")
        assert terminal.wait() == 3
    assert "command terminated with exit code 3" in terminal.output
