"""Which pod CIDRs the nodes of a machine reach directly, and which through the machine."""

import socket

import pytest

from sampan.api.types.core_v1 import Node, NodeAddress, NodeSpec, NodeStatus
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.linux.network_namespace import run_in_network
from sampan.host.netlink.routing import open_route_socket
from sampan.network.nodes.routes import RouteTable, distant_pod_cidrs, pod_routes
from sampan.network.routes import POD_CIDR_PROTOCOL, gateways_through
from tests.network.pods.lab import OUTSIDE_IP, Lab, needs_network

NODE_CIDRS = ["172.30.0.0/22"]


def node(name: str, address: str, *cidrs: str, runtime: str = "oci") -> Node:
    return Node(
        metadata=ObjectMeta(name=name, annotations={"sampan.dev/runtime": runtime}),
        spec=NodeSpec(podCIDRs=list(cidrs)),
        status=NodeStatus(addresses=[NodeAddress(type="InternalIP", address=address)]),
    )


NODES = [
    node("node-0", "172.30.0.2", "10.200.0.0/24"),
    node("node-1", "172.30.0.3", "10.200.1.0/24", "fd00::/64"),
    node("joined", "10.0.0.2", "10.200.2.0/24"),
    node("hollow", "100.64.0.1", "10.200.3.0/24", runtime="hollow"),
]


def test_nodes_on_the_bridge_are_gateways_of_their_pod_cidrs() -> None:
    assert pod_routes(NODES, NODE_CIDRS) == {
        "node-0": {"10.200.0.0/24": "172.30.0.2"},
        "node-1": {"10.200.1.0/24": "172.30.0.3"},
    }


def test_pod_cidrs_of_real_nodes_on_other_machines_are_distant() -> None:
    assert distant_pod_cidrs(NODES, NODE_CIDRS) == ["10.200.2.0/24"]


@pytest.mark.parametrize("address", ["no address", "fe80::1%x; reboot", "10.0.0.2/8", "", "0x7f.1"])
def test_node_with_invalid_address_does_not_affect_other_routes(address: str) -> None:
    assert pod_routes([node("evil", address, "10.200.9.0/24"), *NODES], NODE_CIDRS) == pod_routes(NODES, NODE_CIDRS)


@pytest.mark.parametrize("cidr", ["0.0.0.0/0", "10.200.0.0/25", "10.200.0.0/16", "203.0.113.0/24"])
def test_newer_node_gets_no_route_for_an_overlapping_or_foreign_pod_cidr(cidr: str) -> None:
    evil = node("evil", "172.30.0.9", cidr)
    evil.metadata.creationTimestamp = "2026-01-01T00:00:00Z"
    assert pod_routes([evil, *NODES], NODE_CIDRS, ["10.200.0.0/16"]) == pod_routes(NODES, NODE_CIDRS)


@needs_network
def test_routes_of_another_cluster_are_kept(lab: Lab) -> None:
    """The clusters of a machine have bridges of their own, and each changes only the routes through its bridge."""

    def work() -> None:
        from pyroute2 import IPRoute

        with IPRoute() as machine:
            machine.link("add", ifname="other0", kind="bridge")
            other = socket.if_nametoindex("other0")
            machine.link("set", index=other, state="up")
            machine.addr("add", index=other, address="198.51.100.1", prefixlen=24)
        own = socket.if_nametoindex("up0")
        with open_route_socket() as netlink:
            RouteTable(netlink, other).apply({"10.9.0.0/24": "198.51.100.2"})
            table = RouteTable(netlink, own)
            table.apply({"10.8.0.0/24": OUTSIDE_IP})
            table.apply({})
            assert gateways_through(netlink, own, POD_CIDR_PROTOCOL) == {}
            assert gateways_through(netlink, other, POD_CIDR_PROTOCOL) == {"10.9.0.0/24": "198.51.100.2"}

    run_in_network(lab.node, work)
