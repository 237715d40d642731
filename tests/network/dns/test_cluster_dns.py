"""Which clients may query the DNS server of a node."""

from __future__ import annotations

import pytest

from sampan.api.types.core_v1 import Node, NodeAddress, NodeSpec, NodeStatus
from sampan.network.dns.cluster_dns import KnownClients

NODE = Node(
    spec=NodeSpec(podCIDRs=["10.200.1.0/24", "fd01::/64"]),
    status=NodeStatus(addresses=[NodeAddress(type="InternalIP", address="192.0.2.7")]),
)


@pytest.mark.parametrize(
    ("address", "is_known"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("192.0.2.1", True),
        ("192.0.2.2", False),
        ("192.0.2.7", True),
        ("10.200.1.9", True),
        ("10.200.2.9", False),
        ("fd01::9", True),
        ("fe80::9%eth0", False),
        ("10.9.1.1", True),
    ],
)
def test_only_nodes_pods_and_configured_clients_are_admitted(address: str, is_known: bool) -> None:
    clients = KnownClients(
        addresses=["192.0.2.1"], client_cidrs=["10.9.0.0/16"], nodes=lambda: [NODE], monotonic=lambda: 0.0
    )
    for _ in range(2):
        assert clients.admits(address) is is_known


def test_flood_from_unknown_addresses_reads_the_nodes_once() -> None:
    """The nodes are read at most once per second, so that a flood of packets does not block the event loop."""
    reads: list[None] = []
    now = 0.0

    def nodes() -> list[Node]:
        reads.append(None)
        return [NODE]

    clients = KnownClients(addresses=["192.0.2.1"], client_cidrs=[], nodes=nodes, monotonic=lambda: now)
    assert not any(clients.admits(f"203.0.113.{number}") for number in range(200))
    assert len(reads) == 1
    now = 2.0
    assert not clients.admits("203.0.113.1")
    assert len(reads) == 2
