"""The official Python client in a process of its own: streams over WebSocket, and port-forward in its channel
protocol."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.exec_logs_port_forward.cluster import StreamingCluster
from tests.e2e.exec_logs_port_forward.file_server import file_server

pytest.importorskip("kubernetes")

_BEGINNING = """\
import json, sys
from kubernetes import client, config
from kubernetes.stream import portforward, stream
config.load_kube_config(sys.argv[1])
api = client.CoreV1Api()
"""


def _python(cluster: StreamingCluster, code: str) -> Any:
    """Return the JSON value that the code prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _BEGINNING + textwrap.dedent(code), str(cluster.kubeconfig())],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_exec(cluster: StreamingCluster) -> None:
    cluster.pod("py-exec", "sleep", "1000")
    output = _python(
        cluster,
        """
        opened = stream(api.connect_get_namespaced_pod_exec, "py-exec", "default", stdin=True, stdout=True, stderr=True,
            tty=False, command=["sh", "-c", "read line; echo got $line; exit 3"], _preload_content=False)
        opened.write_stdin("hello\\n")
        opened.run_forever(timeout=20)
        print(json.dumps([opened.read_stdout(), opened.returncode]))
        """,
    )
    assert output == ["got hello\n", 3]


def test_exec_without_stdin_returns_all_output(cluster: StreamingCluster) -> None:
    cluster.pod("py-go", "sleep", "1000")
    output = _python(
        cluster,
        """
        said = stream(api.connect_get_namespaced_pod_exec, "py-go", "default", stdin=False, stdout=True, stderr=True,
            tty=False, command=["seq", "50000"])
        print(json.dumps(said.splitlines()[-1]))
        """,
    )
    assert output == "50000"


def test_logs(cluster: StreamingCluster) -> None:
    cluster.pod("py-log", "sh", "-c", "echo hello; sleep 1000")
    output = _python(
        cluster,
        """
        following = api.read_namespaced_pod_log("py-log", "default", follow=True, _preload_content=False)
        first = next(following.stream()).decode()
        print(json.dumps([first, api.read_namespaced_pod_log("py-log", "default")]))
        """,
    )
    assert output == ["hello\n", "hello\n"]


def test_port_forward(cluster: StreamingCluster, tmp_path: Path) -> None:
    cluster.pod("py-port", "sleep", "1000")
    (tmp_path / "file").write_text("content")
    with file_server(tmp_path) as port:
        output = _python(
            cluster,
            f"""
            forwarded = portforward(api.connect_get_namespaced_pod_portforward, "py-port", "default", ports="{port}")
            connection = forwarded.socket({port})
            connection.setblocking(True)
            connection.sendall(b"GET /file HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n")
            said = b""
            while data := connection.recv(4096):
                said += data
            print(json.dumps([said.decode()[-7:], forwarded.error({port})]))
            """,
        )
    assert output == ["content", None]
