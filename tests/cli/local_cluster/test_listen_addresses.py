"""Addresses on which `sampan up` listens: other machines get no connection unless --bind-address allows it."""

import ipaddress
import json
import os
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sampan.apiserver.config.server_config import ServerConfig
from sampan.cli.local_cluster.listen_addresses import is_own, pods_warning
from sampan.cluster.nodes.nodes_config import NodesConfig
from sampan.host.linux.network_namespace import NetworkNamespace, is_network
from sampan.kubelet.agent.machine import find_machine_addresses
from tests.cli.command import TIMEOUT_S, Sampan, get, unwrap_lines
from tests.eventually import wait_until
from tests.ports import free_port
from tests.skips import requires

_LISTEN = "0A"
_MACHINE = NetworkNamespace()
needs_containers = requires("root", "crun or runc")
LOOPBACK = {"127.0.0.1", *(["::1"] if is_own("::1") else [])}


def list_sockets(pid: int, namespace: NetworkNamespace = _MACHINE) -> set[tuple[str, int]]:
    """Return the TCP sockets that the process listens on in a network namespace, as the kernel reports them."""
    own = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in namespace.run(Path(f"/proc/thread-self/net/{table}").read_text).splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN and f"socket:[{fields[9]}]" in own:
                address, _, port = fields[1].partition(":")
                addresses.add((_decode_address(address), int(port, 16)))
    return addresses


def list_cluster_sockets(sampan: Sampan) -> set[tuple[str, int]]:
    """Return the TCP sockets of the cluster on the machine and in the network namespaces of its nodes."""
    nodes = sampan.home.glob("clusters/*/nodes/*/netns")
    namespaces = [_MACHINE, *(NetworkNamespace(path) for path in nodes if is_network(path))]
    return {
        address for namespace in namespaces for address in list_sockets(sampan.read_running_file()["pid"], namespace)
    }


