"""Stale UDP flows: which flows are stale, and the conntrack table of a network namespace."""

from __future__ import annotations

import socket
from contextlib import closing

import msgspec
import pytest

from sampan.host.clock import RealClock
from sampan.host.linux.network_namespace import NetworkNamespace, run_in_network
from sampan.host.netlink.conntrack import ConntrackTable, UdpFlow
from sampan.machinery.telemetry.metrics import Metrics
from sampan.network.nft import run_nft
from sampan.network.proxy.conntrack import (
    UdpFlowCleaner,
    conntrack_sysctls,
    serving_endpoints,
    stale_flows,
)
from sampan.network.proxy.kube_proxy_configuration import ConntrackConfiguration
from sampan.network.proxy.metrics import ProxyMetrics
from sampan.network.proxy.services import IPV4
from sampan.network.proxy.tracker import ServiceTracker
from tests.network.pods.lab import NODE_IP, OUTSIDE_IP, Lab, needs_network
from tests.network.proxy.objects import NODE, endpoint, endpoint_slice, port, service

VIP, EXTERNAL, BALANCER = "10.96.0.10", "203.0.113.1", "203.0.113.2"


def flow(destination: str, number: int, reply: str, reply_number: int = 8080) -> UdpFlow:
    return UdpFlow(destination, number, reply, reply_number, b"")


def test_flows_without_a_serving_endpoint_are_stale() -> None:
    tracker = ServiceTracker(node_name=NODE)
    dns = port(53, protocol="UDP", node_port=30053)
    tracker.on_service(
        None, service("dns", dns, type="LoadBalancer", externalIPs=[EXTERNAL], ingress=[BALANCER], ip=VIP)
    )
    tracker.on_service(None, service("web", port(80), ip="10.96.0.11"))
    serving = endpoint("10.0.0.2", ready=False, serving=True, terminating=True)
    tracker.on_slice(
        None, endpoint_slice("dns", endpoint("10.0.0.1"), serving, endpoint("10.0.0.3", ready=False), protocol="UDP")
    )
    states = [state for change in tracker.take_changes() for state in change.current]
    targets = serving_endpoints(states)
    fresh = [
        flow(VIP, 53, "10.0.0.1"),
        flow(VIP, 53, "10.0.0.2"),
        flow(NODE_IP, 30053, "10.0.0.1"),
        flow(VIP, 54, "10.0.0.9"),
        flow("10.96.0.11", 80, "10.0.0.9"),
        flow("198.51.100.1", 30053, "198.51.100.1", 30053),
    ]
    stale = [
        flow(VIP, 53, "10.0.0.3"),
        flow(VIP, 53, VIP, 53),
        flow(VIP, 53, "10.0.0.1", 8081),
        flow(EXTERNAL, 53, "10.0.0.9"),
        flow(BALANCER, 53, "10.0.0.9"),
        flow(NODE_IP, 30053, NODE_IP, 30053),
    ]
    assert list(stale_flows([*fresh, *stale], targets, frozenset({NODE_IP}))) == stale


@pytest.mark.parametrize(
    ("configuration", "cpus", "expected"),
    [
        ({}, 2, 131072),
        ({}, 8, 262144),
        ({}, 64, 1048576),
        ({"min": None}, 1, 32768),
        ({"maxPerCore": 0}, 8, None),
    ],
)
def test_conntrack_max_depends_on_the_number_of_cpus(
    configuration: dict[str, int | None], cpus: int, expected: int | None
) -> None:
    sysctls = conntrack_sysctls(msgspec.convert(configuration, ConntrackConfiguration), cpus)
    assert sysctls.get("nf_conntrack_max") == expected
    assert sysctls["nf_conntrack_tcp_timeout_established"] == 86400
    assert "nf_conntrack_udp_timeout" not in sysctls


def track() -> None:
    """Make the kernel track connections in a namespace."""
    run_nft(
        "-f", "-", text="table inet track { chain o { type filter hook output priority 0; ct state new accept; }; }"
    )


@needs_network
def test_first_endpoint_of_a_service_deletes_its_stale_udp_flows(lab: Lab) -> None:
    """A client that keeps sending to a service without endpoints can then reach the first endpoint."""
    metrics = Metrics()
    tracker = ServiceTracker(node_name=NODE)
    tracker.on_service(None, service("dns", port(53, protocol="UDP"), ip=OUTSIDE_IP))

    def count() -> int:
        return len(ConntrackTable(socket.AF_INET).udp_flows())

    async def main() -> None:
        track()
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as client:
            client.sendto(b"?", (OUTSIDE_IP, 53))
            client.sendto(b"?", (OUTSIDE_IP, 54))
        assert count() == 2
        async with UdpFlowCleaner(
            namespace=NetworkNamespace(lab.node), metrics=ProxyMetrics(metrics, clock=RealClock())
        ) as cleaner:
            tracker.on_slice(None, endpoint_slice("dns", endpoint("10.0.0.1"), protocol="UDP"))
            await cleaner.on_changes(tracker.take_changes())

    lab.run(main)
    assert run_in_network(lab.node, count) == 1
    assert f'kubeproxy_conntrack_reconciler_deleted_entries_total{{ip_family="{IPV4}"}} 1' in metrics.text()
