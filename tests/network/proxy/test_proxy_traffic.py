"""Real packets to services from pods on the bridge of a node, from the node itself, and from an external host."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sampan.api.types.core_v1 import Service
from sampan.host.clock import VirtualClock
from sampan.host.linux.network_namespace import run_in_network
from sampan.network.nft import run_nft
from sampan.network.pods import BridgeConfig, BridgeNetwork, sysctls
from sampan.network.proxy.nftables.compiler import ServiceCompiler
from sampan.network.proxy.nftables.families import FAMILIES_BY_NAME
from sampan.network.proxy.nftables.proxy_table import ProxyTable, RulesetGeneration
from sampan.network.proxy.proxy_config import ProxyConfig, node_facts
from sampan.network.proxy.services import FAMILIES
from sampan.network.proxy.tracker import ServiceTracker
from tests.eventually import wait_until
from tests.network.pods.lab import (
    NODE_IP,
    NODE_IP6,
    OUTSIDE_IP,
    OUTSIDE_IP6,
    SCTP,
    Lab,
    listening,
    needs_network,
    needs_sctp,
    observe_source,
)
from tests.network.proxy.objects import NODE, OTHER_NODE, endpoint, endpoint_slice, port, service

pytestmark = needs_network

CLUSTER_CIDRS = ["10.77.0.0/16", "fd77::/48"]
SERVICE_CIDRS = ["10.96.0.0/24", "fd96::/112"]
IP, IP6 = "10.96.0.10", "fd96::10"
EXTERNAL_IP, BALANCER_IP, BALANCER_IP6 = "203.0.113.5", "203.0.113.6", "2001:db8:5::6"
GATEWAY, GATEWAY6 = "10.77.0.1", "fd77::1"
SHORT_S = 0.7
"""How long a test waits for packets that must not arrive."""


class ServiceLab:
    """A node with two pods, `a` and `b`, and tables for services."""

    def __init__(self, lab: Lab, pods: dict[str, Path], ips: dict[str, Sequence[str]], config: ProxyConfig) -> None:
        self.lab, self.pods, self.ips = lab, pods, ips
        self.tracker = ServiceTracker(node_name=NODE)
        self.tables: list[ProxyTable] = []
        for family in FAMILIES:
            facts = node_facts(config, family, node_ips=[NODE_IP, NODE_IP6], service_cidrs=SERVICE_CIDRS)
            compiler = ServiceCompiler(FAMILIES_BY_NAME[family], config, facts)
            table = ProxyTable(compiler=compiler, generation=RulesetGeneration(), monotonic=time.monotonic)
            table.rebuild(compiler, {})
            self.tables.append(table)

    def put(self, item: Service, *endpoints: str, number: int = 80, protocol: str = "TCP", port_name: str = "") -> None:
        """Create or change a service with these endpoints: names of pods, or addresses on another node."""
        name = item.metadata.name
        self.tracker.on_service(None, item)
        resolved = [(ip, NODE) for e in endpoints for ip in self.ips.get(e, ())]
        resolved += [(e, OTHER_NODE) for e in endpoints if e not in self.ips]
        for family in FAMILIES:
            endpoints_of_family = [
                endpoint(ip, node=node) for ip, node in resolved if (":" in ip) == (family == "IPv6")
            ]
            slice = endpoint_slice(
                name,
                *endpoints_of_family,
                name=f"{name}-{family}",
                number=number,
                protocol=protocol,
                port_name=port_name,
            )
            slice.addressType = family
            self.tracker.on_slice(None, slice)
        self.sync()

    def sync(self) -> None:
        changes = {change.service: change.current for change in self.tracker.take_changes()}
        for table in self.tables:
            assert table.apply(changes) == {}

    def close(self) -> None:
        for table in self.tables:
            table.close()


def run_lab(
    lab: Lab, test: Callable[[ServiceLab], None], config: ProxyConfig | None = None, *, pods: Sequence[str] = ("a", "b")
) -> None:
    namespaces = {name: lab.add_namespace(name) for name in pods}
    run_in_network(lab.outside, _route_to_node)
    run_in_network(lab.node, _stop_redirects)

    async def main() -> None:
        bridge = BridgeConfig(bridge="tst0", cluster_cidrs=CLUSTER_CIDRS)
        network = BridgeNetwork(directory=lab.node.parent / "records", config=bridge, clock=VirtualClock())
        async with network:
            network.use_pod_cidrs(["10.77.0.0/24", "fd77::/64"])
            ips = {name: await network.attach(name, namespace, []) for name, namespace in namespaces.items()}
            services = ServiceLab(lab, namespaces, ips, config or ProxyConfig(cluster_cidrs=CLUSTER_CIDRS))
            try:
                test(services)
            finally:
                services.close()
            await network.remove_all()

    lab.run(main)


def _route_to_node() -> None:
    """Route the addresses of load balancers, and cluster IPs, from outside to the node."""
    from pyroute2 import IPRoute

    with IPRoute() as netlink:
        for cidr in ("203.0.113.0/24", "10.96.0.0/24"):
            netlink.route("add", dst=cidr, gateway=NODE_IP)
        for cidr in ("2001:db8:5::/64", "fd96::/112"):
            netlink.route("add", dst=cidr, gateway=NODE_IP6, family=socket.AF_INET6)


def _stop_redirects() -> None:
    """Disable redirects, which would use up the limit of ICMP messages to a client: no rejection could follow."""
    for link in ("all", "up0"):
        Path(f"/proc/sys/net/ipv4/conf/{link}/send_redirects").write_text("0")


def connect(namespace: Path, to: tuple[str, int], wait_s: float = 10.0) -> socket.socket:
    family = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
    client = run_in_network(namespace, lambda: socket.socket(family, socket.SOCK_STREAM))
    client.settimeout(wait_s)
    try:
        client.connect(to)
    except BaseException:
        client.close()
        raise
    return client


def assert_refused(namespace: Path, to: tuple[str, int]) -> None:
    with pytest.raises(ConnectionRefusedError):
        connect(namespace, to)


def assert_dropped(namespace: Path, to: tuple[str, int]) -> None:
    with pytest.raises(TimeoutError):
        connect(namespace, to, SHORT_S)


DUAL: dict[str, Any] = {"ip": [IP, IP6]}


def test_cluster_ips(lab: Lab) -> None:
    """The clients are another pod, the endpoint itself, the node and an external host, in both IP families."""

    def test(services: ServiceLab) -> None:
        a, b = services.pods["a"], services.pods["b"]
        services.put(service("web", **DUAL), "b")
        (a4, a6) = services.ips["a"]
        with listening(b, 80) as server:
            assert observe_source(server, a, (IP, 80)) == a4
            assert observe_source(server, a, (IP6, 80)) == a6
            assert observe_source(server, b, (IP, 80)) == GATEWAY  # hairpin
            assert observe_source(server, b, (IP6, 80)) == GATEWAY6
            assert observe_source(server, lab.node, (IP, 80)) == GATEWAY
            assert observe_source(server, lab.node, (IP6, 80)) == GATEWAY6
            assert observe_source(server, lab.outside, (IP, 80)) == GATEWAY
            assert observe_source(server, lab.outside, (IP6, 80)) == GATEWAY6

    run_lab(lab, test)


def test_pods_reach_services_without_br_netfilter(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without br_netfilter, a response between two pods of a bridge could bypass the reverse translation."""

    def hide() -> bool:
        for name in ("iptables", "ip6tables"):
            path = Path(f"/proc/sys/net/bridge/bridge-nf-call-{name}")
            if path.exists():
                path.write_text("0")
        return False

    def test(services: ServiceLab) -> None:
        services.put(service("web", **DUAL), "b")
        with listening(services.pods["b"], 80) as server:
            assert observe_source(server, services.pods["a"], (IP, 80)) == services.ips["a"][0]
            assert observe_source(server, services.pods["a"], (IP6, 80)) == services.ips["a"][1]
            assert observe_source(server, services.pods["b"], (IP, 80)) == GATEWAY

    monkeypatch.setattr(sysctls, "enable_bridge_netfilter", hide)
    run_lab(lab, test)


