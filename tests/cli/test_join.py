"""`sampan join` and `sampan leave` between machines, which are network namespaces in these tests."""

from __future__ import annotations

import itertools
import json
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from dns import message
from dns import query as dnspython

from sampan import __version__
from sampan.host.linux.network_namespace import run_in_network
from sampan.network.mesh.config import can_create
from tests.cli.command import Sampan
from tests.eventually import wait_until
from tests.network.machines import Machines
from tests.network.pods.lab import needs_network

pytestmark = needs_network

SERVER = "10.77.0.1:6443"
FAR = "10.78.0.2"
"""An address in another subnet than that of the server, which a tunnel has to reach."""
_POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %s}}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: sampan.local/host, command: [python3, -m, http.server, "8080"]}]
---
apiVersion: v1
kind: Service
metadata: {name: %s}
spec: {selector: {app: %s}, ports: [{port: 8080}]}
"""


class Machine:
    def __init__(self, home: Path, network: Machines, address: str) -> None:
        home.mkdir()
        self._network, self.address, self.sampan = network, address, Sampan(home)
        self.namespace_path = self.sampan.network = network.add(address, f"{address}/24")

    def move(self, address: str) -> None:
        """Replace the address of the machine."""
        self._network.give_address(self.namespace_path, f"{address}/24")
        self.address = address

    def list_links(self) -> set[str]:
        return {name for _, name in run_in_network(self.namespace_path, socket.if_nameindex)}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    machines = Machines(tmp_path_factory.mktemp("network"))
    try:
        yield machines
    finally:
        machines.close()


@pytest.fixture(scope="module")
def server(network: Machines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with a cluster that has one real node."""
    machine = Machine(tmp_path_factory.mktemp("server") / "home", network, "10.77.0.1")
    machine.sampan("up", "--detach", "--nodes", "1")
    try:
        yield machine
    finally:
        machine.sampan.run("down", "--delete")


_numbers = itertools.count(2)


@pytest.fixture
def machine(network: Machines, tmp_path: Path) -> Iterator[Machine]:
    """A machine in the subnet of the server, which has not joined yet."""
    machine = Machine(tmp_path / "home", network, f"10.77.0.{next(_numbers)}")
    yield machine
    if machine.sampan.directory().exists():
        machine.sampan.run("leave")


def kubectl(server: Machine, *words: str) -> str:
    admin = str(server.sampan.directory() / "admin.kubeconfig")
    return server.sampan("kubectl", "--kubeconfig", admin, *words)


def join(machine: Machine, token: Path, *words: str, node: str = "machine-b") -> str:
    return machine.sampan("join", SERVER, "--token-file", str(token), "--node-name", node, "--detach", *words)


def write_token_file(server: Machine, path: Path, *words: str) -> Path:
    path.write_text(server.sampan("token", "create", *words))
    return path


@contextmanager
def running_pods(server: Machine, path: Path, nodes: dict[str, str]) -> Iterator[dict[str, str]]:
    """Run a web server on each node, with a service of the same name, and yield their addresses by pod name."""
    path.write_text("---".join(_POD % (name, name, node, name, name) for name, node in nodes.items()))
    kubectl(server, "apply", "-f", str(path))

    def ready_addresses() -> dict[str, str]:
        pods = json.loads(kubectl(server, "get", "pods", "-o", "json"))["items"]
        addresses = {pod["metadata"]["name"]: pod["status"].get("podIP", "") for pod in pods}
        is_complete = len(pods) == len(nodes) and all(addresses.values()) and all(map(_is_ready, pods))
        return addresses if is_complete else {}

    yield wait_until(ready_addresses, poll_s=0.2, describe=lambda: kubectl(server, "get", "pods"))
    kubectl(server, "delete", "-f", str(path), "--now")


