"""Policies between pods of one bridge on a kernel without br_netfilter: the node routes the frames."""

from __future__ import annotations

import socket

import pytest

from sampan.api.types.networking_v1 import NetworkPolicySpec
from sampan.host.linux.network_namespace import run_in_network
from sampan.network.nft import run_nft
from tests.network.pods.lab import needs_network
from tests.network.policy.policy_lab import BRIDGE, PolicyLab

pytestmark = needs_network


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
def test_pods_reach_each_other_and_policies_apply(routed_lab: PolicyLab, version: int, protocol: str) -> None:
    routed_lab.reset()
    assert all(routed_lab.check(protocol=protocol, version=version).values())
    routed_lab.policy("x/deny", NetworkPolicySpec(policyTypes=["Ingress", "Egress"]))
    routed_lab.commit()
    assert not all(routed_lab.check(protocol=protocol, version=version).values())


def test_frames_table_is_required_and_restored(routed_lab: PolicyLab) -> None:
    """Without the table, policies do not apply, because the lab behaves as on a kernel without br_netfilter."""
    routed_lab.reset()
    routed_lab.policy("x/deny", NetworkPolicySpec(policyTypes=["Ingress"]))
    routed_lab.commit()
    table = ("table", "bridge", f"sampan-frames-{BRIDGE}")
    before = run_in_network(routed_lab.lab.node, lambda: run_nft("list", *table))
    run_in_network(routed_lab.lab.node, lambda: run_nft("delete", *table))
    client = run_in_network(
        routed_lab.network_namespaces["y/a"], lambda: socket.create_connection((routed_lab.addresses["x/a"][0], 80), 20)
    )
    client.close()
    routed_lab.check_network()
    assert run_in_network(routed_lab.lab.node, lambda: run_nft("list", *table)) == before
    routed_lab.check()
