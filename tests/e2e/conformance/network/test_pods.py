"""Conformance tests of sig-network for pods on two real nodes. The first paragraph of a docstring is the official test
name."""

from collections.abc import Iterator
from typing import Any

import pytest

from sampan.api.types.core_v1 import Node
from sampan.testing import Cluster
from tests.e2e.conformance.node.pods import container, create_pod, is_ready, wait_until_ready
from tests.e2e.conformance.storage.real_node import RealNode, real_cluster, run_scenario
from tests.ports import free_port

NODES = ("node-0", "node-1")
NAMES_ITSELF = """
import http.server, os, socket, sys, threading
name, tcp, udp = os.uname().nodename, int(sys.argv[1]), int(sys.argv[2])
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(name.encode())
    do_POST = do_GET
    def log_message(self, *words):
        pass
def answer(server):
    while True:
        _, sender = server.recvfrom(100)
        server.sendto(name.encode(), sender)
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", udp))
threading.Thread(target=answer, args=[server], daemon=True).start()
http.server.ThreadingHTTPServer(("", tcp), Answers).serve_forever()
"""
"""A server that responds with its hostname over HTTP and UDP."""
ASKS = """
import socket, sys, urllib.request
def http(place):
    return urllib.request.urlopen("http://" + place + "/hostname", timeout=5).read().decode()
def udp(place):
    host, _, port = place.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(2)
        for _ in range(5):
            client.sendto(b"hostname", (host, int(port)))
            try:
                return client.recv(100).decode()
            except TimeoutError:
                pass
ways = {"http": http, "udp": udp}
said = [ways[way](place) for way, place in (word.split("=") for word in sys.argv[1:])]
open("/dev/termination-log", "w").write(" ".join(map(str, said)))
"""
"""A client that queries servers one after the other, over HTTP or UDP, and writes their responses."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with real_cluster(nodes=len(NODES)) as cluster:
        yield cluster


def server(tcp: int = 8080, udp: int = 8081, **more: Any) -> dict[str, Any]:
    probe = {"tcpSocket": {"port": tcp}, "periodSeconds": 1}
    return container(command=["python3", "-c", NAMES_ITSELF, str(tcp), str(udp)], readinessProbe=probe, **more)


async def responses_to_pod(node: RealNode, *targets: str, **spec: Any) -> list[str]:
    """Return the responses that a pod gets from these servers."""
    client = container(command=["python3", "-c", ASKS, *targets], terminationMessagePolicy="FallbackToLogsOnError")
    await create_pod(node, client, name="client", restartPolicy="Never", **spec)
    return node.output_of(await node.wait_until_succeeded("client")).split()


@pytest.mark.parametrize(
    ("way", "port", "is_from_the_node"),
    [
        pytest.param(
            *("http", 8080, False),
            id="[sig-network] Networking Granular Checks: Pods should function for intra-pod communication: http",
        ),
        pytest.param(
            *("udp", 8081, False),
            id="[sig-network] Networking Granular Checks: Pods should function for intra-pod communication: udp",
        ),
        pytest.param(
            *("http", 8080, True),
            id="[sig-network] Networking Granular Checks: Pods should function for node-pod communication: http",
        ),
        pytest.param(
            *("udp", 8081, True),
            id="[sig-network] Networking Granular Checks: Pods should function for node-pod communication: udp",
        ),
    ],
)
def test_pods_reach_each_other(cluster: Cluster, way: str, port: int, is_from_the_node: bool) -> None:
    """A client reaches a server pod on every node."""

    async def scenario(node: RealNode) -> None:
        names = [f"netserver-{number}" for number in range(len(NODES))]
        for name, where in zip(names, NODES, strict=True):
            await create_pod(node, server(), name=name, nodeName=where)
        addresses = [(await node.wait_for(name, is_ready)).status.podIP for name in names]
        assert len(set(addresses)) == len(NODES)
        targets = [f"{way}={address}:{port}" for address in addresses]
        assert await responses_to_pod(node, *targets, hostNetwork=is_from_the_node) == names

    namespace = f"reach-{way}-{is_from_the_node}".lower()
    cluster.run(run_scenario(cluster, namespace, scenario), timeout_s=120)


def test_same_host_port_with_different_host_ip_or_protocol(cluster: Cluster) -> None:
    """[sig-network] HostPort validates that there is no conflict between pods with same hostPort but different hostIP
    and protocol [LinuxOnly] [Conformance]"""

    async def scenario(node: RealNode) -> None:
        machine = await node.client.for_kind(Node).get(NODES[0])
        address = next(address.address for address in machine.status.addresses if address.type == "InternalIP")
        port = free_port()
        expected = {"pod1": ("127.0.0.1", "TCP", 8080), "pod2": (address, "TCP", 8080), "pod3": (address, "UDP", 8081)}
        for name, (host, protocol, inner) in expected.items():
            ports = [{"containerPort": inner, "hostPort": port, "hostIP": host, "protocol": protocol}]
            await create_pod(node, server(ports=ports), name=name)
        for name in expected:
            await wait_until_ready(node, name)
        targets = [f"{'udp' if protocol == 'UDP' else 'http'}={host}:{port}" for host, protocol, _ in expected.values()]
        assert await responses_to_pod(node, *targets, hostNetwork=True) == list(expected)

    cluster.run(run_scenario(cluster, "host-port", scenario), timeout_s=120)


def test_dns_config_nameservers(cluster: Cluster) -> None:
    """[sig-network] DNS should support configurable pod DNS nameservers [Conformance]"""

    async def scenario(node: RealNode) -> None:
        config = {"nameservers": ["1.1.1.1"], "searches": ["resolv.conf.local"]}
        output = await node.output("cat /etc/resolv.conf", dnsPolicy="None", dnsConfig=config)
        assert output.splitlines() == ["search resolv.conf.local", "nameserver 1.1.1.1"]

    cluster.run(run_scenario(cluster, "name-servers", scenario), timeout_s=60)


def test_pod_hostname_in_etc_hosts(cluster: Cluster) -> None:
    """[sig-network] DNS should provide /etc/hosts entries for the cluster [Conformance]"""

    async def scenario(node: RealNode) -> None:
        whole = f"dns-querier-1.dns-test-service.{node.namespace}.svc.cluster.local"
        script = f"getent -s files hosts {whole}; getent -s files hosts dns-querier-1; hostname -f"
        await node.start(script, hostname="dns-querier-1", subdomain="dns-test-service")
        pod = await node.wait_until_succeeded("p")
        by_name, by_short_name, output = node.output_of(pod).splitlines()
        assert by_name.split() == by_short_name.split() == [pod.status.podIP, whole, "dns-querier-1"]
        assert output == whole

    cluster.run(run_scenario(cluster, "hosts", scenario), timeout_s=60)
