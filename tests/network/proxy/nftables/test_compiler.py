"""Random packets through the compiled rules, compared with the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sampan.api.types.core_v1 import Service
from sampan.network.proxy.proxy_config import ProxyConfig
from sampan.network.proxy.services import FAMILIES
from sampan.network.proxy.tracker import ServiceTracker
from tests.network.proxy.nftables.compilers import compiler_of
from tests.network.proxy.nftables.packet_model import Model, Packet
from tests.network.proxy.objects import NODE, endpoint, endpoint_slice, service
from tests.network.proxy.random_services import (
    CLIENT_IPS,
    CLUSTER_CIDRS,
    EXTERNAL_IPS,
    LOAD_BALANCER_IPS,
    NODE_IPS,
    RandomCluster,
    cluster_ip,
    pod_ip,
)
from tests.network.proxy.recorder import RecordedTable
from tests.network.proxy.service_oracle import Oracle

TIMES = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")


def packets(cluster: RandomCluster, family: str) -> Iterator[Packet]:
    """Yield packets from every kind of source to every kind of destination, with used and unused ports."""
    sources = [(address, "eth0") for address in CLIENT_IPS[family]]
    sources += [(pod_ip(family, number), "sampan0") for number in range(4)]
    sources += [(NODE_IPS[family], ""), (LOAD_BALANCER_IPS[family][0], "")]
    numbers = range(cluster.count)
    targets = [(cluster_ip(family, n), 8000 + m) for n in numbers for m in {n, (n + 1) % cluster.count}]
    targets += [(a, 8000 + n) for n in numbers for a in (*EXTERNAL_IPS[family], *LOAD_BALANCER_IPS[family])]
    targets += [(NODE_IPS[family], 30000 + n) for n in numbers]
    targets += [(cluster_ip(family, 99), 80), (pod_ip(family, 3), 80), (CLIENT_IPS[family][0], 443)]
    for source, interface in sources:
        for destination, port in targets:
            protocol = cluster.random.choice(["tcp", "udp", "sctp"])
            yield Packet(source, destination, protocol, port, interface)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(30))
def test_compiled_rules_decide_like_the_oracle(family: str, seed: int) -> None:
    cluster = RandomCluster(seed).fill()
    tracker = ServiceTracker(node_name=NODE)
    cluster.track(tracker)
    table = RecordedTable(compiler_of(family))
    table.sync(tracker.take_changes())
    model, oracle = table.model(frozenset(NODE_IPS.values())), Oracle(cluster)
    for packet in packets(cluster, family):
        assert model.outcomes(packet) == oracle.outcomes(packet), packet


@pytest.mark.parametrize("family", FAMILIES)
def test_session_affinity_keeps_the_endpoint_of_a_client(family: str) -> None:
    cluster = RandomCluster(3).fill()
    for item in cluster.services.values():
        item.spec.sessionAffinity = "ClientIP"
    tracker = ServiceTracker(node_name=NODE)
    cluster.track(tracker)
    table = RecordedTable(compiler_of(family))
    table.sync(tracker.take_changes())
    model = table.model(frozenset(NODE_IPS.values()))
    count = 0
    for packet in packets(cluster, family):
        for outcome, after in model.branches(packet):
            if outcome.statement == "pass" and outcome.destination != packet.destination:
                count += 1
                assert after.outcomes(packet) == {outcome}
    assert count > 10


def test_masquerade_all() -> None:
    config = ProxyConfig(cluster_cidrs=CLUSTER_CIDRS, masquerade_all=True, masquerade_bit=3)
    cluster = RandomCluster(2).fill()
    tracker = ServiceTracker(node_name=NODE)
    cluster.track(tracker)
    table = RecordedTable(compiler_of("IPv4", config))
    table.sync(tracker.take_changes())
    model: Model = table.model(frozenset(NODE_IPS.values()))
    translated = [
        outcome
        for packet in packets(cluster, "IPv4")
        if packet.destination.startswith("10.96.")
        for outcome in model.outcomes(packet)
        if outcome.statement == "pass"
    ]
    assert translated
    assert all(outcome.is_masqueraded for outcome in translated)


@pytest.mark.parametrize("victim_name", ["dns", "zzz"])
@pytest.mark.parametrize(
    "victim_spec", [{}, {"ip": "10.96.0.7", "ingress": ["10.96.0.10"]}], ids=["cluster IP", "load balancer IP"]
)
def test_external_ip_does_not_capture_the_address_of_another_service(
    victim_name: str, victim_spec: dict[str, Any]
) -> None:
    victim, capture = service(victim_name, **victim_spec), service("a", ip="10.96.0.66", externalIPs=["10.96.0.10"])
    capture.metadata.creationTimestamp, victim.metadata.creationTimestamp = TIMES
    packet = Packet(CLIENT_IPS["IPv4"][0], "10.96.0.10", "tcp", 80, "eth0")
    for order in ([victim, capture], [capture, victim]):
        table = table_of(*order)
        assert {outcome.destination for outcome in table.model(frozenset()).outcomes(packet)} == {pod_of(victim_name)}


@pytest.mark.parametrize("name", ["a", "z"])
def test_shared_external_ip_belongs_to_the_oldest_service(name: str) -> None:
    old = service("m", ip="10.96.0.7", externalIPs=["192.0.2.9"])
    new = service(name, ip="10.96.0.66", externalIPs=["192.0.2.9"])
    old.metadata.creationTimestamp, new.metadata.creationTimestamp = TIMES
    packet = Packet(CLIENT_IPS["IPv4"][0], "192.0.2.9", "tcp", 80, "eth0")
    for order in ([old, new], [new, old]):
        table = table_of(*order)
        assert {outcome.destination for outcome in table.model(frozenset()).outcomes(packet)} == {pod_of("m")}


def pod_of(name: str) -> str:
    return f"10.1.0.{ord(name[0])}"


def table_of(*services: Service) -> RecordedTable:
    """Return the table after these services were created in this order."""
    tracker, table = ServiceTracker(node_name=NODE), RecordedTable(compiler_of("IPv4"))
    for item in services:
        tracker.on_slice(None, endpoint_slice(item.metadata.name, endpoint(pod_of(item.metadata.name))))
        tracker.on_service(None, item)
        table.sync(tracker.take_changes())
    return table


@pytest.mark.parametrize("seed", range(20))
def test_incremental_changes_lead_to_the_same_table_as_a_rebuild(seed: int) -> None:
    cluster = RandomCluster(seed).fill()
    tracker = ServiceTracker(node_name=NODE)
    cluster.track(tracker)
    table = RecordedTable(compiler_of("IPv4"))
    table.sync(tracker.take_changes())
    for _ in range(30):
        for _ in range(cluster.random.randint(1, 3)):
            cluster.change(tracker)
        table.sync(tracker.take_changes())
    rebuilt, new_tracker = RecordedTable(compiler_of("IPv4")), ServiceTracker(node_name=NODE)
    cluster.track(new_tracker)
    rebuilt.sync(new_tracker.take_changes())
    assert table.content == rebuilt.content
