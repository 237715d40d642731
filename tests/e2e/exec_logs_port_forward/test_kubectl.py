"""The real kubectl: logs, exec, attach, port-forward, cp."""

import re
import socket
import subprocess
import urllib.request
from pathlib import Path

from tests.e2e.exec_logs_port_forward.cluster import StreamingCluster
from tests.e2e.exec_logs_port_forward.file_server import file_server
from tests.e2e.kubectl.command import Kubectl


def test_exec(cluster: StreamingCluster, real_kubectl: Kubectl, name: str) -> None:
    cluster.pod(name, "sleep", "1000")
    assert real_kubectl("exec", name, "--", "echo", "hello") == "hello\n"
    assert real_kubectl("exec", "-i", name, "--", "tr", "a-z", "A-Z", stdin="hello" * 20_000) == "HELLO" * 20_000
    assert real_kubectl("exec", name, "--", "echo", "x" * 30_000) == "x" * 30_000 + "\n"
    done = real_kubectl.run("exec", name, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert "err\n" in done.stderr
    assert "command terminated with exit code 7" in done.stderr


def test_exec_in_a_missing_pod_or_container_is_an_error(
    cluster: StreamingCluster, real_kubectl: Kubectl, name: str
) -> None:
    cluster.pod(name, "sleep", runs=False)
    assert "pod does not exist" in real_kubectl.fails("exec", name, "--", "ls")
    assert f'pods "{name}-none" not found' in real_kubectl.fails("exec", f"{name}-none", "--", "ls")
    assert f"container side is not valid for pod {name}" in real_kubectl.fails("exec", name, "-c", "side", "--", "ls")


def test_logs(cluster: StreamingCluster, real_kubectl: Kubectl, name: str) -> None:
    cluster.pod(name, "sh", "-c", "for i in 1 2 3; do echo line $i; done; sleep 1000")
    with real_kubectl.running("logs", "-f", name) as follower:
        assert follower.stdout is not None
        assert [follower.stdout.readline() for _ in range(3)] == ["line 1\n", "line 2\n", "line 3\n"]
    assert real_kubectl("logs", name) == "line 1\nline 2\nline 3\n"
    assert real_kubectl("logs", name, "--tail=1") == "line 3\n"
    assert real_kubectl("logs", name, "--limit-bytes=8") == "line 1\nl"
    stamped = real_kubectl("logs", name, "--timestamps").splitlines()
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{9}Z line \d", line) for line in stamped)
    assert real_kubectl("logs", name, "--since-time=2100-01-01T00:00:00Z") == ""
    refusal = real_kubectl.fails("logs", name, "--previous")
    assert f'previous terminated container "main" in pod "{name}" not found' in refusal
    assert "(BadRequest)" in refusal


def test_logs_of_a_container_that_has_not_started(cluster: StreamingCluster, real_kubectl: Kubectl, name: str) -> None:
    pod = cluster.pod(name, "sleep", runs=False)
    cluster.node.known["default", name] = pod
    assert f'container "main" in pod "{name}" is not available' in real_kubectl.fails("logs", name)


def test_attach(cluster: StreamingCluster, real_kubectl: Kubectl, name: str) -> None:
    cluster.pod(name, "sh", "-c", "read a; echo got $a; read b; exit 0", stdin=True, stdinOnce=True)
    done = real_kubectl.run("attach", "-i", name, stdin="hello\n")
    assert "got hello\n" in done.stdout


def test_port_forward(cluster: StreamingCluster, real_kubectl: Kubectl, name: str, tmp_path: Path) -> None:
    cluster.pod(name, "sleep", "1000")
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    with file_server(tmp_path) as port, real_kubectl.running("port-forward", name, f":{port}") as forwarding:
        assert forwarding.stdout is not None
        output = forwarding.stdout.readline()
        local = re.search(r"127\.0\.0\.1:(\d+) ->", output)
        assert local is not None, output
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{local[1]}/file", timeout=60) as response:
                assert len(response.read()) == 3_000_000


def test_port_forward_to_a_closed_port_reports_an_error(
    cluster: StreamingCluster, real_kubectl: Kubectl, name: str
) -> None:
    cluster.pod(name, "sleep", "1000")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with real_kubectl.running("port-forward", name, f":{port}") as forwarding:
        assert forwarding.stdout is not None
        local = re.search(r"127\.0\.0\.1:(\d+) ->", forwarding.stdout.readline())
        assert local is not None
        with socket.create_connection(("127.0.0.1", int(local[1])), timeout=60) as connection:
            assert connection.recv(1) == b""
        output = ""
        while "error forwarding port" not in output:
            line = forwarding.stdout.readline()
            assert line, output
            output += line


def test_cp(cluster: StreamingCluster, real_kubectl: Kubectl, name: str, tmp_path: Path) -> None:
    cluster.pod(name, "sleep", "1000")
    here, there, back = tmp_path / "here", tmp_path / "there", tmp_path / "back"
    here.write_bytes(bytes(range(256)) * 4000)
    real_kubectl("cp", str(here), f"{name}:{there}")
    assert there.read_bytes() == here.read_bytes()
    real_kubectl("cp", f"{name}:{there}", str(back))
    assert back.read_bytes() == here.read_bytes()


def test_logs_and_exec_without_permission_are_forbidden(
    cluster: StreamingCluster, real_kubectl: Kubectl, name: str, tmp_path: Path
) -> None:
    cluster.pod(name, "sleep", "1000")
    unprivileged = Kubectl(
        program=real_kubectl._program, kubeconfig=cluster.kubeconfig("unprivileged-token"), home=tmp_path
    )
    for words in (("logs", name), ("exec", name, "--", "ls")):
        assert "forbidden" in unprivileged.fails(*words).lower()


def test_exec_with_tty_allocates_a_pseudo_terminal(cluster: StreamingCluster, real_kubectl: Kubectl, name: str) -> None:
    cluster.pod(name, "sleep", "1000")
    words = f"{real_kubectl._program} exec -it {name} -- tty"
    with subprocess.Popen(
        ["script", "-qec", words, "/dev/null"],
        env=real_kubectl._environment,
        stdin=subprocess.PIPE,  # stays open
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        output = process.stdout.read()
    assert "/dev/pts/" in output
