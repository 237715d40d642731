"""Services of a cluster with two nodes, with kube-proxy and real packets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sampan.host.linux.network_namespace import run_in_network
from sampan.network.nft import run_nft
from tests.cli.command import Sampan, get
from tests.e2e.machine import NEEDS_NODE_NETWORKS, PORT, SERVER, Machine, wait_for
from tests.ports import free_node_port, free_port

pytestmark = NEEDS_NODE_NETWORKS

NODE_PORT = free_node_port()


class ServiceMachine(Machine):
    """A cluster with a deployment `web` behind a service, and a pod `client`."""

    def apply(self, *objects: dict[str, Any]) -> None:
        manifest = self.sampan.home / "objects.json"
        manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        self.sampan("kubectl", "apply", "-f", str(manifest))

    def deploy(self, replicas: int = 2) -> None:
        """Create the deployment and its service, or scale them, and wait for the pods."""
        container = {
            "name": "server",
            "image": "sampan.local/host",
            "command": ["python3", "-c", SERVER.replace("NAME", "{socket.gethostname()}").replace("PORT", str(PORT))],
            "readinessProbe": {"httpGet": {"port": PORT}, "periodSeconds": 1},
        }
        selector = {"matchLabels": {"app": "web"}}
        spread = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }
        pod = {
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "topologySpreadConstraints": [spread],
        }
        template = {"metadata": {"labels": {"app": "web"}}, "spec": pod}
        port = {"port": 80, "targetPort": PORT, "nodePort": NODE_PORT}
        self.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web"},
                "spec": {"replicas": replicas, "selector": selector, "template": template},
            },
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web"},
                "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [port]},
            },
        )
        wait_for(lambda: "ready" if self.api("deployment/web")["status"].get("readyReplicas", 0) == replicas else "")

    @property
    def cluster_ip(self) -> str:
        return str(self.api("service/web")["spec"]["clusterIP"])

    def backends(self) -> set[str]:
        """Return the names of the pods that respond at the cluster IP in a few connections."""
        command = f"for i in $(seq 12); do curl -s -m 5 http://{self.cluster_ip}/ && echo; done; true"
        lines = self.sampan("kubectl", "exec", "client", "--", "sh", "-c", command).splitlines()
        return {line.split()[0] for line in lines}


@pytest.fixture(scope="module")
def started_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceMachine]:
    machine = ServiceMachine(Sampan(tmp_path_factory.mktemp("services")))
    try:
        start(machine)
        machine.deploy()
        machine.create("client", "node-0")
        yield machine
    finally:
        machine.sampan("down")


@pytest.fixture
def machine(started_machine: ServiceMachine) -> ServiceMachine:
    """A running cluster; it is started again if another test has killed it."""
    if not started_machine.is_running():
        start(started_machine)
    return started_machine


def start(machine: ServiceMachine) -> None:
    machine.sampan("up", "--detach", "--nodes", "2", "--runtime", "oci", "--secure-port", str(free_port()))


def test_pods_reach_a_service_on_all_nodes(machine: ServiceMachine) -> None:
    client = machine.pod_ip("client")
    wait_for(lambda: "both" if len(machine.backends()) == 2 else "")
    assert machine.curl("client", machine.cluster_ip).split()[1] == client  # the address of the client is kept


def test_node_ports_answer_on_every_node(machine: ServiceMachine) -> None:
    for node in ("node-0", "node-1"):
        assert get(f"http://{machine.node_ip(node)}:{NODE_PORT}/")[0] == 200


def test_a_pod_reaches_the_api_server_by_its_service(machine: ServiceMachine) -> None:
    directory = "/var/run/secrets/kubernetes.io/serviceaccount"
    request = (
        f'curl -sS -m 20 --cacert {directory}/ca.crt -H "Authorization: Bearer $(cat {directory}/token)" '
        "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/api"
    )
    response = json.loads(machine.sampan("kubectl", "exec", "client", "--", "sh", "-c", request))
    assert response["kind"] == "APIVersions"


def test_a_service_follows_its_endpoints(machine: ServiceMachine) -> None:
    before = machine.backends()
    machine.sampan("kubectl", "delete", "pod", "--selector", "app=web", "--wait=false")
    wait_for(lambda: "new" if (after := machine.backends()) and not after & before else "")
    machine.deploy(0)
    assert wait_for(lambda: "refused" if is_refused(machine) else "") == "refused"
    machine.deploy(2)
    wait_for(lambda: "both" if len(machine.backends()) == 2 else "")


def is_refused(machine: ServiceMachine) -> bool:
    command = f"curl -s -m 20 http://{machine.cluster_ip}/ >/dev/null; echo code $?"
    return "code 7" in machine.sampan("kubectl", "exec", "client", "--", "sh", "-c", command)


def test_nftables_rules_survive_a_killed_process_and_are_restored_if_deleted(machine: ServiceMachine) -> None:
    namespace = machine.root / "node-0" / "netns"
    listing = ("list", "map", "ip", "kube-proxy", "service-ips")
    address = machine.cluster_ip
    run_in_network(namespace, lambda: run_nft("delete", "table", "ip", "kube-proxy"))

    def find_restored_rules() -> str:
        tables = run_in_network(namespace, lambda: run_nft("list", "tables"))
        is_there = b"ip kube-proxy" in tables and address.encode() in run_in_network(
            namespace, lambda: run_nft(*listing)
        )
        return "restored" if is_there else ""

    assert wait_for(find_restored_rules) == "restored"
    assert len(machine.backends()) == 2
    machine.kill()
    assert address.encode() in run_in_network(namespace, lambda: run_nft(*listing))
    assert get(f"http://{node_address(machine)}:{NODE_PORT}/")[0] == 200  # services outlive the process of the cluster


def node_address(machine: ServiceMachine) -> str:
    return (machine.root / "node-0" / "node-address").read_text().split()[0].partition("/")[0]