@pytest.mark.parametrize("protocol", ["UDP", pytest.param("SCTP", marks=needs_sctp)])
def test_udp_and_sctp_services(lab: Lab, protocol: str) -> None:
    kind = socket.SOCK_DGRAM if protocol == "UDP" else socket.SOCK_STREAM
    number = 0 if protocol == "UDP" else SCTP

    def test(services: ServiceLab) -> None:
        item = service("dns", port(53, protocol=protocol, node_port=30053), type="NodePort", **DUAL)
        services.put(item, "b", number=5353, protocol=protocol)
        with listening(services.pods["b"], 5353, kind, number) as server:
            assert observe_source(server, services.pods["a"], (IP, 53), number) == services.ips["a"][0]
            assert observe_source(server, services.pods["a"], (IP6, 53), number) == services.ips["a"][1]
            assert observe_source(server, services.pods["b"], (IP, 53), number) == GATEWAY
            assert observe_source(server, lab.outside, (NODE_IP, 30053), number) == GATEWAY

    run_lab(lab, test)


def test_node_ports(lab: Lab) -> None:
    def test(services: ServiceLab) -> None:
        item = service("web", port(80, node_port=30080), type="NodePort", **DUAL)
        services.put(item, "b", number=8080)
        with listening(services.pods["b"], 8080) as server:
            assert observe_source(server, lab.outside, (NODE_IP, 30080)) == GATEWAY
            assert observe_source(server, lab.outside, (NODE_IP6, 30080)) == GATEWAY6
            assert observe_source(server, lab.node, (NODE_IP, 30080)) == GATEWAY
            assert observe_source(server, services.pods["a"], (NODE_IP, 30080)) == GATEWAY
            assert_refused(lab.outside, (NODE_IP, 30081))
            assert_refused(services.pods["a"], (GATEWAY, 30080))  # only the addresses of the Node object by default

    run_lab(lab, test)


