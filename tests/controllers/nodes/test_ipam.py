"""node-ipam-controller: no two nodes share a pod CIDR."""

import asyncio
from ipaddress import ip_network
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import Node
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.nodes.cidr_sets import CidrRangeFull, CidrSets, InvalidCidr, network_of
from sampan.controllers.nodes.ipam import PodCidrAllocation, ranges_of
from tests.controllers.cluster import Cluster, cluster
from tests.controllers.nodes.fleet import Fleet

NAME = "node-ipam-controller"
CONFIG = ControllerConfig(allocate_node_cidrs=True, cluster_cidr=["10.0.0.0/22"])
DUAL = ControllerConfig(
    allocate_node_cidrs=True, cluster_cidr=["10.0.0.0/16", "fd00::/56"], node_cidr_mask_size_ipv4=26
)


def test_released_subnets_are_reused_last() -> None:
    ranges = CidrSets(network_of("10.0.0.0/22"), 24)
    first = ranges.take()
    assert str(first) == "10.0.0.0/24"
    ranges.release(first)
    assert [str(ranges.take()) for _ in range(4)] == ["10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24", "10.0.0.0/24"]
    with pytest.raises(CidrRangeFull):
        ranges.take()


@pytest.mark.parametrize(
    ("occupied", "left"),
    [
        ("10.0.1.0/24", 3),
        ("10.0.1.128/25", 3),
        ("10.0.1.7/32", 3),
        ("10.0.0.0/23", 2),
        ("10.0.0.0/8", 0),
        ("192.168.0.0/24", 4),
        ("fd00::/64", 4),
    ],
)
def test_overlapping_cidr_occupies_subnets(occupied: str, left: int) -> None:
    ranges = CidrSets(network_of("10.0.0.0/22"), 24)
    ranges.occupy(network_of(occupied))
    assert len(ranges) == left
    ranges.release(network_of(occupied))
    assert len(ranges) == 4


@pytest.mark.parametrize(
    ("config", "first"),
    [
        (ControllerConfig(cluster_cidr=["10.4.0.0/14"]), ["10.4.0.0/24"]),
        (ControllerConfig(cluster_cidr=["10.4.0.0/14"], node_cidr_mask_size=20), ["10.4.0.0/20"]),
        (ControllerConfig(cluster_cidr=["10.4.0.0/14"], node_cidr_mask_size_ipv4=25), ["10.4.0.0/25"]),
        (ControllerConfig(cluster_cidr=["fd00::/48"]), ["fd00::/64"]),
        (DUAL, ["10.0.0.0/26", "fd00::/64"]),
        (
            ControllerConfig(cluster_cidr=["10.4.0.0/14"], service_cluster_ip_range=["10.4.0.0/22"]),
            ["10.4.4.0/24"],
        ),
    ],
)
def test_first_pod_cidr_by_flags(config: ControllerConfig, first: list[str]) -> None:
    assert [str(ranges.take()) for ranges in ranges_of(config)] == first


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (ControllerConfig(), "--cluster-cidr"),
        (ControllerConfig(cluster_cidr=["10.0.0.0/33"]), "invalid CIDR address: 10.0.0.0/33"),
        (ControllerConfig(cluster_cidr=["10.0.0.0/16", "10.1.0.0/16"]), "different IP families"),
        (ControllerConfig(cluster_cidr=["10.0.0.0/16", "fd00::/56", "fd01::/56"]), "more than max allowed of 2"),
        (ControllerConfig(cluster_cidr=["10.0.0.0/25"]), "mask size"),
        (ControllerConfig(cluster_cidr=["fd00::/32"]), "too many parts"),
        (ControllerConfig(cluster_cidr=["10.0.0.0/16", "fd00::/56"], node_cidr_mask_size=25), "dual-stack"),
        (ControllerConfig(cluster_cidr=["10.0.0.0/16"], node_cidr_mask_size_ipv6=80), "IPv4 cluster"),
        (
            ControllerConfig(cluster_cidr=["10.0.0.0/16"], node_cidr_mask_size=25, node_cidr_mask_size_ipv4=25),
            "cannot be combined",
        ),
    ],
)
def test_invalid_flags_are_rejected(config: ControllerConfig, message: str) -> None:
    with pytest.raises(InvalidCidr, match=message):
        ranges_of(config)


