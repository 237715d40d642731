"""Load balancers and node ports of `sampan up`, with clients on the machine."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.cli.command import Sampan, get
from tests.e2e.machine import NEEDS_NODE_NETWORKS, PORT, Machine, address_of, expose, response, wait_for
from tests.ports import free_port

pytestmark = NEEDS_NODE_NETWORKS

UDP_SERVER = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", 5353))
while True:
    data, client = server.recvfrom(100)
    server.sendto(data.upper(), client)
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    sampan = Sampan(tmp_path_factory.mktemp("balancers"))
    sampan("up", "--detach", "--nodes", "2", "--runtime", "oci", "--secure-port", str(free_port()))
    try:
        machine = Machine(sampan)
        machine.create("web", "node-0", labels={"app": "web"})
        udp = {"command": ["python3", "-c", UDP_SERVER], "readinessProbe": None}
        machine.create("dns", "node-1", labels={"app": "dns"}, container=udp)
        yield machine
    finally:
        sampan("down")


def test_services_with_the_same_port_get_different_addresses(machine: Machine) -> None:
    machine.pod_ip("web")
    services = [expose(machine, name, "web", {"port": 80, "targetPort": PORT}) for name in ("one", "two")]
    addresses = [service["status"]["loadBalancer"]["ingress"][0]["ip"] for service in services]
    assert addresses[0] != addresses[1]
    for address in addresses:
        assert wait_for(lambda address=address: response(f"http://{address}/")).startswith("web ")  # type: ignore[misc]
    node_port = services[0]["spec"]["ports"][0]["nodePort"]
    for host in ("127.0.0.1", "[::1]", machine.node_ip("node-1")):
        assert wait_for(lambda host=host: response(f"http://{host}:{node_port}/")).startswith("web ")  # type: ignore[misc]


def test_external_traffic_policy_local_preserves_the_client_ip(machine: Machine) -> None:
    """The address leads to the node with the endpoint, and the pod sees the address of the machine."""
    expose(machine, "local", "web", {"port": 80, "targetPort": PORT}, externalTrafficPolicy="Local")
    address = address_of(machine, "local")
    network = machine.node_ip("node-0").rpartition(".")[0]
    assert wait_for(lambda: response(f"http://{address}/")) == f"web {network}.1"


def test_udp_load_balancer(machine: Machine) -> None:
    expose(machine, "dns", "dns", {"port": 53, "targetPort": 5353, "protocol": "UDP"})
    address = address_of(machine, "dns")

    def exchange() -> str:
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as client:
            client.settimeout(1)
            client.connect((address, 53))
            try:
                client.send(b"hello")
                return client.recv(100).decode()
            except OSError:
                return ""

    assert wait_for(exchange) == "HELLO"


def test_address_in_the_status_accepts_connections_at_once(machine: Machine) -> None:
    """The address has a route before it is in the status of the service."""
    machine.pod_ip("web")
    for number in range(5):
        ingress = expose(machine, f"early-{number}", "web", {"port": 80, "targetPort": PORT})
        address = ingress["status"]["loadBalancer"]["ingress"][0]["ip"]
        assert get(f"http://{address}/")[1].startswith("web ")


def test_address_moves_to_another_node_when_its_node_stops(machine: Machine) -> None:
    machine.create("web-1", "node-1", labels={"app": "local-web"})
    machine.create("web-0", "node-0", labels={"app": "local-web"})
    for pod in ("web-0", "web-1"):
        machine.pod_ip(pod)
    port = {"port": 80, "targetPort": PORT}
    expose(machine, "moving", "local-web", port, externalTrafficPolicy="Local")
    address = address_of(machine, "moving")
    name = wait_for(lambda: response(f"http://{address}/")).split()[0]
    machine.sampan("node", "stop", f"node-{name[-1]}")
    try:
        other = {"web-0": "web-1", "web-1": "web-0"}[name]
        wait_for(lambda: other if response(f"http://{address}/").startswith(other) else "")
        # The address moved because the node announces it no more, before the node controller noticed that it stopped.
        condition = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        assert machine.sampan("kubectl", "get", "node", f"node-{name[-1]}", "-o", condition).strip() == "True"
    finally:
        machine.sampan("node", "start", f"node-{name[-1]}")


def test_conflicting_load_balancer_ip_is_reported_as_an_event(machine: Machine) -> None:
    address = address_of(machine, "dns")
    obj = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "clash"},
        "spec": {"type": "LoadBalancer", "loadBalancerIP": address, "ports": [{"port": 80}]},
    }
    manifest = machine.sampan.home / "clash.json"
    manifest.write_text(json.dumps(obj))
    machine.sampan("kubectl", "create", "-f", str(manifest))
    message = f"loadBalancerIP {address} belongs to another service"
    wait_for(lambda: message if message in machine.sampan("kubectl", "get", "events") else "")
