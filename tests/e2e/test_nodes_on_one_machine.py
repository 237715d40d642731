"""Several nodes on one machine, each in a network namespace of its own, with real packets between their pods."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from sampan.host.linux.network_namespace import is_network
from sampan.kubelet.agent.machine import find_machine_addresses
from tests.cli.command import Sampan, get
from tests.e2e.machine import NEEDS_NODE_NETWORKS, PORT, Machine, network_state, response, wait_for
from tests.ports import free_port

pytestmark = NEEDS_NODE_NETWORKS

HOST_PORT = 18080


UP = ("up", "--detach", "--nodes", "3", "--runtime", "oci")


@pytest.fixture(scope="module")
def started_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(Sampan(tmp_path_factory.mktemp("nodes")))
    start(machine)
    machine.create("a", "node-0")
    host_port = {"containerPort": PORT, "hostPort": HOST_PORT}
    machine.create("b", "node-1", container={"ports": [host_port]})
    machine.create("h", "node-2", port=PORT + 1, hostNetwork=True)
    yield machine
    machine.sampan("down")


@pytest.fixture
def machine(started_machine: Machine) -> Machine:
    """A running cluster with the pods a, b and h; it is started again if another test has stopped it."""
    if not started_machine.is_running():
        start(started_machine)
        for name in "ab":  # the status may still be that of the pod before the restart
            wait_for(lambda name=name: response(f"http://{started_machine.pod_ip(name)}:{PORT}/"))  # type: ignore[misc]
    return started_machine


def start(machine: Machine) -> None:
    ports = ("--secure-port", str(free_port()), "--insecure-port", str(free_port()))
    machine.sampan(*UP, "--node-network", "own", *ports)


def test_host_name_of_a_pod_on_the_host_network_is_that_of_its_node(machine: Machine) -> None:
    assert machine.pod_ip("h") == machine.node_ip("node-2")
    for command in (["hostname"], ["cat", "/etc/hostname"]):
        assert machine.sampan("kubectl", "exec", "h", "--", *command).strip() == "node-2"
    assert machine.pod_ip("a")
    assert machine.sampan("kubectl", "exec", "a", "--", "hostname").strip() == "a"


def test_pods_of_all_nodes_reach_each_other(machine: Machine) -> None:
    a, b, h = (machine.pod_ip(name) for name in "abh")
    nodes = [machine.node_ip(f"node-{number}") for number in range(3)]
    assert len(set(nodes)) == 3
    assert h == nodes[2]
    assert machine.curl("a", f"{b}:{PORT}") == f"b {a}"
    assert machine.curl("b", f"{a}:{PORT}") == f"a {b}"
    assert machine.curl("a", f"{h}:{PORT + 1}") == f"h {a}"
    assert machine.curl("h", f"{a}:{PORT}") == f"a {h}"
    assert machine.curl("a", f"{nodes[1]}:{HOST_PORT}") == f"b {a}"


def test_network_policies_apply_across_nodes_but_not_to_probes(machine: Machine) -> None:
    a, b = machine.pod_ip("a"), machine.pod_ip("b")
    manifest = machine.sampan.home / "policy.json"
    only_b = {"from": [{"ipBlock": {"cidr": f"{b}/32"}}]}
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [only_b]}
    kind = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    manifest.write_text(json.dumps({**kind, "metadata": {"name": "only-b"}, "spec": spec}))
    machine.sampan("kubectl", "create", "-f", str(manifest))
    try:
        wait_for(lambda: "blocked" if machine.is_blocked("a", f"{b}:{PORT}") else "")
        assert machine.curl("b", f"{a}:{PORT}") == f"a {b}"
        machine.create("late", "node-0")
        late = machine.pod_ip("late")
        assert machine.is_blocked("a", f"{late}:{PORT}")
        assert machine.curl("b", f"{late}:{PORT}") == f"late {b}"
        assert get(f"http://{b}:{PORT}/")[1].startswith("b ")
    finally:
        machine.sampan("kubectl", "delete", "networkpolicy", "only-b")
        machine.sampan("kubectl", "delete", "pod", "late", "--ignore-not-found")
    wait_for(lambda: "" if machine.is_blocked("a", f"{b}:{PORT}") else "open")


def test_processes_of_the_machine_reach_pods_and_kubelets(machine: Machine) -> None:
    b = machine.pod_ip("b")
    host = machine.node_ip("node-0").rpartition(".")[0]
    assert get(f"http://{b}:{PORT}/")[1].startswith(f"b {host}")
    assert get(f"http://{machine.node_ip('node-1')}:{HOST_PORT}/")[1].startswith("b ")
    assert get(f"https://{machine.node_ip('node-1')}:10250/pods")[0] == 401
    url = machine.sampan.read_running_file()["insecure_url"]
    assert get(f"{url}/api/v1/namespaces/default/pods/b:{PORT}/proxy/")[1].startswith("b ")
    for target in ("node-1", "node-1:10250", "https:node-1:10250", "http:node-1:10250"):
        assert get(f"{url}/api/v1/nodes/{target}/proxy/healthz") == (200, "ok")
    assert "nodeEligible" in get(f"{url}/api/v1/nodes/http:node-1:10256/proxy/healthz")[1]
    assert get(f"{url}/api/v1/nodes/node-1:1/proxy/healthz")[0] == 503


def test_nodes_are_added_stopped_started_and_removed(machine: Machine) -> None:
    assert "node-3 is ready" in machine.sampan("node", "add")
    machine.create("c", "node-3")
    c, a = machine.pod_ip("c"), machine.pod_ip("a")
    assert machine.curl("a", f"{c}:{PORT}") == f"c {a}"
    before = machine.node_ip("node-3")
    machine.sampan("node", "stop", "node-3")
    wait_for(lambda: "" if is_network(machine.root / "node-3" / "netns") else "gone")
    machine.sampan("node", "start", "node-3")
    assert machine.node_ip("node-3") == before
    assert is_network(machine.root / "node-3" / "netns")
    machine.sampan("node", "remove", "node-3")
    wait_for(lambda: "" if (machine.root / "node-3").exists() else "gone")
    state = network_state(machine.root)
    assert len(state["namespaces"]) == 3
    assert len(state["links"]) == 4


def test_down_cleans_up_after_a_killed_cluster(machine: Machine) -> None:
    before, a = network_state(machine.root), machine.pod_ip("a")
    assert all(before.values())
    machine.kill()
    assert get(f"http://{a}:{PORT}/")[1].startswith("a ")  # pods outlive the process of the cluster
    machine.sampan("down")
    assert not any(network_state(machine.root).values())


def test_killed_cluster_restarts_with_node_network_host(machine: Machine) -> None:
    machine.pod_ip("a")
    machine.kill()
    machine.sampan(*UP, "--node-network", "host", "--secure-port", str(free_port()))
    assert machine.node_ip("node-0") == find_machine_addresses()[0]
    assert not any(network_state(machine.root).values())

    def read_page() -> str:
        """Return an empty text while the status is still that of the pod before the restart."""
        return response(f"http://{machine.pod_ip('a')}:{PORT}/")

    assert wait_for(read_page).startswith("a ")
    machine.sampan("down")
    assert not any(network_state(machine.root).values())
