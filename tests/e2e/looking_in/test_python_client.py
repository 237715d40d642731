"""The official Python client: streams over WebSocket, the channel form of port-forward."""

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.looking_in.cluster import LookedInto
from tests.e2e.looking_in.test_kubectl import _web

kubernetes = pytest.importorskip("kubernetes")
stream = pytest.importorskip("kubernetes.stream")


@pytest.fixture
def api(cluster: LookedInto) -> Any:
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(cluster.kubeconfig()), client_configuration=configuration)
    with kubernetes.client.ApiClient(configuration) as client:
        yield kubernetes.client.CoreV1Api(client)


def test_exec(cluster: LookedInto, api: Any) -> None:
    cluster.pod("py-exec", "sleep", "1000")
    opened = stream.stream(
        api.connect_get_namespaced_pod_exec,
        "py-exec",
        "default",
        command=["sh", "-c", "read line; echo got $line; exit 3"],
        stdin=True,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
    )
    opened.write_stdin("hello\n")
    opened.run_forever(timeout=20)
    assert (opened.read_stdout(), opened.returncode) == ("got hello\n", 3)


def test_exec_in_one_go(cluster: LookedInto, api: Any) -> None:
    cluster.pod("py-go", "sleep", "1000")
    said = stream.stream(
        api.connect_get_namespaced_pod_exec,
        "py-go",
        "default",
        command=["seq", "50000"],
        stdout=True,
        stderr=True,
        stdin=False,
        tty=False,
    )
    assert said.splitlines()[-1] == "50000"


def test_logs(cluster: LookedInto, api: Any) -> None:
    cluster.pod("py-log", "sh", "-c", "echo hello; sleep 1000")
    for line in api.read_namespaced_pod_log("py-log", "default", follow=True, _preload_content=False):
        assert line == b"hello\n"
        break
    assert api.read_namespaced_pod_log("py-log", "default") == "hello\n"


def test_port_forward(cluster: LookedInto, api: Any, tmp_path: Path) -> None:
    cluster.pod("py-port", "sleep", "1000")
    (tmp_path / "file").write_text("content")
    with _web(tmp_path) as port:
        forwarded = stream.portforward(
            api.connect_get_namespaced_pod_portforward, "py-port", "default", ports=str(port)
        )
        connection: socket.socket = forwarded.socket(port)
        connection.setblocking(True)
        connection.sendall(b"GET /file HTTP/1.0\r\nHost: x\r\n\r\n")
        said = b""
        while data := connection.recv(4096):
            said += data
        forwarded.close()
        assert said.endswith(b"content")
        assert forwarded.error(port) is None
