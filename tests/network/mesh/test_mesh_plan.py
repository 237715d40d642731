"""Which routes and tunnels a machine needs."""

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_interface, ip_network

import pytest

from sampan.api.types.core_v1 import Node, NodeAddress, NodeSpec, NodeStatus
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.network.mesh.config import ROUTES, VXLAN, WIREGUARD
from sampan.network.mesh.mesh_plan import (
    ADDRESSES,
    ENDPOINT,
    OFFERED,
    PUBLIC_KEY,
    MeshMachine,
    MeshPlan,
    MeshRoute,
    annotations_of,
    choose_backend,
    hardware_address,
    link_name,
    plan_mesh,
    read_machines,
    route_metric,
    vxlan_identifier,
)

EVERYTHING = (ROUTES, WIREGUARD, VXLAN)


def node(name: str, address: str, *cidrs: str, annotations: dict[str, str] | None = None) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, annotations=annotations or {}),
        spec=NodeSpec(podCIDRs=list(cidrs)),
        status=NodeStatus(addresses=[NodeAddress(type="InternalIP", address=address)]),
    )


def machine(
    *addresses: str, cidrs: Sequence[str] = (), offered: Sequence[str] = EVERYTHING, key: str = ""
) -> MeshMachine:
    return MeshMachine(
        nodes=[addresses[0]],
        interfaces=[ip_interface(address) for address in addresses],
        destinations=[ip_network(cidr) for cidr in cidrs],
        offered=offered,
        public_key=key,
    )


OWN = machine("10.0.0.1/24", cidrs=["10.200.0.0/24"], key="own")
NEAR = machine("10.0.0.2/24", cidrs=["10.200.1.0/24"], key="near")
FAR = machine("10.9.0.3/24", cidrs=["10.200.2.0/24"], key="far")


def plan(*others: MeshMachine, own: MeshMachine = OWN) -> MeshPlan:
    return plan_mesh(own, others, wireguard_port=51820)


def test_machines_of_a_subnet_use_plain_routes() -> None:
    result = plan(NEAR)
    assert result.routes == {MeshRoute("10.200.1.0/24", ROUTES, "10.0.0.2")}
    assert not result.vxlan_peers
    assert not result.wireguard_peers
    assert not result.tunnel_addresses


def test_machines_of_different_subnets_use_wireguard() -> None:
    result = plan(NEAR, FAR)
    assert MeshRoute("10.200.2.0/24", WIREGUARD) in result.routes
    (peer,) = result.wireguard_peers
    assert (peer.public_key, peer.endpoint) == ("far", "10.9.0.3:51820")
    assert peer.allowed == ("10.200.2.0/24", "10.9.0.3/32")
    assert result.tunnel_addresses == ("10.200.0.0/32",)


def test_wireguard_peer_uses_its_published_endpoint() -> None:
    (peer,) = plan(replace(FAR, endpoint="198.51.100.1:4000")).wireguard_peers
    assert peer.endpoint == "198.51.100.1:4000"


def test_vxlan_is_used_where_one_machine_has_no_wireguard() -> None:
    result = plan(machine("10.9.0.3/24", cidrs=["10.200.2.0/24"], offered=(ROUTES, VXLAN)))
    (peer,) = result.vxlan_peers
    assert peer.address == "10.9.0.3"
    assert result.routes == {MeshRoute("10.200.2.0/24", VXLAN, "10.200.2.0", peer.hardware)}


def test_machine_in_another_subnet_without_tunnels_is_unreachable() -> None:
    result = plan(machine("10.9.0.3/24", cidrs=["10.200.2.0/24"], offered=(ROUTES,)))
    assert not result.routes
    assert "share no subnet" in result.unreachable["10.9.0.3/24"]


def test_machines_without_a_common_backend_are_unreachable() -> None:
    result = plan(replace(NEAR, offered=(WIREGUARD,)), own=replace(OWN, offered=(VXLAN,)))
    assert result.unreachable == {"10.0.0.2/24": "this machine offers vxlan, the other one wireguard"}


def test_a_forced_tunnel_is_used_inside_a_subnet_too() -> None:
    assert choose_backend(OWN, replace(NEAR, offered=(VXLAN,))) == VXLAN