def test_node_ports_on_all_addresses(lab: Lab) -> None:
    def test(services: ServiceLab) -> None:
        item = service("web", port(80, node_port=30080), type="NodePort", **DUAL)
        services.put(item, "b", number=8080)
        with listening(services.pods["b"], 8080) as server:
            assert observe_source(server, lab.outside, (NODE_IP, 30080)) == GATEWAY
            assert observe_source(server, services.pods["a"], (GATEWAY, 30080)) == GATEWAY
            assert_refused(lab.node, ("127.0.0.1", 30080))

    run_lab(lab, test, ProxyConfig(cluster_cidrs=CLUSTER_CIDRS, node_port_addresses=()))


def test_external_and_load_balancer_addresses(lab: Lab) -> None:
    def test(services: ServiceLab) -> None:
        item = service(
            "web", type="LoadBalancer", externalIPs=[EXTERNAL_IP], ingress=[BALANCER_IP, BALANCER_IP6], **DUAL
        )
        services.put(item, "b")
        with listening(services.pods["b"], 80) as server:
            for address in (EXTERNAL_IP, BALANCER_IP):
                assert observe_source(server, lab.outside, (address, 80)) == GATEWAY
                assert observe_source(server, services.pods["a"], (address, 80)) == GATEWAY
                assert observe_source(server, lab.node, (address, 80)) == GATEWAY
            assert observe_source(server, lab.outside, (BALANCER_IP6, 80)) == GATEWAY6

    run_lab(lab, test)


def test_external_traffic_policy_local(lab: Lab) -> None:
    def test(services: ServiceLab) -> None:
        item = service(
            "web",
            port(80, node_port=30080),
            type="LoadBalancer",
            ingress=[BALANCER_IP],
            externalTrafficPolicy="Local",
            **DUAL,
        )
        services.put(item, "b")
        with listening(services.pods["b"], 80) as server:
            assert observe_source(server, lab.outside, (NODE_IP, 30080)) == OUTSIDE_IP  # the source is kept
            assert observe_source(server, lab.outside, (NODE_IP6, 30080)) == OUTSIDE_IP6
            assert observe_source(server, lab.outside, (BALANCER_IP, 80)) == OUTSIDE_IP
            assert observe_source(server, services.pods["a"], (BALANCER_IP, 80)) == services.ips["a"][0]
            assert observe_source(server, lab.node, (BALANCER_IP, 80)) == GATEWAY
        services.put(item, OUTSIDE_IP)  # the only endpoint is on another node
        with listening(lab.outside, 80) as server:
            assert_dropped(lab.outside, (NODE_IP, 30080))
            assert_dropped(lab.outside, (BALANCER_IP, 80))
            assert (
                observe_source(server, services.pods["a"], (BALANCER_IP, 80)) == NODE_IP
            )  # masqueraded, because the packet leaves the cluster
            assert observe_source(server, lab.node, (NODE_IP, 30080)) == NODE_IP
        services.put(item)
        assert_refused(lab.outside, (NODE_IP, 30080))
        assert_refused(lab.outside, (BALANCER_IP, 80))

    run_lab(lab, test)


