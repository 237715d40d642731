"""Real packets between pods in namespaces, compared with the oracle."""

from __future__ import annotations

import socket
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sampan.api.types.networking_v1 import NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicySpec
from sampan.host.linux.network_namespace import run_in_network
from sampan.network.nft import run_nft
from sampan.network.policy.policy_table import TableChain
from tests.network.pods.lab import NODE_IP, listening, needs_network
from tests.network.policy import objects
from tests.network.policy.policy_lab import PODS, PolicyLab

pytestmark = needs_network


@pytest.mark.parametrize("version", [4, 6])
def test_without_policies_all_pods_reach_each_other(policy_lab: PolicyLab, version: int) -> None:
    policy_lab.reset()
    assert all(policy_lab.check(version=version).values())


@pytest.mark.parametrize("version", [4, 6])
def test_pods_on_the_same_bridge_are_filtered(policy_lab: PolicyLab, version: int) -> None:
    policy_lab.reset()
    policy_lab.policy("x/deny", NetworkPolicySpec(policyTypes=["Ingress", "Egress"]))
    policy_lab.commit()
    through = policy_lab.check(version=version)
    assert {pair for pair, is_through in through.items() if is_through} == {
        (source, destination)
        for source in PODS
        for destination in PODS
        if source != destination and "x" not in source + destination
    }
    policy_lab.check(protocol="UDP", version=version)


