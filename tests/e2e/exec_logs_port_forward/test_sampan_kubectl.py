"""`sampan kubectl` with exec, logs, attach, port-forward, cp and top."""

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.exec_logs_port_forward.cluster import StreamingCluster
from tests.e2e.exec_logs_port_forward.file_server import file_server

_PROGRAM = [sys.executable, "-m", "sampan", "kubectl"]


class SampanKubectl:
    def __init__(self, kubeconfig: Path, environment: dict[str, str]) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), **environment}

    def __call__(self, *words: str, stdin: str = "", code: int = 0) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [*_PROGRAM, *words], input=stdin, capture_output=True, text=True, timeout=60, env=self._environment
        )
        assert done.returncode == code, done
        return done

    @contextmanager
    def running(self, *words: str) -> Iterator["subprocess.Popen[str]"]:
        with subprocess.Popen(
            [*_PROGRAM, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**self._environment, "PYTHONUNBUFFERED": "1"},
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def sampan_kubectl(cluster: StreamingCluster) -> SampanKubectl:
    return SampanKubectl(cluster.kubeconfig(), {})


@pytest.fixture(params=["websocket", "spdy"])
def streaming_kubectl(request: pytest.FixtureRequest, cluster: StreamingCluster) -> SampanKubectl:
    """`sampan kubectl` with WebSockets, and with SPDY, which it uses with old API servers."""
    names = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
    return SampanKubectl(cluster.kubeconfig(), dict.fromkeys(names, "false") if request.param == "spdy" else {})


def test_exec(cluster: StreamingCluster, streaming_kubectl: SampanKubectl, name: str) -> None:
    cluster.pod(name, "sleep", "1000")
    assert streaming_kubectl("exec", name, "--", "echo", "-n", "hello").stdout == "hello"
    assert streaming_kubectl("exec", "-i", f"pod/{name}", "--", "cat", stdin="x" * 100_000).stdout == "x" * 100_000
    done = streaming_kubectl("exec", name, "--", "sh", "-c", "echo err >&2; exit 5", code=5)
    assert done.stderr == "err\ncommand terminated with exit code 5\n"
    assert "own-none" in streaming_kubectl("exec", "own-none", "--", "ls", code=1).stderr
    assert "container side is not valid" in streaming_kubectl("exec", "-c", "side", name, "--", "ls", code=1).stderr


def test_logs(cluster: StreamingCluster, sampan_kubectl: SampanKubectl) -> None:
    cluster.pod("own-logs", "sh", "-c", "echo one; echo two; sleep 1000")
    with sampan_kubectl.running("logs", "-f", "own-logs") as follower:
        assert follower.stdout is not None
        assert [follower.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
    assert sampan_kubectl("logs", "own-logs", "--tail", "1").stdout == "two\n"
    assert sampan_kubectl("logs", "own-logs", "--prefix").stdout.startswith("[pod/own-logs/main] one\n")
    assert sampan_kubectl("logs", "own-logs", "--since", "1h", "--limit-bytes", "2").stdout == "on"
    refusal = sampan_kubectl("logs", "-p", "own-logs", code=1).stderr
    assert refusal.startswith('Error from server (BadRequest): previous terminated container "main" in pod')


def test_attach(cluster: StreamingCluster, streaming_kubectl: SampanKubectl, name: str) -> None:
    cluster.pod(name, "sh", "-c", "read a; echo got $a; read b", stdin=True, stdinOnce=True)
    assert "got hello\n" in streaming_kubectl("attach", "-i", name, stdin="hello\n").stdout


def test_port_forward(cluster: StreamingCluster, streaming_kubectl: SampanKubectl, name: str, tmp_path: Path) -> None:
    cluster.pod(name, "sleep", "1000")
    (tmp_path / "file").write_bytes(b"x" * 1_000_000)
    with file_server(tmp_path) as port, streaming_kubectl.running("port-forward", name, f":{port}") as forwarding:
        assert forwarding.stdout is not None
        local = re.search(r"127\.0\.0\.1:(\d+) ->", forwarding.stdout.readline())
        assert local is not None
        for _ in range(2):
            with urllib.request.urlopen(f"http://127.0.0.1:{local[1]}/file", timeout=60) as response:
                assert len(response.read()) == 1_000_000


def test_cp(cluster: StreamingCluster, streaming_kubectl: SampanKubectl, name: str, tmp_path: Path) -> None:
    cluster.pod(name, "sleep", "1000")
    directory, there, back = tmp_path / "folder", tmp_path / "there", tmp_path / "back"
    (directory / "below").mkdir(parents=True)
    (directory / "below" / "file").write_bytes(bytes(range(256)) * 1000)
    there.mkdir()
    streaming_kubectl("cp", str(directory), f"{name}:{there}")
    assert (there / "folder" / "below" / "file").read_bytes() == bytes(range(256)) * 1000
    streaming_kubectl("cp", f"default/{name}:{there}/folder", str(back))
    assert (back / "below" / "file").read_bytes() == bytes(range(256)) * 1000
    assert "one of src or dest must be" in streaming_kubectl("cp", "a", "b", code=1).stderr


def test_top(cluster: StreamingCluster, sampan_kubectl: SampanKubectl) -> None:
    cluster.loop.call_soon_threadsafe(cluster.server.serve_metrics)
    cluster.pod("own-top", "sleep", "1000")
    nodes = sampan_kubectl("top", "nodes").stdout.splitlines()
    assert nodes[0].split() == ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"]
    assert nodes[1].split()[0] == "plain"
    pods = sampan_kubectl("top", "pods", "own-top", "--containers", "--no-headers").stdout.split()
    assert pods == ["own-top", "main", "250m", "20Mi"]
