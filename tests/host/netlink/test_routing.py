"""Links, addresses, routes and neighbors as other programs show them."""

from __future__ import annotations

import json
import socket
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from sampan.host.linux.network_namespace import run_in_network
from sampan.host.netlink import constants as nl
from sampan.host.netlink.routing import (
    ForwardingEntry,
    RouteInfo,
    encode_address,
    encode_address_deletion,
    encode_alias,
    encode_bridge_membership,
    encode_forwarding,
    encode_forwarding_deletion,
    encode_hairpin_mode,
    encode_link_creation,
    encode_link_deletion,
    encode_link_up,
    encode_neighbor,
    encode_reserved_learning_off,
    encode_route,
    encode_route_deletion,
    encode_vxlan_creation,
    get_link,
    list_addresses,
    list_forwarding,
    list_links,
    list_routes,
    open_route_socket,
    vxlan_underlay,
)
from sampan.network.mesh.config import VXLAN, can_create
from tests.network.pods.lab import Lab, needs_network

pytestmark = needs_network

needs_vxlan = pytest.mark.skipif(not can_create(VXLAN), reason="the kernel has no VXLAN")


def show(*args: str, program: str = "ip") -> list[dict[str, Any]]:
    shown = subprocess.run([program, "-j", "-d", *args], capture_output=True, text=True, check=True)
    return json.loads(shown.stdout or "[]")  # type: ignore[no-any-return]


def test_links(lab: Lab) -> None:
    def work() -> None:
        with open_route_socket() as netlink:
            netlink.send(encode_link_creation("br9", "bridge", mtu=1400, hardware="0a:58:00:00:00:01"))
            netlink.send(encode_link_creation("port9", "veth", mtu=1400))
            bridge, port = socket.if_nametoindex("br9"), socket.if_nametoindex("port9")
            netlink.send(encode_alias(bridge, "of a test"), encode_reserved_learning_off(bridge))
            netlink.send(encode_bridge_membership(port, bridge), encode_hairpin_mode(port), encode_link_up(bridge))
            info = get_link(netlink, bridge)
            assert info in list_links(netlink)
            assert (info.name, info.kind, info.alias, info.mtu) == ("br9", "bridge", "of a test", 1400)
            assert info.hardware == "0a:58:00:00:00:01"
            assert get_link(netlink, port).master == bridge
            shown = show("link", "show", "port9")[0]
            assert shown["linkinfo"]["info_slave_data"]["hairpin"] is True
            assert "UP" in shown["flags"]
            assert show("link", "show", "br9")[0]["ifalias"] == "of a test"
            netlink.send(encode_link_deletion(bridge))
            assert "br9" not in {link.name for link in list_links(netlink)}

    run_in_network(lab.node, work)


def test_addresses(lab: Lab) -> None:
    def work() -> None:
        with open_route_socket() as netlink:
            index = socket.if_nametoindex("up0")
            for address in ("198.51.100.7/24", "2001:db8:7::7/64"):
                netlink.send(encode_address(index, address))
                assert address in {str(info.interface) for info in list_addresses(netlink) if info.index == index}
                netlink.send(encode_address_deletion(index, address))
                assert address not in {str(info.interface) for info in list_addresses(netlink)}

    run_in_network(lab.node, work)


@pytest.mark.parametrize(
    "route",
    [
        RouteInfo(destination="10.9.0.0/24", gateway="192.0.2.2", protocol=83),
        RouteInfo(destination="10.9.1.0/24", gateway="192.0.2.2", protocol=85, metric=4_000_000_000),
        RouteInfo(destination="10.9.2.0/24", protocol=85, metric=7, scope=nl.RT_SCOPE_LINK),
        RouteInfo(destination="10.9.3.0/24", gateway="10.9.3.1", protocol=85, is_onlink=True),
        RouteInfo(destination="2001:db8:9::/64", gateway="2001:db8::2", protocol=84, metric=9),
    ],
    ids=["gateway", "metric", "link", "onlink", "IPv6"],
)
def test_route_is_listed_as_it_was_added_and_deleted_as_listed(lab: Lab, route: RouteInfo) -> None:
    def work() -> None:
        with open_route_socket() as netlink:
            index = socket.if_nametoindex("up0")
            netlink.send(encode_route(replace(route, link=index)))
            netlink.send(encode_route(replace(route, link=index)))
            family = "-6" if ":" in route.destination else "-4"
            shown = show(family, "route", "show", "proto", str(route.protocol))
            assert [entry["dst"] for entry in shown] == [route.destination]
            assert shown[0].get("gateway", "") == route.gateway
            assert ("onlink" in shown[0]["flags"]) == route.is_onlink
            (listed,) = (entry for entry in list_routes(netlink) if entry.protocol == route.protocol)
            assert listed == replace(route, link=index)
            netlink.send(encode_route_deletion(listed))
            assert all(entry.protocol != route.protocol for entry in list_routes(netlink))

    run_in_network(lab.node, work)


def test_default_and_unreachable_routes_are_listed(lab: Lab) -> None:
    def work() -> None:
        with open_route_socket() as netlink:
            netlink.send(encode_route(RouteInfo(destination="10.9.0.0/16", protocol=83, type=nl.RTN_UNREACHABLE)))
            routes = {route.destination: route for route in list_routes(netlink)}
            assert routes["0.0.0.0/0"].gateway == "192.0.2.2"
            assert routes["::/0"].gateway == "2001:db8::2"
            assert (routes["10.9.0.0/16"].type, routes["10.9.0.0/16"].link) == (nl.RTN_UNREACHABLE, 0)

    run_in_network(lab.node, work)


def test_neighbor_has_a_permanent_hardware_address(lab: Lab) -> None:
    def work() -> None:
        with open_route_socket() as netlink:
            netlink.send(encode_neighbor(socket.if_nametoindex("up0"), "192.0.2.77", "0a:58:00:00:00:09"))
        shown = {entry["dst"]: entry for entry in show("neigh", "show", "dev", "up0")}["192.0.2.77"]
        assert (shown["lladdr"], shown["state"]) == ("0a:58:00:00:00:09", ["PERMANENT"])

    run_in_network(lab.node, work)


@needs_vxlan
@pytest.mark.parametrize("local", ["192.0.2.1", "2001:db8::1"])
def test_vxlan_link_and_its_forwarding_table(lab: Lab, local: str) -> None:
    other = "192.0.2.9" if "." in local else "2001:db8::9"

    def work() -> None:
        with open_route_socket() as netlink:
            underlay = socket.if_nametoindex("up0")
            netlink.send(
                encode_vxlan_creation(
                    "vx9",
                    identifier=77,
                    underlay=underlay,
                    local=local,
                    port=4789,
                    mtu=1300,
                    hardware="0a:58:00:00:00:01",
                )
            )
            index = socket.if_nametoindex("vx9")
            assert vxlan_underlay(get_link(netlink, index)) == (underlay, local)
            data = show("link", "show", "vx9")[0]["linkinfo"]["info_data"]
            assert (data["id"], data["port"], data["learning"], data["link"]) == (77, 4789, False, "up0")
            entry = ForwardingEntry(hardware="0a:58:00:00:00:09", address=other)
            netlink.send(encode_forwarding(index, entry))
            assert list_forwarding(netlink, index) == [entry]
            assert list_forwarding(netlink, underlay) == []
            netlink.send(encode_forwarding_deletion(index, entry))
            assert list_forwarding(netlink, index) == []

    run_in_network(lab.node, work)