def _is_ready(pod: dict[str, dict[str, list[dict[str, str]]]]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def fetch(server: Machine, pod: str, address: str) -> str:
    script = "import sys, time, urllib.request as r\n"
    script += "for _ in range(20):\n  try: print(r.urlopen(sys.argv[1], timeout=5).status); break\n"
    script += "  except OSError: time.sleep(0.3)\n"
    return kubectl(server, "exec", pod, "--", "python3", "-c", script, f"http://{address}:8080/").strip()


def resolve(machine: Machine) -> bytes:
    """Return the addresses by which the DNS server of a joined machine answers for the service `kubernetes`."""
    query = message.make_query("kubernetes.default.svc.cluster.local", "A")

    def ask() -> bytes:
        response = dnspython.udp(query, machine.address, port=10053, timeout=10)
        return b"".join(row.address.encode() for records in response.answer for row in records)

    return run_in_network(machine.namespace_path, ask)


def is_forbidden(machine: Machine, verb: str, target: str) -> bool:
    """Return whether a request with the credentials of a joined node is forbidden."""
    resource, _, name = target.partition("/")
    group = "apis/discovery.k8s.io" if "." in resource else "api"
    namespace = "" if resource == "node" else "/namespaces/kube-system"
    path = f"/{group}/v1{namespace}/{resource.partition('.')[0].removesuffix('s')}s" + (f"/{name}" if name else "")
    (certificate,) = machine.sampan.directory().rglob("kubelet-client-current.pem")
    method = {"create": "POST", "get": "GET", "delete": "DELETE"}[verb]
    body = ["--data", "{}", "--header", "Content-Type: application/json"] if verb == "create" else []
    argv = ["curl", "-sk", "--cert", str(certificate), "-X", method, *body, f"https://{SERVER}{path}"]
    enter = ["nsenter", f"--net={machine.namespace_path}"]
    done = subprocess.run([*enter, *argv], capture_output=True, text=True, check=True)
    return bool(json.loads(done.stdout).get("code") == 403)


@pytest.mark.parametrize(
    "is_far",
    [False, pytest.param(True, marks=pytest.mark.skipif(not can_create("vxlan"), reason="no vxlan here"))],
    ids=["routes", "vxlan"],
)
def test_pods_of_joined_machines_reach_each_other(
    server: Machine, machine: Machine, tmp_path: Path, is_far: bool
) -> None:
    if is_far:
        machine.move(FAR)
    token = write_token_file(server, tmp_path / "token", "--one-use")
    assert "has joined https://10.77.0.1:6443" in join(machine, token)
    nodes = {"pod-a": "node-0", "pod-b": "machine-b"}
    with running_pods(server, tmp_path / "pods.yaml", nodes) as addresses:
        assert fetch(server, "pod-a", addresses["pod-b"]) == "200"
        assert fetch(server, "pod-b", addresses["pod-a"]) == "200"
        assert fetch(server, "pod-a", "pod-b") == "200"
        assert fetch(server, "pod-b", "pod-a") == "200"
    for target in ("machine-b:10250", "https:machine-b:10250", "http:machine-b:10250", "node-0:10250"):
        raw = kubectl(server, "get", "--raw", f"/api/v1/nodes/{target}/proxy/pods")
        assert json.loads(raw)["kind"] == "PodList", target
    assert resolve(machine)
    slices = json.loads(kubectl(server, "get", "endpointslices", "-n", "kube-system", "-o", "json"))["items"]
    assert "kube-dns-machine-b" in [item["metadata"]["name"] for item in slices]
    for words in (["create", "endpointslices.discovery.k8s.io"], ["get", "secrets"], ["delete", "node/node-0"]):
        assert is_forbidden(machine, *words), words
    assert "machine-b" in machine.sampan("leave")
    assert "machine-b" not in kubectl(server, "get", "nodes")
    assert machine.list_links() == {"lo", "eth0"}
    assert not machine.sampan.directory().exists()


def test_joined_machine_restarts_without_token_and_one_use_token_is_spent(
    server: Machine, machine: Machine, network: Machines, tmp_path: Path
) -> None:
    token = write_token_file(server, tmp_path / "token", "--one-use")
    join(machine, token)
    assert "already running" in machine.sampan("join")
    secret = token.read_text().split("@")[0]
    for file in machine.sampan.directory().rglob("*"):
        assert not file.is_file() or secret not in file.read_bytes().decode("latin-1"), file
    output = machine.sampan("status")
    assert "machine-b" in output
    assert re.search(r"^certificates  client valid for 36[45] days", output, re.MULTILINE), output
    assert output.splitlines()[1].split()[-2] == __version__
    machine.sampan("down")
    assert "is that of a node that joined" in machine.sampan.expect_failure("up", "--detach")
    assert "sampan leave" in machine.sampan.expect_failure("down", "--delete")
    assert "has joined" in machine.sampan("join", "--detach")
    other = Machine(tmp_path / "other", network, f"10.77.0.{next(_numbers)}")
    refusal = other.sampan.expect_failure("join", SERVER, "--token-file", str(token), "--node-name", "machine-c")
    assert "token" in refusal
    assert not other.sampan.directory().exists()
    machine.move("10.77.0.99")
    wait_until(lambda: "10.77.0.99" in kubectl(server, "get", "nodes", "-o", "wide"), poll_s=0.5)
    machine.sampan("leave", "--drain")


def test_join_and_leave_errors_are_explained(server: Machine, machine: Machine, tmp_path: Path) -> None:
    token = write_token_file(server, tmp_path / "token")
    arguments = ("--token-file", str(token), "--node-name")
    assert "SERVER" in machine.sampan.expect_failure("join")
    assert "--token-file" in machine.sampan.expect_failure("join", SERVER)
    assert "--bind-address" in machine.sampan.expect_failure("join", "10.77.0.1:7443", *arguments, "machine-b")
    assert "ready node node-0" in machine.sampan.expect_failure("join", SERVER, *arguments, "node-0")
    wrong = tmp_path / "wrong"
    wrong.write_text(token.read_text().split("@")[0] + f"@sha256:{'0' * 64}")
    assert "Nothing was sent" in machine.sampan.expect_failure("join", SERVER, "--token-file", str(wrong))
    assert "has not joined" in machine.sampan.expect_failure("leave")
    assert not machine.sampan.directory().exists()
