"""Routes and tunnels between machines, with real packets."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path
from typing import TypeVar

import pytest

from sampan.host.linux.network_namespace import run_in_network
from sampan.network.mesh.config import ROUTES, VXLAN, VXLAN_PORT, can_create
from sampan.network.mesh.links import MeshLinks, has_leftovers, wireguard_settings
from sampan.network.mesh.mesh_plan import MeshMachine, MeshPlan, hardware_address, plan_mesh, vxlan_identifier
from sampan.network.nft import list_rules, run_nft
from tests.network.machines import Machines
from tests.network.pods.lab import listening, needs_network, observe_source

pytestmark = needs_network

T = TypeVar("T")

_MASQUERADE = """
table ip machine {
  chain postrouting {
    type nat hook postrouting priority srcnat;
    ip saddr 10.77.0.7 masquerade
  }
}
"""


def run_with_links(namespace: Path, call: Callable[[MeshLinks], T]) -> T:
    def work() -> T:
        links = MeshLinks(identity="test", cluster=b"CA", wireguard_port=51820)
        try:
            return call(links)
        finally:
            links.close()

    return run_in_network(namespace, work)


def machine(address: str, cidr: str, *offered: str) -> MeshMachine:
    return MeshMachine(
        nodes=[address], interfaces=[ip_interface(address)], destinations=[ip_network(cidr)], offered=offered
    )


def apply(namespace: Path, own: MeshMachine, *others: MeshMachine) -> None:
    plan = plan_mesh(own, others, wireguard_port=51820)
    run_with_links(namespace, lambda links: links.apply(plan, own.interfaces[0], ""))


def add_pod_address(namespace: Path, address: str) -> None:
    """Add an address to the loopback interface, in place of a pod."""
    from pyroute2 import IPRoute

    def work() -> None:
        with IPRoute() as netlink:
            netlink.addr("add", index=1, address=address)

    run_in_network(namespace, work)


def routes(namespace: Path) -> list[str]:
    from pyroute2 import IPRoute

    def work() -> list[str]:
        with IPRoute() as netlink:
            routes = netlink.get_routes(family=socket.AF_INET, table=254)
            return sorted(str(route.get("dst")) for route in routes if route.get("dst"))

    return run_in_network(namespace, work)


def links_of(namespace: Path) -> list[str]:
    return sorted(name for _, name in run_in_network(namespace, socket.if_nameindex))


@pytest.mark.parametrize(
    ("backend", "address_b"),
    [
        (ROUTES, "10.77.0.2/24"),
        pytest.param(
            VXLAN, "10.78.0.2/24", marks=pytest.mark.skipif(not can_create(VXLAN), reason="the kernel has no VXLAN")
        ),
    ],
)
def test_pods_of_two_machines_reach_each_other(machines: Machines, backend: str, address_b: str) -> None:
    a, b = machines.add("a", "10.77.0.1/24"), machines.add("b", address_b)
    add_pod_address(a, "10.200.0.5/32")
    add_pod_address(b, "10.200.1.5/32")
    machine_a, machine_b = (
        machine("10.77.0.1/24", "10.200.0.0/24", backend),
        machine(address_b, "10.200.1.0/24", backend),
    )
    for _ in range(2):  # the second time changes nothing
        apply(a, machine_a, machine_b)
        apply(b, machine_b, machine_a)
    with listening(b, 8080) as server:
        source = observe_source(server, a, ("10.200.1.5", 8080))
    assert source == ("10.77.0.1" if backend == ROUTES else "10.200.0.0")
    assert "10.200.1.0" in routes(a)
    assert run_in_network(a, lambda: has_leftovers("test"))
    assert not run_in_network(a, lambda: has_leftovers("other"))
    for namespace in (a, b):
        run_with_links(namespace, lambda links: links.remove_all())
        assert "10.200.1.0" not in routes(namespace)
        assert links_of(namespace) == ["eth0", "lo"]
        assert run_in_network(namespace, lambda: list_rules("tables")["nftables"][1:]) == []
        assert not run_in_network(namespace, lambda: has_leftovers("test"))


def encapsulated_datagram(*, source: str, destination: str, text: bytes, machine: str, identifier: int) -> bytes:
    """Return a VXLAN packet for the tunnel of a machine, with a datagram from one pod to port 9000 of another."""
    udp = struct.pack("!HHHH", 4000, 9000, 8 + len(text), 0) + text
    addresses = ip_address(source).packed + ip_address(destination).packed
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + addresses
    total = sum(struct.unpack("!10H", ip))
    checksum = 0xFFFF - (total % 0xFFFF or 0xFFFF)
    hardware = bytes.fromhex(hardware_address(machine).replace(":", ""))
    frame = hardware + bytes.fromhex("020000000001") + b"\x08\x00" + ip[:10] + struct.pack("!H", checksum) + ip[12:]
    return struct.pack("!II", 0x08000000, identifier << 8) + frame + udp


@pytest.mark.skipif(not can_create(VXLAN), reason="the kernel has no VXLAN")
@pytest.mark.parametrize("is_masqueraded", [False, True])
def test_a_tunnel_admits_no_packets_of_pods_or_strangers(machines: Machines, is_masqueraded: bool) -> None:
    """A pod whose packets get the address of its machine, or a stranger, sends a packet with the address of a pod."""
    a, b = machines.add("a", "10.77.0.1/24"), machines.add("b", "10.78.0.2/24")
    stranger = machines.add("c", "10.77.0.7/24")
    add_pod_address(a, "10.200.0.5/32")
    add_pod_address(b, "10.200.1.5/32")
    machine_a, machine_b = (
        machine("10.77.0.1/24", "10.200.0.0/24", VXLAN),
        machine("10.78.0.2/24", "10.200.1.0/24", VXLAN),
    )
    apply(a, machine_a, machine_b)
    apply(b, machine_b, machine_a)
    if is_masqueraded:
        forward_for(a, stranger)

    def send(text: bytes) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            frame = encapsulated_datagram(
                source="10.200.0.9",
                destination="10.200.1.5",
                text=text,
                machine="10.78.0.2",
                identifier=vxlan_identifier(b"CA"),
            )
            sender.sendto(frame, ("10.78.0.2", VXLAN_PORT))

    def send_honest() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"honest", ("10.200.1.5", 9000))

    with listening(b, 9000, socket.SOCK_DGRAM) as server:
        server.settimeout(60)
        run_in_network(stranger, lambda: send(b"spoofed"))
        run_in_network(a, send_honest)
        assert server.recv(100) == b"honest"
        for namespace in (a, b):
            run_in_network(namespace, remove_guard)
        run_in_network(stranger, lambda: send(b"arrives without the rules"))
        assert server.recv(100) == b"arrives without the rules"
        for namespace, own, other in ((a, machine_a, machine_b), (b, machine_b, machine_a)):
            apply(namespace, own, other)  # what other programs have removed is restored
        run_in_network(stranger, lambda: send(b"spoofed again"))
        run_in_network(a, send_honest)
        assert server.recv(100) == b"honest"


def forward_for(machine: Path, sender: Path) -> None:
    """Let a machine forward the packets of another namespace, with its own address."""
    from pyroute2 import IPRoute

    def forward() -> None:
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        run_nft("-f", "-", text=_MASQUERADE)

    def add_route() -> None:
        with IPRoute() as netlink:
            netlink.route("add", dst="10.78.0.2/32", gateway="10.77.0.1")

    run_in_network(machine, forward)
    run_in_network(sender, add_route)


def remove_guard() -> None:
    for entry in list_rules("tables")["nftables"]:
        name = entry.get("table", {}).get("name", "")
        if name.startswith("sampan-tunnel-"):
            run_nft("delete", "table", "inet", name)


@pytest.mark.skipif(not can_create(VXLAN), reason="the kernel has no VXLAN")
def test_a_plan_without_peers_removes_the_tunnel(machines: Machines) -> None:
    a = machines.add("a", "10.77.0.1/24")
    first, second = machine("10.77.0.1/24", "10.200.0.0/24", VXLAN), machine("10.78.0.2/24", "10.200.1.0/24", VXLAN)
    apply(a, first, second)
    assert len(links_of(a)) == 3
    moved = machine("10.78.0.9/24", "10.200.1.0/24", VXLAN)
    apply(a, first, moved)
    assert len(links_of(a)) == 3
    apply(a, first)
    assert links_of(a) == ["eth0", "lo"]


def test_routes_of_other_programs_are_kept(machines: Machines) -> None:
    from pyroute2 import IPRoute

    a = machines.add("a", "10.77.0.1/24")

    def add() -> None:
        with IPRoute() as netlink:
            netlink.route("add", dst="10.201.0.0/24", gateway="10.77.0.9")

    run_in_network(a, add)
    apply(a, machine("10.77.0.1/24", "10.200.0.0/24", ROUTES), machine("10.77.0.2/24", "10.200.1.0/24", ROUTES))
    run_with_links(a, lambda links: links.remove_all())
    assert routes(a) == ["10.201.0.0", "10.77.0.0"]


def test_gateway_outside_all_subnets_raises_mesh_error(machines: Machines) -> None:
    from sampan.network.mesh.links import MeshError
    from sampan.network.mesh.mesh_plan import MeshRoute

    a = machines.add("a", "10.77.0.1/24")
    plan = MeshPlan(routes=frozenset({MeshRoute("10.200.1.0/24", ROUTES, "192.0.2.1")}))
    with pytest.raises(MeshError, match=r"subnet of 192\.0\.2\.1"):
        run_with_links(a, lambda links: links.apply(plan, ip_interface("10.77.0.1/24"), ""))


def test_wireguard_peer_settings() -> None:
    settings = wireguard_settings("key", "[fd00::1]:51820", ["10.200.1.0/24"])
    assert (settings.address, settings.port, settings.keepalive_s) == ("fd00::1", 51820, 25)