Steps = st.lists(
    st.one_of(
        st.tuples(st.just("allocate"), st.integers(0, 5), st.integers(0, 2)),
        st.tuples(st.just("set by hand"), st.integers(0, 5), st.integers(0, 15)),
        st.tuples(st.just("delete"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(Steps)
def test_allocated_pod_cidrs_never_overlap(steps: list[tuple[str, int, int]]) -> None:
    """Nodes are created and deleted, pod CIDRs are set by hand, and the controller restarts."""
    config = ControllerConfig(cluster_cidr=["10.0.0.0/24"], node_cidr_mask_size=28)
    allocation = PodCidrAllocation(ranges_of(config))
    held: dict[int, str] = {}
    for action, node, value in steps:
        if action == "allocate" and node not in held:
            try:
                allocated = str(allocation.allocate(f"n{node}", f"uid{node}")[0])
            except CidrRangeFull:
                assert len({ip_network(cidr) for cidr in held.values()}) >= 10
                continue
            assert not any(ip_network(allocated).overlaps(ip_network(other)) for other in held.values())
            held[node] = allocated
        elif action == "set by hand":
            by_hand = f"10.0.0.{value * 16}/28" if value % 2 else f"10.0.0.{value * 16 + 4}/30"
            held[node] = by_hand
            allocation.note(f"n{node}", f"uid{node}", [by_hand])
        elif action == "delete":
            held.pop(node, None)
            allocation.forget(f"n{node}")
        elif action == "restart":
            allocation = PodCidrAllocation(ranges_of(config))
            for name, cidr in held.items():
                allocation.note(f"n{name}", f"uid{name}", [cidr])


async def cidrs(c: Cluster) -> dict[str, list[str]]:
    await c.clock.settle()
    return {node.metadata.name: node.spec.podCIDRs for node in (await c.client.for_kind(Node).list()).items}


async def test_every_node_gets_a_pod_cidr_that_restarts_preserve() -> None:
    async with cluster() as c:
        fleet = Fleet(c)
        await fleet.add("by-hand", podCIDR="10.0.1.0/24", podCIDRs=["10.0.1.0/24"])
        async with c.running(NAME, config=CONFIG):
            await fleet.add("a")
            assert await cidrs(c) == {"by-hand": ["10.0.1.0/24"], "a": ["10.0.0.0/24"]}
        async with c.running(NAME, config=CONFIG):
            for name in ("b", "c", "too-many"):
                await fleet.add(name)
            assigned = await cidrs(c)
            assert assigned["b"] == ["10.0.2.0/24"]
            assert assigned["c"] == ["10.0.3.0/24"]
            assert assigned["too-many"] == []
            assert (await fleet.node("b")).spec.podCIDR == "10.0.2.0/24"
            assert await fleet.events("CIDRNotAvailable") == [
                ("too-many", "CIDRNotAvailable", "Node too-many status is now: CIDRNotAvailable")
            ]
            await c.client.for_kind(Node).delete("a")
            await c.clock.advance(11)
            assert (await cidrs(c))["too-many"] == ["10.0.0.0/24"]
        before = await c.revision()
        async with c.running(NAME, config=CONFIG):
            await c.clock.advance(60)
        assert await c.revision() == before


async def test_concurrently_created_nodes_get_disjoint_dual_stack_pod_cidrs() -> None:
    async with cluster() as c, c.running(NAME, config=DUAL):
        fleet = Fleet(c)
        async with asyncio.TaskGroup() as group:
            for index in range(60):
                group.create_task(fleet.add(f"n{index}"))
        assigned = await cidrs(c)
        assert all(len(node_cidrs) == 2 for node_cidrs in assigned.values())
        networks = [ip_network(cidr) for node_cidrs in assigned.values() for cidr in node_cidrs]
        assert not any(
            first.version == other.version and first.overlaps(other) for first, other in combinations(networks, 2)
        )


async def test_no_cidrs_are_allocated_by_default() -> None:
    async with cluster() as c, c.running(NAME) as manager:
        assert manager.runners == []
