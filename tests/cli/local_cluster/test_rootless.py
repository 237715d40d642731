"""`sampan up` of a user who is not root: containers in a user namespace, and processes without isolation."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.cli.local_cluster.rootless import subordinate_range
from sampan.network.nodes import bridge_of_nodes
from tests.cli.command import Sampan, get
from tests.cli.plain_user import USER, needs_users, plain_user
from tests.eventually import wait_until
from tests.ports import free_node_port, free_port

SERVER = (
    "import http.server as h\n"
    "class H(h.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        self.send_response(200); self.end_headers(); self.wfile.write(b'hello')\n"
    "h.HTTPServer(('', PORT), H).serve_forever()\n"
)


def make_objects(port: int, node_port: int) -> list[dict[str, Any]]:
    server = SERVER.replace("PORT", str(port))
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "web",
                        "image": "sampan.local/host",
                        "command": ["sh", "-c", f'id -u; exec python3 -c "{server}"'],
                        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
                        "resources": {"limits": {"memory": "200Mi", "cpu": "1"}},
                    }
                ],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {
                "type": "NodePort",
                "selector": {"app": "web"},
                "ports": [{"port": 80, "targetPort": port, "nodePort": node_port}],
            },
        },
    ]


@pytest.fixture
def sampan(tmp_path: Path) -> Iterator[Sampan]:
    """Yield `sampan` of another user."""
    with plain_user(tmp_path) as sampan:
        yield sampan


def processes_below(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    children = [int(word) for word in path.read_text().split()] if path.exists() else []
    return [*children, *(deeper for child in children for deeper in processes_below(child))]


def kubectl(sampan: Sampan, *words: str) -> str:
    """Run kubectl as root, without the CPU time of a process of another user."""
    done = Sampan(sampan.home).run("kubectl", "--kubeconfig", str(sampan.directory() / "admin.kubeconfig"), *words)
    return done.stdout


def start(sampan: Sampan, *words: str) -> int:
    """Start a cluster with a pod and a service, and return the node port of the service. Plain processes serve on the
    network of the machine, and so do node ports: both ports are free ones."""
    sampan("up", "--detach", *words)
    node_port, manifest = free_node_port(), sampan.home / "objects.json"
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": make_objects(free_port(), node_port)}))
    sampan("kubectl", "create", "-f", str(manifest))
    wait_until(lambda: "1/1" in kubectl(sampan, "get", "pod", "web"), poll_s=0.1)
    return node_port


@needs_users
def test_pods_services_and_node_ports_work_in_a_user_namespace(sampan: Sampan) -> None:
    """Logs, exec, services by name, the API from a pod, and node ports work as for root."""
    node_port = start(sampan)
    assert "user namespace, as you are not root" in (sampan.directory() / "sampan.log").read_text()
    assert kubectl(sampan, "logs", "web") == "0\n"
    inside = "curl -sS -m 10 http://web.default/; echo; curl -sSk -m 10 -o /dev/null -w '%{http_code}' https://kubernetes/version"
    wait_until(lambda: kubectl(sampan, "exec", "web", "--", "sh", "-c", inside) == "hello\n200", poll_s=0.1)
    assert get(f"http://127.0.0.1:{node_port}/") == (200, "hello")
    outer = sampan.read_running_file()["pid"]
    assert Path(f"/proc/{outer}").stat().st_uid in (0, USER)
    inner = processes_below(outer)
    assert sampan("down") == "sampan: stopped\n"
    wait_until(lambda: not [pid for pid in inner if Path(f"/proc/{pid}/exe").exists()])
    assert bridge_of_nodes(sampan.directory() / "nodes") not in [name for _, name in socket.if_nameindex()]
    assert sampan("down", "--delete") == "sampan: data removed\n"
    assert not sampan.directory().exists()


@needs_users
def test_sigkill_of_the_outer_process_ends_all_processes_of_the_cluster(sampan: Sampan) -> None:
    start(sampan)
    outer = sampan.read_running_file()["pid"]
    inner = processes_below(outer)
    os.kill(outer, signal.SIGKILL)
    wait_until(lambda: not [pid for pid in inner if _is_alive(pid)])
    assert bridge_of_nodes(sampan.directory() / "nodes") not in [name for _, name in socket.if_nameindex()]
    assert "data removed" in sampan("down", "--delete")
    assert not sampan.directory().exists()


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@needs_users
def test_process_runtime_serves_services_through_the_userspace_proxy(sampan: Sampan) -> None:
    node_port = start(sampan, "--runtime", "process", "--nodes", "1")
    # the proxy learns of the endpoints of the service after the pod is ready
    wait_until(lambda: get(f"http://127.0.0.1:{node_port}/") == (200, "hello"), ignore=(OSError,))
    address = json.loads(kubectl(sampan, "get", "service", "web", "-o", "json"))["spec"]["clusterIP"]
    loopback = f"http://127.{address.partition('.')[2]}:10080/"
    assert get(loopback) == (200, "hello")
    assert sampan("down") == "sampan: stopped\n"


@needs_users
def test_doctor_checks_the_user_namespace(sampan: Sampan) -> None:
    done = sampan.run("doctor")
    assert "warning: root: not root: nodes run in a user namespace" in done.stdout
    assert "limits of CPU, memory and processes are not enforced" in done.stdout
    assert "nft works" in done.stdout


def test_ranges_of_subordinate_ids(tmp_path: Path) -> None:
    file = tmp_path / "subuid"
    file.write_text(f"somebody:100000:65536\n{USER}:200000:1000\n")
    assert subordinate_range(str(file), USER) == (200000, 1000)
    assert subordinate_range(str(file), 4711) is None
    assert subordinate_range(str(tmp_path / "missing"), USER) is None