def test_ipv6_pods_need_an_ipv6_subnet_for_routes() -> None:
    dual_stack = machine("10.0.0.2/24", "fd00::2/64", cidrs=["10.200.1.0/24", "fd01::/64"])
    own = machine("10.0.0.1/24", "fd00::1/64")
    assert MeshRoute("fd01::/64", ROUTES, "fd00::2") in plan(dual_stack, own=own).routes
    without_ipv6 = plan(dual_stack)
    assert {route.destination for route in without_ipv6.routes} == {"10.200.1.0/24"}
    assert "IPv6" in without_ipv6.unreachable["10.0.0.2/24"]


@pytest.mark.parametrize("first", [OWN, NEAR, FAR, replace(FAR, offered=(VXLAN,)), replace(FAR, public_key="")])
@pytest.mark.parametrize("other", [OWN, NEAR, FAR, replace(NEAR, offered=(VXLAN, ROUTES)), machine("fd00::1/64")])
def test_backend_choice_is_symmetric(first: MeshMachine, other: MeshMachine) -> None:
    assert choose_backend(first, other) == choose_backend(other, first)


def test_machines_are_read_from_nodes() -> None:
    machine_annotations = {ADDRESSES: "10.0.0.1/24", OFFERED: "routes,vxlan"}
    nodes = [
        node("node-0", "172.18.0.2", "10.200.0.0/24", annotations=machine_annotations),
        node("node-1", "172.18.0.3", "10.200.1.0/24", annotations=machine_annotations),
        node("other", "10.0.0.7", "10.200.7.0/24"),
        node("own", "10.0.0.9", "10.200.9.0/24"),
        node("hollow", "100.64.0.1", "10.200.8.0/24", annotations={"sampan.dev/runtime": "hollow"}),
        node("without-address", "", "10.200.6.0/24"),
    ]
    first, second = read_machines(nodes, lambda node: node.metadata.name == "own")
    assert first.nodes == ["node-0", "node-1"]
    assert [str(item) for item in first.destinations] == [
        "10.200.0.0/24",
        "172.18.0.2/32",
        "10.200.1.0/24",
        "172.18.0.3/32",
    ]
    assert first.offered == ["routes", "vxlan"]
    assert (second.nodes, second.offered) == (["other"], ["routes"])
    assert choose_backend(OWN, second) == ROUTES


KEY = "dGhpcnR5LXR3byBieXRlcyBvZiBhIHB1YmxpYyBrZSE="


def test_machine_annotations_round_trip() -> None:
    annotations = {key: value for key, value in annotations_of(replace(FAR, public_key=KEY)).items() if value}
    (read,) = read_machines([node("far", "10.9.0.3", "10.200.2.0/24", annotations=annotations)], lambda node: False)
    assert (read.interfaces, read.offered, read.public_key) == (list(FAR.interfaces), list(FAR.offered), KEY)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (PUBLIC_KEY, "not a key"),
        (PUBLIC_KEY, "c2hvcnQ="),
        (PUBLIC_KEY, "\u00e9"),
        (ENDPOINT, "198.51.100.1:http"),
        (ENDPOINT, "198.51.100.1:70000"),
        (ENDPOINT, "localhost:51820"),
        (ENDPOINT, "51820"),
        (ADDRESSES, "10.9.0.3/24,fe80::1%x; reboot/64,10.9.0.3/99,everything"),
    ],
)
def test_invalid_published_keys_endpoints_and_addresses_are_ignored(key: str, value: str) -> None:
    annotations = {ADDRESSES: "10.9.0.3/24", OFFERED: "wireguard", PUBLIC_KEY: KEY, key: value}
    (read,) = read_machines([node("far", "10.9.0.3", "10.200.2.0/24", annotations=annotations)], lambda node: False)
    assert [str(interface) for interface in read.interfaces] == ["10.9.0.3/24"]
    assert read.public_key in ("", KEY)
    assert read.endpoint == ""


def test_link_names_and_identifiers_fit_kernel_limits() -> None:
    assert len(link_name(VXLAN, "/var/lib/sampan")) <= 15
    assert link_name(VXLAN, "a") != link_name(VXLAN, "b")
    assert 20_000 <= route_metric("a") < 30_000
    assert 0 < vxlan_identifier(b"CA") < 1 << 24
    octets = hardware_address("10.0.0.1").split(":")
    assert len(octets) == 6
    assert int(octets[0], 16) & 3 == 2