@settings(max_examples=8, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(
    policies=st.lists(
        st.tuples(st.sampled_from("xyz"), st.sampled_from("pqr"), objects.policies()), min_size=2, max_size=6
    ),
    chance=st.randoms(use_true_random=False),
)
def test_random_policies_decide_like_the_oracle(
    policy_lab: PolicyLab, policies: list[tuple[str, str, NetworkPolicySpec]], chance: Random
) -> None:
    policy_lab.reset()
    for key in PODS:
        policy_lab.relabel(key, {name: chance.choice("12") for name in chance.choice(("", "a", "b", "ab"))})
    for namespace in "xyz":
        policy_lab.put(objects.namespace(namespace, {"a": chance.choice("12")}))
    for namespace, name, spec in policies:
        policy_lab.policy(f"{namespace}/{name}", spec)
    policy_lab.commit()
    for protocol, port, version in (("TCP", 80, 4), ("UDP", 81, 4), ("TCP", 81, 6), ("SCTP", 80, 4)):
        policy_lab.check(port, protocol, version)


def test_the_node_and_the_kubelet_reach_isolated_pods(policy_lab: PolicyLab) -> None:
    policy_lab.reset()
    policy_lab.policy("x/deny", NetworkPolicySpec(policyTypes=["Ingress", "Egress"]))
    policy_lab.commit()
    run_in_network(policy_lab.lab.outside, _route_to_pods)
    for namespace in (policy_lab.lab.node, policy_lab.lab.outside):
        client = run_in_network(namespace, lambda: socket.create_connection((policy_lab.addresses["x/a"][0], 80), 20))
        client.close()


def test_pod_isolated_for_egress_can_reply_to_its_clients(policy_lab: PolicyLab) -> None:
    """Only the direction of the first packet of a connection counts."""
    policy_lab.reset()
    policy_lab.policy("x/no-egress", NetworkPolicySpec(policyTypes=["Egress"]))
    policy_lab.commit()
    through = policy_lab.check()
    assert through["y/a", "x/a"]
    assert not through["x/a", "y/a"]


def test_established_connection_survives_a_policy_that_denies_it(policy_lab: PolicyLab) -> None:
    """A policy applies to new connections, also where it isolates both ends in both directions."""
    policy_lab.reset()
    client_namespace, server_namespace = (policy_lab.network_namespaces[key] for key in ("y/a", "x/a"))
    connect = partial(socket.create_connection, (policy_lab.addresses["x/a"][0], 4711))
    with (
        listening(server_namespace, 4711) as server,
        run_in_network(client_namespace, lambda: connect(20)) as client,
        server.accept()[0] as peer,
    ):
        peer.settimeout(20)
        for namespace in "xy":
            policy_lab.policy(f"{namespace}/deny", NetworkPolicySpec(policyTypes=["Ingress", "Egress"]))
        policy_lab.commit()
        for sender, receiver in ((client, peer), (peer, client)):
            sender.sendall(b"still here")
            assert receiver.recv(20) == b"still here"
        with pytest.raises(TimeoutError):
            run_in_network(client_namespace, lambda: connect(0.3))


def test_policies_apply_to_pod_addresses_behind_a_cluster_ip(policy_lab: PolicyLab) -> None:
    """Policies apply after the translation of the destination and before that of the source."""
    policy_lab.reset()
    target = policy_lab.addresses["x/a"][0]
    text = f"""
        table ip service {{
            chain prerouting {{ type nat hook prerouting priority dstnat; ip daddr 10.96.0.1 dnat to {target}; }}
            chain postrouting {{ type nat hook postrouting priority srcnat; ct status dnat masquerade; }}
        }}
    """
    run_in_network(policy_lab.lab.node, lambda: run_nft("-f", "-", text=text))
    try:
        peer = NetworkPolicyPeer(
            podSelector=objects.selector(pod="b"),
            namespaceSelector=objects.selector(**{"kubernetes.io/metadata.name": "y"}),
        )
        policy_lab.policy(
            "x/from-y-b",
            NetworkPolicySpec(podSelector=objects.selector(pod="a"), ingress=[NetworkPolicyIngressRule(from_=[peer])]),
        )
        policy_lab.commit()
        allowed = run_in_network(
            policy_lab.network_namespaces["y/b"], lambda: socket.create_connection(("10.96.0.1", 80), 20)
        )
        allowed.close()
        with pytest.raises(TimeoutError):
            run_in_network(
                policy_lab.network_namespaces["y/a"], lambda: socket.create_connection(("10.96.0.1", 80), 0.3)
            )
        loop = run_in_network(
            policy_lab.network_namespaces["x/a"], lambda: socket.create_connection(("10.96.0.1", 80), 20)
        )
        loop.close()
    finally:
        run_in_network(policy_lab.lab.node, lambda: run_nft("delete", "table", "ip", "service"))


def test_link_local_addresses_do_not_evade_policies(policy_lab: PolicyLab) -> None:
    policy_lab.reset()
    policy_lab.policy("x/deny", NetworkPolicySpec(policyTypes=["Ingress"]))
    policy_lab.commit()
    address = run_in_network(policy_lab.network_namespaces["x/a"], _link_local)
    link = run_in_network(policy_lab.network_namespaces["y/a"], lambda: socket.if_nametoindex("eth0"))
    with run_in_network(policy_lab.network_namespaces["y/a"], lambda: socket.socket(socket.AF_INET6)) as client:
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.connect((address, 80, 0, link))


def test_a_deleted_table_is_restored(policy_lab: PolicyLab) -> None:
    policy_lab.reset()
    policy_lab.policy("x/deny", NetworkPolicySpec(policyTypes=["Ingress"]))
    policy_lab.commit()
    run_in_network(policy_lab.lab.node, lambda: run_nft("delete", "table", "inet", "sampan-netpol"))
    policy_lab.run(policy_lab.enforcer.audit())  # this also deletes the unused chains of other tests
    before = run_in_network(policy_lab.lab.node, lambda: run_nft("list", "table", "inet", "sampan-netpol"))
    for command in (
        ("delete", "table", "inet", "sampan-netpol"),
        ("flush", "chain", "inet", "sampan-netpol", "ingress"),
        ("flush", "map", "inet", "sampan-netpol", "pod-ingress4"),
    ):
        run_in_network(policy_lab.lab.node, partial(run_nft, *command))
        policy_lab.run(policy_lab.enforcer.audit())
        assert run_in_network(policy_lab.lab.node, lambda: run_nft("list", "table", "inet", "sampan-netpol")) == before
    run_in_network(policy_lab.lab.node, lambda: run_nft("delete", "table", "inet", "sampan-netpol"))
    policy_lab.policy("y/deny", NetworkPolicySpec(policyTypes=["Ingress"]))
    policy_lab.commit()
    policy_lab.check()


def test_policy_rejected_by_nft_allows_no_traffic_and_other_policies_stay(
    policy_lab: PolicyLab, caplog: pytest.LogCaptureFixture
) -> None:
    policy_lab.reset()
    for name in "abc":
        rule = NetworkPolicyIngressRule(from_=[NetworkPolicyPeer(podSelector=objects.selector(pod="c"))])
        spec = NetworkPolicySpec(podSelector=objects.selector(pod=name), ingress=[rule])
        policy_lab.policy(f"x/to-{name}", spec)
    compiler = policy_lab.enforcer.compiler
    chain = next(chain for chain, key in compiler.policy_chains().items() if key.name == "to-a")
    compiler.table.put_chain(chain, TableChain(["ip saddr 10.0.0.0/99 accept"]))
    policy_lab.commit()
    assert "network policy x/to-a is not enforced, and allows no traffic" in caplog.text
    expected = {
        ("x/c", "x/a", "TCP", 80): False,
        ("x/c", "x/b", "TCP", 80): True,
        ("x/b", "x/a", "TCP", 80): False,
        ("y/a", "x/b", "TCP", 80): False,
        ("x/a", "y/a", "TCP", 80): True,
    }
    assert policy_lab.reachable(expected, expected) == expected
    policy_lab.reset()
    assert all(policy_lab.check().values())


def _route_to_pods() -> None:
    from pyroute2 import IPRoute

    with IPRoute() as netlink:
        netlink.route("replace", dst="10.77.0.0/24", gateway=NODE_IP)


def _link_local() -> str:
    for line in Path("/proc/thread-self/net/if_inet6").read_text().splitlines():
        digits, *_, link = line.split()
        if digits.startswith("fe80") and link == "eth0":
            return str(ip_address(bytes.fromhex(digits)))
    raise AssertionError("eth0 has no link-local address")