def test_internal_traffic_policy_local(lab: Lab) -> None:
    def test(services: ServiceLab) -> None:
        item = service("web", internalTrafficPolicy="Local", **DUAL)
        services.put(item, "b", OUTSIDE_IP)
        with listening(services.pods["b"], 80) as server:
            for _ in range(5):
                assert observe_source(server, services.pods["a"], (IP, 80)) == services.ips["a"][0]
        services.put(item, OUTSIDE_IP)
        assert_dropped(services.pods["a"], (IP, 80))
        assert_dropped(lab.node, (IP, 80))

    run_lab(lab, test)


def test_service_without_endpoints_rejects_connections(lab: Lab) -> None:
    another_port, unallocated = (IP, 81), ("10.96.0.99", 80)
    refused = [(IP, 80), (IP6, 80), (EXTERNAL_IP, 80), (NODE_IP, 30080), (NODE_IP6, 30080), another_port]

    def test(services: ServiceLab) -> None:
        item = service("web", port(80, node_port=30080), type="NodePort", externalIPs=[EXTERNAL_IP], **DUAL)
        services.put(item)
        # A client on the node notices a rejection only when it sends the packet again, after a second.
        with ThreadPoolExecutor(1 + len(refused)) as executor:
            for namespace in (services.pods["a"], lab.node, lab.outside):
                attempts = [executor.submit(assert_refused, namespace, target) for target in refused]
                attempts.append(executor.submit(assert_dropped, namespace, unallocated))
                for attempt in attempts:
                    attempt.result()
        services.put(item, "b")
        with listening(services.pods["b"], 80) as server:
            assert observe_source(server, services.pods["a"], (IP, 80)) == services.ips["a"][0]

    run_lab(lab, test)


def test_load_balancer_source_ranges(lab: Lab) -> None:
    def load_balanced(*ranges: str) -> Service:
        return service(
            "web",
            port(80, node_port=30080),
            type="LoadBalancer",
            ingress=[BALANCER_IP, BALANCER_IP6],
            loadBalancerSourceRanges=list(ranges),
            **DUAL,
        )

    def test(services: ServiceLab) -> None:
        services.put(load_balanced("198.51.100.0/24", "2001:db8:9::/48", "10.77.0.0/16"), "b")
        with listening(services.pods["b"], 80) as server:
            assert_dropped(lab.outside, (BALANCER_IP, 80))
            assert_dropped(lab.outside, (BALANCER_IP6, 80))
            assert_dropped(lab.node, (BALANCER_IP, 80))
            assert observe_source(server, services.pods["a"], (BALANCER_IP, 80)) == GATEWAY
            assert observe_source(server, lab.outside, (NODE_IP, 30080)) == GATEWAY  # node ports are not restricted
            services.put(load_balanced(f"{OUTSIDE_IP}/32", "2001:db8::/64"), "b")
            assert observe_source(server, lab.outside, (BALANCER_IP, 80)) == GATEWAY
            assert observe_source(server, lab.outside, (BALANCER_IP6, 80)) == GATEWAY6
            assert_dropped(services.pods["a"], (BALANCER_IP, 80))

    run_lab(lab, test)


def find_accepting_server(servers: Sequence[socket.socket], namespace: Path, to: tuple[str, int]) -> int:
    """Connect, and return the index of the server that got the connection."""
    with ExitStack() as stack:
        stack.enter_context(connect(namespace, to))
        ready, _, _ = select.select(servers, [], [], 10)
        assert ready, "no server got the connection"
        stack.enter_context(ready[0].accept()[0])
        return servers.index(ready[0])