def _decode_address(text: str) -> str:
    """Return an address of /proc/net/tcp, which has words of four bytes in the byte order of the machine."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    return str(ipaddress.ip_address(b"".join(words)))


def format_addresses(addresses: set[tuple[str, int]]) -> set[str]:
    return {f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses}


def start_cluster(sampan: Sampan, *words: str) -> int:
    port = free_port()
    lines = unwrap_lines(sampan("up", "--detach", "--secure-port", str(port), *words))
    addresses = set(lines[1].removeprefix("  listen ").split(", "))
    # The kubelet opens its port when it has registered its node.
    wait_until(lambda: not format_addresses(list_cluster_sockets(sampan)) < addresses, timeout_s=TIMEOUT_S)
    assert format_addresses(list_cluster_sockets(sampan)) == addresses
    (status,) = json.loads(sampan("status", "-o", "json"))
    assert set(status["listening"]) == addresses
    return port


@pytest.mark.parametrize(
    "words", [["--nodes", "0"], ["--runtime", "hollow", "--nodes", "1"]], ids=["no-nodes", "hollow-nodes"]
)
def test_cluster_without_real_nodes_listens_only_on_loopback(sampan: Sampan, words: list[str]) -> None:
    port = start_cluster(sampan, *words)
    assert list_sockets(sampan.read_running_file()["pid"]) == {(address, port) for address in LOOPBACK}
    for address in LOOPBACK:
        url = f"https://[{address}]:{port}" if ":" in address else f"https://{address}:{port}"
        assert get(f"{url}/livez") == (200, "ok")


@dataclass(frozen=True)
class NodeCluster:
    """A cluster with one real node, which has a network namespace of its own or uses that of the machine."""

    sampan: Sampan
    port: int
    is_on_host_network: bool


@pytest.fixture(scope="module", params=["own", "host"])
def node_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    sampan = Sampan(tmp_path_factory.mktemp(request.param))
    try:
        port = start_cluster(sampan, "--runtime", "oci", "--node-network", request.param)
        yield NodeCluster(sampan, port, request.param == "host")
    finally:
        sampan.run("down")


@needs_containers
def test_kubelet_of_a_real_node_does_not_listen_on_the_network(node_cluster: NodeCluster) -> None:
    addresses = list_sockets(node_cluster.sampan.read_running_file()["pid"])
    nodes = {address for address in find_machine_addresses() if is_own(address)}
    assert {host for host, number in addresses if number == node_cluster.port} == {*LOOPBACK, *nodes}
    others = {host for host, number in addresses if number != node_cluster.port}
    # the DNS server of a node on the network of the machine responds only to nodes and pods
    assert others == ({"127.0.0.1", *nodes, find_machine_addresses()[0]} if node_cluster.is_on_host_network else set())


@needs_containers
def test_pods_reach_the_server_at_an_address_of_the_machine(node_cluster: NodeCluster) -> None:
    sampan = node_cluster.sampan
    manifest = sampan.home / "pod.yaml"
    host = "$HOST_IP" if node_cluster.is_on_host_network else find_machine_addresses()[0]
    manifest.write_text(POD.replace("$HOST_IP:PORT", f"{host}:{node_cluster.port}"))
    sampan("kubectl", "create", "-f", str(manifest))

    def has_succeeded() -> bool:
        manifest = sampan("kubectl", "get", "pod", "caller", "-o", "yaml")
        assert "Failed" not in manifest, sampan("kubectl", "logs", "caller")
        return "Succeeded" in manifest

    wait_until(has_succeeded, timeout_s=TIMEOUT_S, poll_s=0.1)
    assert sampan("kubectl", "logs", "caller") == "ok"


POD = """
apiVersion: v1
kind: Pod
metadata: {name: caller}
spec:
  restartPolicy: Never
  containers:
  - name: curl
    image: sampan.local/host
    command: [sh, -c, 'curl -sS --cacert /var/run/secrets/kubernetes.io/serviceaccount/ca.crt https://$HOST_IP:PORT/livez']
    env:
    - {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
"""


def test_bind_address_is_the_only_listen_address(sampan: Sampan) -> None:
    port = start_cluster(sampan, "--nodes", "0", "--bind-address", "127.0.0.2")
    assert list_sockets(sampan.read_running_file()["pid"]) == {("127.0.0.2", port)}
    assert sampan.read_running_file()["url"] == f"https://127.0.0.2:{port}"
    _check_certificate(sampan, "127.0.0.2", port)
    assert "default" in sampan("kubectl", "get", "namespaces")


def test_bind_address_of_all_zeros_serves_a_valid_certificate_on_every_address(sampan: Sampan) -> None:
    port = start_cluster(sampan, "--nodes", "0", "--bind-address", "0.0.0.0")
    assert list_sockets(sampan.read_running_file()["pid"]) == {("0.0.0.0", port)}
    assert sampan.read_running_file()["url"] == f"https://127.0.0.1:{port}"
    for address in find_machine_addresses():
        if ":" not in address:
            _check_certificate(sampan, address, port)


def _check_certificate(sampan: Sampan, address: str, port: int) -> None:
    """Check that the server's certificate is valid for the address."""
    context = ssl.create_default_context(cafile=sampan.directory() / "pki/ca.crt")
    with (
        socket.create_connection((address, port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname=address),
    ):
        pass


def test_insecure_port_in_use_is_reported(sampan: Sampan) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1]
        error = sampan.expect_failure(
            "up", "--insecure-port", str(port), "--secure-port", str(free_port()), "--nodes", "0"
        )
    assert error.endswith(f"Error: --insecure-port: 127.0.0.1:{port} is in use; give another port\n")


def test_kube_apiserver_listens_on_all_addresses_by_default(sampan: Sampan) -> None:
    port = free_port()
    with sampan.running_forked_server("kube-apiserver", "--secure-port", str(port)) as process:
        assert any("is ready" in line for line in process.stdout)
        assert list_sockets(process.pid) == {("0.0.0.0", port)}


@pytest.mark.parametrize(
    ("bound", "advertised", "real_nodes", "is_reachable"),
    [
        pytest.param(["127.0.0.1"], "192.0.2.2", 1, False, id="loopback-only"),
        pytest.param(["127.0.0.1", "::1"], "192.0.2.2", 1, False, id="both-loopback-addresses"),
        pytest.param(["127.0.0.1"], "192.0.2.2", 0, True, id="no-real-nodes"),
        pytest.param(["0.0.0.0"], "192.0.2.2", 1, True, id="every-address"),
        pytest.param(["127.0.0.1", "192.0.2.2"], "192.0.2.2", 1, True, id="advertised-address"),
        pytest.param(["192.0.2.3"], "192.0.2.2", 1, False, id="another-address"),
    ],
)
def test_warning_if_pods_cannot_reach_the_server(
    bound: list[str], advertised: str, real_nodes: int, is_reachable: bool
) -> None:
    config = ServerConfig(bind_address=bound[0], other_bind_addresses=bound[1:], advertise_address=advertised)
    nodes = NodesConfig(count=real_nodes, runtime="oci")
    assert (pods_warning(config, nodes) == "") == is_reachable
    if not is_reachable:
        assert "192.0.2.2" in pods_warning(config, nodes)
