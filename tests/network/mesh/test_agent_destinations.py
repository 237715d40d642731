"""A joined node reports its own pod CIDRs and addresses. Destinations of other machines are not routed to it."""

from collections.abc import Sequence
from ipaddress import ip_interface, ip_network

import pytest

from sampan.network.mesh.agent import accept_destinations
from sampan.network.mesh.mesh_plan import MeshMachine

CLUSTER = [ip_network("10.200.0.0/16"), ip_network("fd00:200::/56")]


def machine(address: str, *destinations: str) -> MeshMachine:
    return MeshMachine(
        nodes=[address],
        interfaces=[ip_interface(address)],
        destinations=[ip_network(destination) for destination in destinations],
    )


OWN = machine("10.0.0.1/24", "10.200.0.0/24", "fd00:200::/64")
OLDER = machine("10.0.0.2/24", "10.200.1.0/24", "172.30.0.2/32")


def accepted_destinations(other: MeshMachine, cluster: Sequence[object] = CLUSTER) -> list[str]:
    older, last = accept_destinations(OWN, [OLDER, other], cluster)  # type: ignore[arg-type]
    assert list(older.destinations) == list(OLDER.destinations)
    return [str(destination) for destination in last.destinations]


def test_own_pod_cidrs_and_node_addresses_are_accepted() -> None:
    destinations = ["10.200.2.0/24", "fd00:200:0:2::/64", "172.30.4.2/32"]
    assert accepted_destinations(machine("10.9.0.3/24", *destinations)) == destinations


@pytest.mark.parametrize(
    "destination",
    [
        "0.0.0.0/0",
        "0.0.0.0/1",
        "::/0",
        "10.200.0.0/16",
        "10.200.0.128/25",
        "10.200.1.0/24",
        "10.200.1.7/32",
        "fd00:200::/64",
        "203.0.113.0/24",
        "10.0.0.1/32",
        "10.0.0.2/32",
        "10.0.0.254/32",
        "172.30.0.2/32",
        "8.8.8.8/32",
    ],
)
def test_overlapping_or_foreign_destinations_are_rejected(destination: str) -> None:
    assert accepted_destinations(machine("10.9.0.3/24", destination)) == []


def test_without_cluster_cidrs_only_overlapping_destinations_are_rejected() -> None:
    assert accepted_destinations(machine("10.9.0.3/24", "10.7.0.0/24", "0.0.0.0/0", "10.200.1.0/24"), []) == [
        "10.7.0.0/24"
    ]
