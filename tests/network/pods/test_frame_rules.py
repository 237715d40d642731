"""Frames of hostile pods, on real links: a pod with raw sockets is held to its addresses."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from sampan.host.clock import VirtualClock
from sampan.host.linux.network_namespace import run_in_network
from sampan.network.pods import BridgeConfig, BridgeNetwork, frame_rules, sysctls
from sampan.network.pods.config import hardware_for
from sampan.network.pods.frame_table import frame_table_for, link_local_address
from sampan.network.pods.nft import run_nft
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.network import PodBandwidth
from tests.network.pods import frames
from tests.network.pods.frames import BROADCAST, Wire, ethernet, wires
from tests.network.pods.lab import Lab, listening, needs_network, observe_source

pytestmark = needs_network

BRIDGE = "tstf0"
OWN, PEER, OTHER, GATEWAY = "10.77.0.2", "10.77.0.3", "10.77.0.4", "10.77.0.1"
OWN6, PEER6, OTHER6, GATEWAY6 = "fd77::2", "fd77::3", "fd77::4", "fd77::1"
OWN_MAC, PEER_MAC, OTHER_MAC, GATEWAY_MAC = (hardware_for(ip) for ip in (OWN, PEER, OTHER, GATEWAY))
OWN_LOCAL, OTHER_LOCAL = (str(link_local_address(mac)) for mac in (OWN_MAC, OTHER_MAC))
ALL_NODES, ALL_NODES_MAC = "ff02::1", "33:33:00:00:00:01"
MARKER, HOSTILE = b"marker", b"hostile"
_ADVERTISEMENT, _SOLICITATION, _ROUTER_ADVERTISEMENT, _REDIRECT, _LISTENER_QUERY = 136, 135, 134, 137, 130


class PodLab:
    """A node with the pods `own` (which is hostile), `peer` and `other`."""

    def __init__(self, directory: Path, *, bandwidth: PodBandwidth) -> None:
        self.lab = Lab(directory)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.network = self._run(self._make_network(directory))
        self.own, self.peer, self.other = (self.lab.add_namespace(name) for name in ("own", "peer", "other"))
        for name, namespace in (("own", self.own), ("peer", self.peer), ("other", self.other)):
            self._run(self.network.attach(name, namespace, [], bandwidth))

    async def _make_network(self, directory: Path) -> BridgeNetwork:
        from sampan.host.linux.network_namespace import NetworkNamespace

        network = BridgeNetwork(
            directory=directory / "records",
            config=BridgeConfig(bridge=BRIDGE),
            clock=VirtualClock(),
            namespace=NetworkNamespace(self.lab.node),
        )
        await network.__aenter__()
        network.use_pod_cidrs(["10.77.0.0/24", "fd77::/64"])
        return network

    def _run(self, work: object) -> BridgeNetwork:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)  # type: ignore[arg-type]

    def close(self) -> None:
        self._run(self.network.remove_all())
        self._run(self.network.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.lab.close()


def _hide_bridged() -> bool:
    for family in ("ip", "ip6"):
        Path(f"/proc/sys/net/bridge/bridge-nf-call-{family}tables").write_text("0")
    return False


@pytest.fixture(scope="module", params=["bridged", "routed", "shaped"])
def pods(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodLab]:
    """Yield pods on a kernel with br_netfilter, as on one without it, and with a bandwidth limit, whose packets take a
    detour through another device."""
    bandwidth = PodBandwidth(egress_bits_per_s=10**9 if request.param == "shaped" else 0)
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "routed":
            patch.setattr(sysctls, "enable_bridge_netfilter", _hide_bridged)
        lab = PodLab(tmp_path_factory.mktemp("namespaces"), bandwidth=bandwidth)
        try:
            yield lab
        finally:
            lab.close()


def ip4(source: str, mac: str = OWN_MAC, to: str = PEER) -> bytes:
    return ethernet(mac, hardware_for(to), frames.IPV4, frames.udp(source, to, HOSTILE))


def ip6(source: str, mac: str = OWN_MAC) -> bytes:
    return ethernet(mac, PEER_MAC, frames.IPV6, frames.udp(source, PEER6, HOSTILE))


def arp(sender_mac: str, sender_ip: str, *, mac: str = OWN_MAC, to: str = PEER_MAC, operation: int = 2) -> bytes:
    return ethernet(mac, to, frames.ARP, frames.arp(sender_mac, sender_ip, PEER, operation=operation))


def discovery(kind: int, content: bytes, source: str = OWN_LOCAL, mac: str = OWN_MAC) -> bytes:
    return ethernet(mac, ALL_NODES_MAC, frames.IPV6, frames.icmpv6(source, ALL_NODES, kind, content))


SPOOFED = {
    "address of another pod": ip4(OTHER),
    "address and MAC of another pod": ip4(OTHER, OTHER_MAC),
    "MAC of another pod": ip4(OWN, OTHER_MAC),
    "unused address": ip4("10.77.0.200"),
    "external address": ip4("8.8.8.8"),
    "address of the gateway": ip4(GATEWAY, GATEWAY_MAC),
    "no address": ip4("0.0.0.0"),
    "IPv6 address of another pod": ip6(OTHER6),
    "IPv6 address and MAC of another pod": ip6(OTHER6, OTHER_MAC),
    "unused IPv6 address": ip6("fd77::200"),
    "link-local address of another pod": ip6(OTHER_LOCAL),
    "link-local address of nobody": ip6("fe80::1"),
    "no IPv6 address": ip6("::"),
}
POISON = {
    "ARP reply for the gateway": arp(OWN_MAC, GATEWAY),
    "ARP reply for another pod": arp(OWN_MAC, OTHER),
    "gratuitous ARP for the gateway": arp(OWN_MAC, GATEWAY, to=BROADCAST),
    "ARP request in the name of the gateway": arp(OWN_MAC, GATEWAY, to=BROADCAST, operation=1),
    "ARP with the MAC of another pod for its own address": arp(OTHER_MAC, OWN),
    "ARP of another pod": arp(OTHER_MAC, OTHER, mac=OTHER_MAC),
    "neighbor advertisement for the gateway": discovery(_ADVERTISEMENT, frames.neighbor(GATEWAY6, OWN_MAC)),
    "neighbor advertisement for another pod": discovery(_ADVERTISEMENT, frames.neighbor(OTHER6, OWN_MAC)),
    "neighbor advertisement of another pod": discovery(_ADVERTISEMENT, frames.neighbor(OTHER6, OWN_MAC), source=OTHER6),
    "duplicate address detection for another pod": discovery(_SOLICITATION, frames.neighbor(OTHER6, flags=0), "::"),
    "neighbor solicitation in the name of another pod": discovery(
        _SOLICITATION, frames.neighbor(PEER6, OWN_MAC, option=1, flags=0), source=OTHER6
    ),
    "router advertisement": discovery(_ROUTER_ADVERTISEMENT, struct.pack("!BBHII", 64, 0, 1800, 0, 0)),
    "IPv6 redirect": discovery(_REDIRECT, bytes(4) + bytes(32)),
    "ICMP redirect": ethernet(
        OWN_MAC, PEER_MAC, frames.IPV4, frames.icmp(OWN, PEER, 5, socket.inet_aton(OWN) + bytes(28))
    ),
    "DHCP reply": ethernet(OWN_MAC, PEER_MAC, frames.IPV4, frames.udp(OWN, PEER, HOSTILE, ports=(67, 68))),
    "DHCPv6 reply": ethernet(OWN_MAC, PEER_MAC, frames.IPV6, frames.udp(OWN6, PEER6, HOSTILE, ports=(547, 546))),
    "IGMP query": ethernet(OWN_MAC, "01:00:5e:00:00:01", frames.IPV4, frames.igmp_query(OWN)),
    "multicast listener query": discovery(_LISTENER_QUERY, bytes(20)),
}
_PACKET = frames.udp(OWN, PEER, HOSTILE)
HIDDEN = {
    "VLAN tag": ethernet(OWN_MAC, PEER_MAC, frames.VLAN, struct.pack("!HH", 7, frames.IPV4) + _PACKET),
    "priority tag": ethernet(OWN_MAC, PEER_MAC, frames.VLAN, struct.pack("!HH", 0, frames.IPV4) + _PACKET),
    "two VLAN tags": ethernet(
        OWN_MAC, PEER_MAC, 0x88A8, struct.pack("!HHHH", 7, frames.VLAN, 8, frames.IPV4) + _PACKET
    ),
    "MPLS": ethernet(OWN_MAC, PEER_MAC, frames.MPLS, bytes.fromhex("000071ff") + _PACKET),
    "PPPoE": ethernet(OWN_MAC, PEER_MAC, frames.PPPOE, struct.pack("!BBHHH", 0x11, 0, 1, 2, 0x21) + _PACKET),
    "802.3 frame": ethernet(OWN_MAC, PEER_MAC, 3 + len(HOSTILE), b"\xaa\xaa\x03" + HOSTILE),
    "spanning tree": ethernet(OWN_MAC, "01:80:c2:00:00:00", 38, b"\x42\x42\x03" + bytes(35)),
    "unknown protocol": ethernet(OWN_MAC, PEER_MAC, 0x88B5, HOSTILE),
    "broadcast": ethernet(OWN_MAC, BROADCAST, frames.IPV4, frames.udp(OWN, "10.77.0.255", HOSTILE)),
    "limited broadcast": ethernet(OWN_MAC, BROADCAST, frames.IPV4, frames.udp(OWN, "255.255.255.255", HOSTILE)),
    "multicast": ethernet(OWN_MAC, "01:00:5e:00:00:01", frames.IPV4, frames.udp(OWN, "224.0.0.1", HOSTILE)),
    "packet to one pod in a broadcast frame": ethernet(OWN_MAC, BROADCAST, frames.IPV4, _PACKET),
    "IPv6 multicast": ethernet(OWN_MAC, ALL_NODES_MAC, frames.IPV6, frames.udp(OWN6, ALL_NODES, HOSTILE)),
    "IPv6 packet to one pod in a multicast frame": ethernet(
        OWN_MAC, ALL_NODES_MAC, frames.IPV6, frames.udp(OWN6, PEER6, HOSTILE)
    ),
}


def frames_at_peer(pods: PodLab, frame: bytes) -> list[bytes]:
    """Return the copies of the frame that reach the peer of the hostile pod, possibly with another head."""
    marker = ethernet(OWN_MAC, PEER_MAC, frames.IPV4, frames.udp(OWN, PEER, MARKER))
    with wires(pods.own, pods.peer) as (own, peer):
        own.send(frame, marker)
        received = peer.receive_until(MARKER)
    return [candidate for candidate in received if candidate.endswith(frame[-24:])]


@pytest.mark.parametrize("name", SPOOFED)
def test_a_packet_with_a_foreign_source_address_reaches_no_pod(pods: PodLab, name: str) -> None:
    assert frames_at_peer(pods, SPOOFED[name]) == []


@pytest.mark.parametrize("name", POISON)
def test_a_pod_cannot_poison_the_neighbor_caches_of_others(pods: PodLab, name: str) -> None:
    assert frames_at_peer(pods, POISON[name]) == []


@pytest.mark.parametrize("name", HIDDEN)
def test_a_frame_that_rules_cannot_check_reaches_no_pod(pods: PodLab, name: str) -> None:
    assert frames_at_peer(pods, HIDDEN[name]) == []


@pytest.mark.parametrize(
    "frame",
    [
        ip4(OWN),
        ip6(OWN6),
        ip6(OWN_LOCAL),
        arp(OWN_MAC, OWN),
        arp(OWN_MAC, OWN, to=BROADCAST),
        discovery(_ADVERTISEMENT, frames.neighbor(OWN6, OWN_MAC), source=OWN6),
        discovery(_ADVERTISEMENT, frames.neighbor(OWN_LOCAL, OWN_MAC)),
        discovery(_SOLICITATION, frames.neighbor(PEER6, OWN_MAC, option=1, flags=0), source=OWN6),
        discovery(_SOLICITATION, frames.neighbor(OWN6, flags=0), source="::"),
    ],
    ids=lambda frame: "",
)
def test_frames_with_the_addresses_of_the_pod_arrive(pods: PodLab, frame: bytes) -> None:
    assert len(frames_at_peer(pods, frame)) == 1


@pytest.mark.parametrize("destination", ["01:80:c2:00:00:03", "01:80:c2:00:00:0e", GATEWAY_MAC, BROADCAST])
@pytest.mark.parametrize("source", [OTHER, "8.8.8.8", "127.0.0.1"])
def test_the_node_does_not_see_spoofed_packets(pods: PodLab, destination: str, source: str) -> None:
    """Frames to reserved addresses do not pass the bridge: the IP stack gets them from the link itself."""
    with listening(pods.lab.node, 9, socket.SOCK_DGRAM) as server, wires(pods.own) as (own,):
        own.send(
            ethernet(OWN_MAC, destination, frames.IPV4, frames.udp(source, GATEWAY, HOSTILE)),
            ethernet(OWN_MAC, GATEWAY_MAC, frames.IPV4, frames.udp(OWN, GATEWAY, MARKER)),
        )
        assert server.recvfrom(100)[0] == MARKER


@pytest.mark.parametrize("destination", ["01:80:c2:00:00:00", "01:80:c2:00:00:03", "01:80:c2:00:00:0e", PEER_MAC])
def test_a_pod_does_not_get_the_frames_for_another_pod(pods: PodLab, destination: str) -> None:
    """A bridge learns from source addresses where to send frames."""
    with wires(pods.own, pods.peer) as (own, peer):
        own.send(ethernet(OTHER_MAC, destination, 0x88CC, bytes(60)), ip4(OWN, OTHER_MAC))
        peer.send(
            ethernet(PEER_MAC, OTHER_MAC, frames.IPV4, frames.udp(PEER, OTHER, HOSTILE)),
            ethernet(PEER_MAC, OWN_MAC, frames.IPV4, frames.udp(PEER, OWN, MARKER)),
        )
        assert [frame for frame in own.receive_until(MARKER) if HOSTILE in frame] == []


@pytest.mark.parametrize("address", ["10.77.0.200/24", f"{OTHER}/24", "10.77.0.201/24"])
def test_a_pod_that_changes_its_addresses_is_still_held(pods: PodLab, address: str) -> None:
    """With CAP_NET_ADMIN a pod adds addresses to its link and connects from them; nothing leaves its namespace."""
    from pyroute2 import IPRoute

    ip = address.partition("/")[0]

    def change(action: str) -> None:
        with IPRoute() as netlink:
            netlink.addr(action, index=socket.if_nametoindex("eth0"), address=ip, prefixlen=24)

    def connect() -> None:
        with socket.socket() as client:
            client.bind((ip, 0))
            client.settimeout(0.3)
            client.connect((PEER, 80))

    run_in_network(pods.own, lambda: change("add"))
    try:
        with listening(pods.peer, 80), pytest.raises(OSError, match=r"timed out|No route"):
            run_in_network(pods.own, connect)
    finally:
        run_in_network(pods.own, lambda: change("del"))


def test_a_pod_that_changes_its_hardware_address_is_cut_off_until_it_restores_it(pods: PodLab) -> None:
    from pyroute2 import IPRoute

    def change(hardware: str) -> None:
        with IPRoute() as netlink:
            netlink.link("set", index=socket.if_nametoindex("eth0"), address=hardware)

    def connect() -> None:
        socket.create_connection((PEER, 80), 0.3).close()

    with listening(pods.peer, 80) as server:
        run_in_network(pods.own, lambda: change(OTHER_MAC))
        with pytest.raises(OSError, match=r"timed out|No route"):
            run_in_network(pods.own, connect)
        run_in_network(pods.own, lambda: change(OWN_MAC))
        assert observe_source(server, pods.own, (PEER, 80)) == OWN


def test_a_link_of_no_pod_sends_nothing(pods: PodLab) -> None:
    """A link is on the bridge before its addresses are known, and for a moment after they are withdrawn."""
    from pyroute2 import IPRoute

    stranger = pods.lab.add_namespace(f"stranger-{id(pods)}")

    def connect() -> None:
        with IPRoute() as netlink, open(stranger, "rb") as file:
            netlink.link("add", ifname=f"{BRIDGE}-9", kind="veth", peer={"ifname": "eth0", "net_ns_fd": file.fileno()})
            index = socket.if_nametoindex(f"{BRIDGE}-9")
            netlink.link("set", index=index, master=socket.if_nametoindex(BRIDGE), state="up")

    def bring_up() -> None:
        with IPRoute() as netlink:
            netlink.link("set", index=socket.if_nametoindex("eth0"), state="up")

    run_in_network(pods.lab.node, connect)
    run_in_network(stranger, bring_up)
    marker = ethernet(OWN_MAC, PEER_MAC, frames.IPV4, frames.udp(OWN, PEER, MARKER))
    with ExitStack() as stack:
        foreign, own, peer = (Wire(namespace) for namespace in (stranger, pods.own, pods.peer))
        for wire in (foreign, own, peer):
            stack.callback(wire.close)
        foreign.send(ip4(OWN), arp(OWN_MAC, OWN), ip6(OWN6))
        own.send(marker)
        assert [frame for frame in peer.receive_until(MARKER) if HOSTILE in frame] == []
    run_in_network(pods.lab.node, lambda: run_ip_link_deletion(f"{BRIDGE}-9"))


def run_ip_link_deletion(name: str) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as netlink:
        netlink.link("del", index=socket.if_nametoindex(name))


# -- the table over time -----------------------------------------------------------------------------------------------


def elements_of(lab: Lab) -> Sequence[str]:
    text = run_in_network(lab.node, lambda: run_nft("list", "table", "bridge", frame_table_for("tst0"))).decode()
    return sorted(line for line in text.replace(",", "\n").splitlines() if "0a:58" in line)


def with_network(lab: Lab, work: Callable[[BridgeNetwork], object]) -> None:
    async def main() -> None:
        config = BridgeConfig(bridge="tst0")
        network = BridgeNetwork(directory=lab.node.parent / "records", config=config, clock=VirtualClock())
        async with network:
            network.use_pod_cidrs(["10.77.0.0/24", "fd77::/64"])
            await work(network)  # type: ignore[misc]

    lab.run(main)


def test_elements_come_and_go_with_pods_and_survive_a_restart(lab: Lab) -> None:
    first, second = lab.add_namespace("one"), lab.add_namespace("two")

    async def attach(network: BridgeNetwork) -> None:
        await network.attach("one", first, [])
        assert len(elements_of(lab)) == 5
        await network.attach("two", second, [])
        assert len(elements_of(lab)) == 10

    async def detach(network: BridgeNetwork) -> None:
        assert len(elements_of(lab)) == 10
        await network.detach("one")
        assert len(elements_of(lab)) == 5
        await network.remove_all()

    with_network(lab, attach)
    with_network(lab, detach)
    tables = run_in_network(lab.node, lambda: run_nft("list", "tables")).decode()
    assert frame_table_for("tst0") not in tables


def test_a_removed_table_is_written_again_with_the_next_pod_and_by_the_check(lab: Lab) -> None:
    first, second = lab.add_namespace("one"), lab.add_namespace("two")
    delete = ("delete", "table", "bridge", frame_table_for("tst0"))

    async def main(network: BridgeNetwork) -> None:
        await network.attach("one", first, [])
        await asyncio.to_thread(run_in_network, lab.node, lambda: run_nft(*delete))
        await network.attach("two", second, [])
        assert len(elements_of(lab)) == 10
        await asyncio.to_thread(run_in_network, lab.node, lambda: run_nft(*delete))
        await network._run_in_thread(network._machine.check)
        assert len(elements_of(lab)) == 10
        await asyncio.to_thread(run_in_network, lab.node, lambda: run_nft(*delete))
        await network.detach("one")
        await network.remove_all()

    with_network(lab, main)


def test_with_an_old_nft_everything_but_targets_is_checked(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = lab.add_namespace("one")

    def refuse_targets(*args: str, text: str = "") -> bytes:
        if "typeof" in text:
            raise RuntimeFailure("x", "syntax error, unexpected typeof")
        return run_nft(*args, text=text)

    monkeypatch.setattr(frame_rules, "run_nft", refuse_targets)

    async def main(network: BridgeNetwork) -> None:
        await network.attach("one", first, [])
        assert len(elements_of(lab)) == 3
        await network.remove_all()

    with_network(lab, main)
    assert "nft is older than 1.0.3" in caplog.text


def test_a_kernel_without_the_bridge_family_is_reported_and_connects_pods(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = lab.add_namespace("one")

    def refuse_bridge_family(*args: str, text: str = "") -> bytes:
        if "table bridge" in text:
            raise RuntimeFailure("x", "Operation not supported")
        return run_nft(*args, text=text)

    monkeypatch.setattr(frame_rules, "run_nft", refuse_bridge_family)

    async def main(network: BridgeNetwork) -> None:
        with caplog.at_level(logging.WARNING):
            assert await network.attach("one", first, []) == [OWN, OWN6]
        await network.detach("one")
        await network.remove_all()

    with_network(lab, main)
    assert "pods of bridge tst0 are not held to their addresses" in caplog.text