@contextmanager
def listening_pods(services: ServiceLab, *names: str) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        servers = [stack.enter_context(listening(services.pods[name], 80)) for name in names]
        for server in servers:
            server.setblocking(False)
        yield servers


def test_connections_are_balanced(lab: Lab) -> None:
    def test(services: ServiceLab) -> None:
        services.put(service("web", **DUAL), "a", "b", "c")
        with listening_pods(services, "a", "b", "c") as servers:
            counts = [0, 0, 0]
            for _ in range(60):
                counts[find_accepting_server(servers, lab.node, (IP, 80))] += 1
            assert all(count > 5 for count in counts), counts

    run_lab(lab, test, pods=("a", "b", "c"))


def test_session_affinity(lab: Lab) -> None:
    def test(services: ServiceLab) -> None:
        item = service("web", affinity_s=2, **DUAL)
        services.put(item, "a", "b", "c")
        with listening_pods(services, "a", "b", "c") as servers:
            first = find_accepting_server(servers, lab.node, (IP, 80))
            assert {find_accepting_server(servers, lab.node, (IP, 80)) for _ in range(20)} == {first}
            assert run_nft("list", "ruleset").count(b"expires") == 1
            wait_until(lambda: b"expires" not in run_nft("list", "ruleset"))
            second = find_accepting_server(servers, lab.node, (IP, 80))
            others = [name for index, name in enumerate("abc") if index != second]
            services.put(item, *others)  # the endpoint of the client is gone
            assert len({find_accepting_server(servers, lab.node, (IP, 80)) for _ in range(10)} - {second}) == 1

    run_lab(lab, test, pods=("a", "b", "c"))


def test_established_connection_survives_removal_of_its_endpoint(lab: Lab) -> None:
    """New connections reach the other endpoints immediately."""

    def test(services: ServiceLab) -> None:
        item = service("web", **DUAL)
        services.put(item, "a")
        with listening_pods(services, "a", "b") as servers, connect(lab.node, (IP, 80)) as client:
            assert select.select(servers[:1], [], [], 10)[0]
            with servers[0].accept()[0] as peer:
                services.put(item, "b")
                assert {find_accepting_server(servers, lab.node, (IP, 80)) for _ in range(10)} == {1}
                for text in (b"still", b"here"):
                    client.sendall(text)
                    assert peer.recv(10) == text
                    peer.sendall(text)
                    assert client.recv(10) == text

    run_lab(lab, test)


class Connections:
    """Connects again and again from the namespace of its thread, and stops at the first packet that is lost."""

    def __init__(self, server: socket.socket, to: tuple[str, int]) -> None:
        self.count, self.is_over = 0, threading.Event()
        self._server, self._to = server, to

    def connect(self) -> None:
        try:
            while not self.is_over.is_set():
                with socket.create_connection(self._to, 20) as client:
                    assert retransmissions(client) == 0, "the first packet of a connection was lost"
                    self._server.accept()[0].close()
                self.count += 1
        finally:
            self.is_over.set()

    def wait_for_more(self) -> None:
        before = self.count
        wait_until(lambda: self.is_over.is_set() or self.count > before)


def retransmissions(client: socket.socket) -> int:
    """Return `tcpi_total_retrans`, the number of segments that the kernel has sent again for a connection."""
    (count,) = struct.unpack_from("I", client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 100)
    return int(count)


def test_connections_succeed_while_the_table_is_rebuilt(lab: Lab) -> None:
    """A proxy writes the whole table again after a restart. Packets see the rules before the rebuild or after it."""

    def test(services: ServiceLab) -> None:
        services.put(service("web", **DUAL), "b")
        table = services.tables[0]
        with listening(services.pods["b"], 80) as server, ThreadPoolExecutor(1) as executor:
            connections = Connections(server, (IP, 80))
            running = executor.submit(run_in_network, services.pods["a"], connections.connect)
            try:
                for _ in range(100):
                    connections.wait_for_more()
                    table.rebuild(table._state.compiler, dict(services.tracker.services))
            finally:
                connections.is_over.set()
            running.result()

    run_lab(lab, test)
