"""Pods whose policies deny everything try to pass them with the addresses of others."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from sampan.api.types.networking_v1 import NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicySpec
from sampan.host.linux.network_namespace import run_in_network
from sampan.network.pods.config import hardware_for
from tests.network.pods import frames
from tests.network.pods.frames import ethernet, wires
from tests.network.pods.lab import listening, needs_network
from tests.network.policy import objects
from tests.network.policy.policy_lab import PolicyLab

pytestmark = needs_network

SERVER, ADMITTED, ISOLATED, OPEN = "x/a", "x/b", "y/b", "z/a"


@pytest.fixture(scope="module", params=["policy_lab", "routed_lab"])
def either_lab(request: pytest.FixtureRequest) -> PolicyLab:
    lab: PolicyLab = request.getfixturevalue(request.param)
    return lab


@pytest.fixture
def lab(either_lab: PolicyLab) -> PolicyLab:
    """Return a lab in which only `ADMITTED` may connect to `SERVER`, and `ISOLATED` to nobody."""
    lab = either_lab
    lab.reset()
    peer = NetworkPolicyPeer(podSelector=objects.selector(pod="b"))
    admits = NetworkPolicySpec(
        podSelector=objects.selector(pod="a"), ingress=[NetworkPolicyIngressRule(from_=[peer])], policyTypes=["Ingress"]
    )
    lab.policy("x/admits-b", admits)
    denies = NetworkPolicySpec(podSelector=objects.selector(pod="b"), policyTypes=["Ingress", "Egress"])
    lab.policy("y/denies-all", denies)
    lab.commit()
    return lab


@contextmanager
def receiving(lab: PolicyLab, pod: str) -> Iterator[socket.socket]:
    with listening(lab.network_namespaces[pod], 9, socket.SOCK_DGRAM) as server:
        yield server


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("target", [SERVER, OPEN])
@pytest.mark.parametrize("source", [ADMITTED, "unused", "external"])
@pytest.mark.parametrize("mac_of", [ISOLATED, ADMITTED])
def test_a_spoofed_source_passes_no_policy(lab: PolicyLab, version: int, target: str, source: str, mac_of: str) -> None:
    index = 0 if version == 4 else 1
    addresses = {"unused": ("10.77.0.200", "fd77::200"), "external": ("8.8.8.8", "2001:db8::8"), **lab.addresses}
    spoofed, to = addresses[source][index], lab.addresses[target][index]
    gateway, kind = hardware_for("10.77.0.1"), frames.IPV4 if version == 4 else frames.IPV6
    admitted = lab.addresses[ADMITTED][index]
    with ExitStack() as stack:
        server = stack.enter_context(receiving(lab, target))
        hostile, honest = stack.enter_context(wires(lab.network_namespaces[ISOLATED], lab.network_namespaces[ADMITTED]))
        macs = {name: hardware_for(lab.addresses[name][0]) for name in (ISOLATED, ADMITTED, target)}
        for destination in (macs[target], gateway):
            hostile.send(ethernet(macs[mac_of], destination, kind, frames.udp(spoofed, to, b"spoofed")))
        honest.send(ethernet(macs[ADMITTED], macs[target], kind, frames.udp(admitted, to, b"honest")))
        assert server.recvfrom(20)[0] == b"honest"


@pytest.mark.parametrize("version", [4, 6])
def test_an_isolated_pod_has_no_conversation_through_an_address_of_its_own_choice(lab: PolicyLab, version: int) -> None:
    """It answers the address resolution of an unused address, and waits for the answer to its connection."""
    index = 0 if version == 4 else 1
    spoofed, to = ("10.77.0.200", "fd77::200")[index], lab.addresses[OPEN][index]
    mac, target = hardware_for(lab.addresses[ISOLATED][0]), hardware_for(lab.addresses[OPEN][0])
    with ExitStack() as stack:
        stack.enter_context(receiving(lab, OPEN))
        hostile, peer = stack.enter_context(wires(lab.network_namespaces[ISOLATED], lab.network_namespaces[OPEN]))
        if version == 4:
            claim = ethernet(mac, target, frames.ARP, frames.arp(mac, spoofed, to))
            kind = frames.IPV4
        else:
            content = frames.icmpv6(lab.addresses[ISOLATED][1], to, 136, frames.neighbor(spoofed, mac))
            claim, kind = ethernet(mac, target, frames.IPV6, content), frames.IPV6
        hostile.send(claim, ethernet(mac, target, kind, frames.udp(spoofed, to, b"spoofed")))
        own = lab.addresses[ISOLATED][0]
        hostile.send(ethernet(mac, target, frames.ARP, frames.arp(mac, own, lab.addresses[OPEN][0])))
        received = peer.receive_until(frames.arp(mac, own, lab.addresses[OPEN][0]))
        assert [frame for frame in received if b"spoofed" in frame or claim[14:] in frame] == []


@pytest.mark.parametrize("to", ["10.77.0.255", "255.255.255.255", "224.0.0.1"])
def test_an_isolated_pod_gets_no_broadcast_of_a_pod_that_may_not_connect(lab: PolicyLab, to: str) -> None:
    mac = hardware_for(lab.addresses[OPEN][0])
    group = "01:00:5e:00:00:01" if to == "224.0.0.1" else frames.BROADCAST
    with receiving(lab, SERVER) as server, wires(lab.network_namespaces[OPEN]) as (sender,):
        sender.send(ethernet(mac, group, frames.IPV4, frames.udp(lab.addresses[OPEN][0], to, b"broadcast")))
        run_in_network(lab.network_namespaces[ADMITTED], lambda: _send(lab.addresses[SERVER][0]))
        assert server.recvfrom(20)[0] == b"honest"


def _send(to: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"honest", (to, 9))
