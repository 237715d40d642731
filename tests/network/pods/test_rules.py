"""The nftables text of host ports and masquerading."""

from __future__ import annotations

import random
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.network.pods import rules
from sampan.network.pods.nft import run_nft
from sampan.network.pods.records import HostPortMapping, PodNetworkRecord, host_port_mappings
from sampan.network.pods.rules import SetElement, port_conflict, port_elements, port_errors
from sampan.runtimes.config import PortMapping
from tests.network.pods.lab import Lab, needs_network

NETWORKS = [ip_network("10.1.0.0/24"), ip_network("fd01::/64")]
RULES = rules.PodNetworkRules(bridge="tst0", pods=NETWORKS, cluster=[ip_network("10.0.0.0/8")])


def record(uid: str = "a", *ports: PortMapping, last: int = 2) -> PodNetworkRecord:
    addresses = (f"10.1.0.{last}/24", f"fd01::{last}/64")
    return PodNetworkRecord(
        uid=uid, link="tst0-1", namespace="/n", addresses=addresses, ports=host_port_mappings(ports)
    )


def port(host: int, to: int = 80, protocol: str = "TCP", ip: str = "") -> PortMapping:
    return PortMapping(protocol=protocol, container_port=to, host_port=host, host_ip=ip)


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        (port(8080), {("ports4", "tcp . 8080", "10.1.0.2 . 80"), ("ports6", "tcp . 8080", "fd01::2 . 80")}),
        (port(53, 53, "UDP", "0.0.0.0"), {("ports4", "udp . 53", "10.1.0.2 . 53")}),
        (port(53, 53, "SCTP", "::"), {("ports6", "sctp . 53", "fd01::2 . 53")}),
        (port(80, ip="192.0.2.1"), {("bound4", "192.0.2.1 . tcp . 80", "10.1.0.2 . 80")}),
        (port(80, ip="2001:db8:0::1"), {("bound6", "2001:db8::1 . tcp . 80", "fd01::2 . 80")}),
    ],
)
def test_host_port_mappings_become_set_elements(mapping: PortMapping, expected: set[SetElement]) -> None:
    all_elements = port_elements(record("a", mapping))
    assert {element for element in all_elements if not element.set.startswith("own")} == expected
    assert {element.key for element in all_elements if element.set.startswith("own")} == {
        "10.1.0.2 . 10.1.0.2",
        "fd01::2 . fd01::2",
    }


def test_a_pod_without_host_ports_needs_no_rules() -> None:
    assert not port_elements(record("a", PortMapping(container_port=80, host_port=0)))


@pytest.mark.parametrize(
    ("mapping", "error"),
    [
        (port(80, protocol="ICMP"), "host port 80: there is no protocol 'icmp'"),
        (port(80, ip="1.2.3.4; flush ruleset"), "host port 80: '1.2.3.4; flush ruleset' is not an IP address"),
        (port(70000), "host port 70000 to 80: not a port"),
    ],
)
def test_invalid_host_ports_are_reported(mapping: PortMapping, error: str) -> None:
    assert list(port_errors(host_port_mappings([mapping]))) == [error]


def test_host_port_of_another_pod_is_a_conflict() -> None:
    others = [record("b", port(80), last=3), record("c", port(81, ip="192.0.2.1"), last=4)]
    assert port_conflict(record("a", port(80)), others) == "host port tcp . 80 is in use by pod b"
    assert port_conflict(record("a", port(81, ip="192.0.2.1")), others)
    for free in (port(80, protocol="UDP"), port(81, ip="192.0.2.2"), port(82)):
        assert not port_conflict(record("a", free), others)
    assert not port_conflict(record("b", port(80), last=3), others)


PORTS = st.builds(
    HostPortMapping,
    protocol=st.sampled_from(["tcp", "udp", "sctp"]),
    host_ip=st.sampled_from(["", "0.0.0.0", "::", "192.0.2.1", "2001:db8::1"]),
    host_port=st.integers(1, 65535),
    container_port=st.integers(1, 65535),
)


@given(st.lists(PORTS, max_size=8, unique_by=lambda p: (p.protocol, p.host_port)), st.integers())
def test_table_text_does_not_depend_on_order(ports: list[HostPortMapping], seed: int) -> None:
    pod_record = PodNetworkRecord(
        uid="a", link="l", namespace="n", addresses=("10.1.0.2/24", "fd01::2/64"), ports=tuple(ports)
    )
    in_order = list(port_elements(pod_record))
    shuffled = random.Random(seed).sample(in_order, len(in_order))
    reversed_rules = rules.PodNetworkRules(bridge="tst0", pods=NETWORKS[::-1], cluster=RULES.cluster)
    assert rules.table_text(RULES, in_order) == rules.table_text(reversed_rules, shuffled)


@needs_network
@pytest.mark.parametrize("sees_bridged", [True, False])
def test_nft_applies_rule_texts_repeatedly(lab: Lab, sees_bridged: bool) -> None:
    pod_elements = list(
        port_elements(record("a", port(80), port(80, protocol="UDP"), port(81, protocol="SCTP", ip="192.0.2.1")))
    )
    pod_rules = rules.PodNetworkRules(bridge="tst0", pods=NETWORKS, sees_bridged=sees_bridged)

    async def main() -> None:
        for text in (
            rules.table_text(pod_rules, pod_elements),
            rules.table_text(pod_rules, ()),
            rules.render_additions("tst0", pod_elements) + rules.render_additions("tst0", pod_elements),
            rules.table_text(pod_rules, pod_elements),
            rules.render_deletions("tst0", pod_elements),
            rules.render_deletions("tst0", pod_elements),
        ):
            run_nft("-f", "-", text=text)
        emptied = run_nft("list", "ruleset")
        run_nft("-f", "-", text=rules.table_text(pod_rules, ()))
        assert run_nft("list", "ruleset") == emptied
        run_nft("-f", "-", text=rules.removal("tst0") + rules.removal("tst0"))
        assert run_nft("list", "tables") == b""

    lab.run(main)
