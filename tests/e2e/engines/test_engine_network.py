"""The network of pods that containerd and Docker run, with real packets: services, names, node ports, policies, probes
and bandwidth limits.

Engine, cluster and test are in a network namespace of their own, whose iptables chain `FORWARD` drops by default, as
Docker leaves it on a machine; Docker has its own bridge and rules beside those of Sampan. A second namespace is the
world outside of the node.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sampan.host.linux.network_namespace import enter_network, run_in_network
from sampan.network.nft import run_nft
from tests.e2e.engines.engine_cluster import HOST, EngineCluster, engine_cluster, fetch, pod
from tests.eventually import wait_until
from tests.network.pods.lab import NODE_IP, Lab, needs_network

pytestmark = needs_network

_TIMEOUT_S = 60.0
_PORT, _NODE_PORT = 8080, 30985
_SERVER = f"""
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def handle(self):
        print("connection", flush=True)
        super().handle()
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.client_address[0].encode())
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("", {_PORT}), Handler).serve_forever()
"""
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class EngineNode:
    """A node whose pods an engine runs, with a server `web` behind a service and a pod `client`."""

    def __init__(self, engine: EngineCluster, lab: Lab) -> None:
        self.engine_cluster, self.lab, self.kubectl = engine, lab, engine.kubectl

    def apply(self, *objects: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def run_pods(self, *pods: dict[str, Any]) -> None:
        self.apply(*pods)
        names = [f"pod/{pod['metadata']['name']}" for pod in pods]
        self.kubectl("wait", "--for=condition=Ready", *names, "--timeout=60s")

    def pod_ip(self, name: str) -> str:
        return self.kubectl.jsonpath("get", "pod", name, "{.status.podIP}")

    def shell(self, name: str, command: str) -> str:
        return self.kubectl("exec", name, "--", "sh", "-c", command)

    def curl(self, name: str, address: str) -> str:
        """Return the address of the client as the server sees it; empty if the server cannot be reached."""
        return self.shell(name, f"curl -s -m 3 http://{address}/ || true").strip()


def _server(name: str, **spec: Any) -> dict[str, Any]:
    container = {"readinessProbe": {"httpGet": {"port": _PORT}, "periodSeconds": 1}}
    return pod(name, HOST, ["python3", "-c", _SERVER], container=container, **spec)


def _client(name: str, **spec: Any) -> dict[str, Any]:
    return pod(name, HOST, ["sleep", "1000000"], **spec)


def _policy(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name},
        "spec": {"podSelector": {"matchLabels": {"app": "web"}}, **spec},
    }


def _app(name: str) -> dict[str, Any]:
    return {"podSelector": {"matchLabels": {"app": name}}}


@contextmanager
def _own_network(directory: Path) -> Iterator[Lab]:
    """Move this thread, and with it all programs that it starts, into the network namespace of a node."""
    lab = Lab(directory)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        enter_network(lab.node)
        yield lab
    finally:
        enter_network(Path(f"/proc/self/fd/{before}"))
        os.close(before)
        lab.close()


def _network_state() -> list[str]:
    """Return all links, tables and iptables rules of the current network namespace."""
    links = subprocess.run(["ip", "-br", "link"], check=True, capture_output=True, text=True).stdout
    rules = subprocess.run(["iptables-save"], check=True, capture_output=True, text=True).stdout
    tables = run_nft("list", "tables").decode()
    lines = [*(line.split()[0] for line in links.splitlines()), *tables.splitlines(), *rules.splitlines()]
    return sorted(line for line in lines if not line.startswith(("#", ":")))


@pytest.fixture(scope="module", params=["cri", "docker"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineNode]:
    home, namespaces = tmp_path_factory.mktemp(request.param), tmp_path_factory.mktemp("namespaces")
    with _own_network(namespaces) as lab, engine_cluster(request.param, home, network=lab.node) as engine:
        subprocess.run(["iptables", "-P", "FORWARD", "DROP"], check=True)
        before = _network_state()
        engine.start()
        node = EngineNode(engine, lab)
        port = {"port": 80, "targetPort": _PORT, "nodePort": _NODE_PORT}
        service = {"type": "NodePort", "selector": {"app": "web"}, "ports": [port]}
        node.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": service})
        node.run_pods(_server("web"), _client("client"))
        yield node
        engine.sampan("down")
        assert engine.leftovers() == []
        assert _network_state() == before


def _wait_for(value: Callable[[], str], expected: str) -> None:
    wait_until(lambda: value() == expected, timeout_s=_TIMEOUT_S, poll_s=0.3, describe=value)


def test_pods_reach_a_service_by_address_and_by_name(node: EngineNode) -> None:
    address, client = node.kubectl.jsonpath("get", "service", "web", "{.spec.clusterIP}"), node.pod_ip("client")
    _wait_for(lambda: node.curl("client", address), client)
    for name in ("web", "web.default", "web.default.svc.cluster.local"):
        assert node.curl("client", name) == client
    assert node.curl("web", "web.default") != ""  # a pod reaches itself through its service


def test_a_pod_reaches_the_api_server_by_name(node: EngineNode) -> None:
    request = f'curl -sS -m 20 --cacert {_ACCOUNT}/ca.crt -H "Authorization: Bearer $(cat {_ACCOUNT}/token)"'
    response = node.shell("client", f"{request} https://kubernetes.default.svc/api")
    assert json.loads(response)["kind"] == "APIVersions"


def test_node_ports_are_reachable_from_outside_and_from_the_node(node: EngineNode) -> None:
    assert run_in_network(node.lab.outside, lambda: fetch(f"{NODE_IP}:{_NODE_PORT}"))
    assert fetch(f"{NODE_IP}:{_NODE_PORT}")
    assert fetch(f"127.0.0.1:{_NODE_PORT}")
    assert node.curl("client", f"{NODE_IP}:{_NODE_PORT}")


def test_ingress_network_policy_limits_the_clients_of_a_pod(node: EngineNode) -> None:
    address = f"{node.pod_ip('web')}:{_PORT}"
    node.run_pods(_client("friend"))
    friend, client = node.pod_ip("friend"), node.pod_ip("client")
    try:
        node.apply(_policy("ingress", ingress=[{"from": [_app("friend")], "ports": [{"port": _PORT}]}]))
        _wait_for(lambda: node.curl("client", address), "")
        assert node.curl("client", "web") == ""
        assert node.curl("friend", address) == friend
        assert node.curl("friend", "web") == friend
        assert fetch(address)  # the kubelet's probes come from the node
    finally:
        node.kubectl("delete", "networkpolicy", "ingress")
    _wait_for(lambda: node.curl("client", address), client)


def test_egress_network_policy_applies_to_the_first_packet_of_a_pod(node: EngineNode) -> None:
    """The container connects as soon as it starts."""
    policy = _policy("no-egress", policyTypes=["Egress"])
    policy["spec"]["podSelector"] = {"matchLabels": {"app": "eager"}}
    node.apply(policy)
    connect = f"curl -s -m 3 http://{node.pod_ip('web')}:{_PORT}/ && echo escaped; echo done; exec sleep 1000000"
    node.run_pods(pod("eager", HOST, ["sh", "-c", connect]))
    try:
        _wait_for(lambda: node.kubectl("logs", "eager"), "done\n")
    finally:
        node.kubectl("delete", "networkpolicy", "no-egress")


def test_egress_network_policy_limits_the_destinations_of_a_pod(node: EngineNode) -> None:
    address = f"{node.pod_ip('web')}:{_PORT}"
    policy = _policy("egress", policyTypes=["Egress"], egress=[{"ports": [{"port": 53, "protocol": "UDP"}]}])
    policy["spec"]["podSelector"] = {"matchLabels": {"app": "captive"}}
    node.apply(policy)
    try:
        node.run_pods(_client("captive"))
        assert node.curl("captive", address) == ""
        assert node.curl("client", address) == node.pod_ip("client")
    finally:
        node.kubectl("delete", "networkpolicy", "egress")
    _wait_for(lambda: node.curl("captive", address), node.pod_ip("captive"))


def test_resolv_conf_follows_the_dns_policy_of_the_pod(node: EngineNode) -> None:
    own = {"nameservers": ["192.0.2.53"], "searches": ["example.org"], "options": [{"name": "ndots", "value": "2"}]}
    node.run_pods(
        _client("dns-first", dnsConfig=own),
        _client("dns-none", dnsPolicy="None", dnsConfig=own),
        _client("dns-default", dnsPolicy="Default"),
        _client("dns-host", dnsPolicy="ClusterFirstWithHostNet", hostNetwork=True),
    )
    server = node.kubectl.jsonpath("get", "service", "-n", "kube-system", "kube-dns", "{.spec.clusterIP}")
    domains = "default.svc.cluster.local svc.cluster.local cluster.local"
    first = _resolver(node, "dns-first")
    assert first["nameserver"] == [server, "192.0.2.53"]
    assert first["search"][0].startswith(domains)
    assert first["search"][0].endswith("example.org")
    assert first["options"] == ["ndots:2"]
    assert _resolver(node, "dns-none") == {
        "nameserver": ["192.0.2.53"],
        "search": ["example.org"],
        "options": ["ndots:2"],
    }
    assert domains not in " ".join(_resolver(node, "dns-default").get("search", ()))
    host = _resolver(node, "dns-host")
    assert host["nameserver"] == [server]
    assert host["search"][0].startswith(domains)
    assert host["options"] == ["ndots:5"]


def _resolver(node: EngineNode, name: str) -> dict[str, list[str]]:
    resolver: dict[str, list[str]] = {}
    for line in node.shell(name, "cat /etc/resolv.conf").splitlines():
        key, _, value = line.partition(" ")
        resolver.setdefault(key, []).append(value)
    return resolver


def test_host_aliases_hostname_and_subdomain_resolve(node: EngineNode) -> None:
    aliases = [{"ip": "192.0.2.77", "hostnames": ["alias.example", "other.example"]}]
    named = {"hostname": "first", "subdomain": "group"}
    headless = {"clusterIP": "None", "selector": {"app": "named"}, "ports": [{"port": _PORT}]}
    node.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "group"}, "spec": headless})
    node.run_pods(_client("named", hostAliases=aliases, **named))
    assert node.shell("named", "getent ahostsv4 alias.example").split()[0] == "192.0.2.77"
    assert node.shell("named", "hostname; hostname -f").split() == ["first", "first.group.default.svc.cluster.local"]
    own = "getent ahostsv4 first.group.default.svc.cluster.local | head -n 1 | cut -d ' ' -f 1"
    _wait_for(lambda: node.shell("client", own).strip(), node.pod_ip("named"))


def test_a_failed_liveness_probe_restarts_a_container(node: EngineNode) -> None:
    """A container whose probes succeed is not restarted: the connection of the startup probe and at least three of the
    liveness probe are in its log."""
    probe = {"periodSeconds": 1, "failureThreshold": 1, "initialDelaySeconds": 1}
    alive, dead = ("http-alive", "tcp-alive"), ("http-dead", "exec-dead")
    node.apply(
        _probed_pod("http-alive", {"httpGet": {"port": _PORT}, **probe}),
        _probed_pod("tcp-alive", {"tcpSocket": {"port": _PORT}, **probe}),
        _probed_pod("http-dead", {"httpGet": {"port": _PORT + 1}, **probe}),
        _probed_pod("exec-dead", {"exec": {"command": ["false"]}, **probe}),
    )
    node.kubectl("wait", "--for=condition=Ready", *(f"pod/{name}" for name in alive), "--timeout=60s")
    for name in alive:
        wait_until(lambda name=name: _connections(node, name) >= 4, poll_s=0.5)  # type: ignore[misc]
    wait_until(lambda: all(_restarts(node, *dead)), poll_s=0.5)
    assert _restarts(node, *alive) == [0, 0]
    node.kubectl("delete", "pod", *alive, *dead, "--wait=false")


def _probed_pod(name: str, liveness: dict[str, Any]) -> dict[str, Any]:
    startup = {"tcpSocket": {"port": _PORT}, "periodSeconds": 1, "failureThreshold": 60}
    container = {"livenessProbe": liveness, "startupProbe": startup}
    return pod(name, HOST, ["python3", "-c", _SERVER], container=container)


def _restarts(node: EngineNode, *names: str) -> list[int]:
    pods = node.kubectl.json("get", "pods", *names)["items"]
    return [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods]


def _connections(node: EngineNode, name: str) -> int:
    return node.kubectl("logs", name).count("connection\n")


def test_bandwidth_annotations_limit_a_pod(node: EngineNode) -> None:
    slow = _server("slow")
    slow["metadata"]["annotations"] = {
        "kubernetes.io/ingress-bandwidth": "4M",
        "kubernetes.io/egress-bandwidth": "4M",
    }
    node.run_pods(slow)
    queues = json.loads(subprocess.run(["tc", "-j", "qdisc", "show"], check=True, capture_output=True).stdout)
    assert [queue["options"]["rate"] for queue in queues if queue["kind"] == "tbf"] == [500_000, 500_000]
    if node.engine_cluster.runtime == "cri":
        return  # containerd lets the bandwidth plugin pass bursts of 512 MiB
    upload = "head -c 1000000 /dev/zero | curl -s -m 60 -o /dev/null -w '%{time_total}' --data-binary @- http://"
    assert float(node.shell("client", f"{upload}{node.pod_ip('slow')}:{_PORT}/")) > 1
    assert float(node.shell("slow", f"{upload}{node.pod_ip('web')}:{_PORT}/")) > 1
