"""Policies with more peers and ports than a node can use: omitted rules allow no traffic."""

from __future__ import annotations

import pytest

from sampan.api.limits import NETWORK_POLICY_PEERS
from sampan.api.types.networking_v1 import (
    IPBlock,
    NetworkPolicy,
    NetworkPolicyIngressRule,
    NetworkPolicyPeer,
    NetworkPolicyPort,
    NetworkPolicySpec,
)
from sampan.network.policy.policy_spec import INGRESS, RuleSpec, is_truncated, policy_spec
from tests.input_cost import check_cost
from tests.network.policy.objects import policy, selector


def ingress(*rules: NetworkPolicyIngressRule) -> NetworkPolicy:
    return policy("x/p", NetworkPolicySpec(podSelector=selector(), ingress=list(rules)))


def block(number: int, exceptions: int = 0) -> NetworkPolicyPeer:
    cidr = f"10.{number // 256}.{number % 256}.0/24"
    return NetworkPolicyPeer(ipBlock=IPBlock(cidr=cidr, except_=[cidr.replace("/24", "/32")] * exceptions))


def rules_of(subject: NetworkPolicy) -> tuple[RuleSpec, ...]:
    return policy_spec(subject).rules[INGRESS]


def test_policy_below_the_limit_is_not_truncated() -> None:
    subject = ingress(NetworkPolicyIngressRule(from_=[block(2 * number) for number in range(1000)]))
    assert not is_truncated(subject)
    assert len(rules_of(subject)[0].blocks[0][1]) == 1000


def test_rule_with_too_many_peers_keeps_the_first_peers() -> None:
    peers = [block(2 * number) for number in range(NETWORK_POLICY_PEERS + 10)]
    subject = ingress(NetworkPolicyIngressRule(from_=peers), NetworkPolicyIngressRule())
    (rule,) = rules_of(subject)
    assert is_truncated(subject)
    assert len(rule.blocks[0][1]) == NETWORK_POLICY_PEERS - 1


@pytest.mark.parametrize(
    "last",
    [
        NetworkPolicyIngressRule(from_=[block(0)]),
        NetworkPolicyIngressRule(from_=[block(0, exceptions=NETWORK_POLICY_PEERS)]),
        NetworkPolicyIngressRule(ports=[NetworkPolicyPort(port=80)]),
        NetworkPolicyIngressRule(),
    ],
)
def test_rule_beyond_the_limit_is_omitted(last: NetworkPolicyIngressRule) -> None:
    peers = [block(2 * number) for number in range(NETWORK_POLICY_PEERS - 1)]
    assert len(rules_of(ingress(NetworkPolicyIngressRule(from_=peers), last))) == 1


def test_rule_with_too_many_ports_is_omitted() -> None:
    ports = [NetworkPolicyPort(port=1 + number) for number in range(NETWORK_POLICY_PEERS + 1)]
    assert rules_of(ingress(NetworkPolicyIngressRule(ports=ports))) == ()


def test_largest_policy_has_bounded_cost() -> None:
    subject = ingress(*[NetworkPolicyIngressRule(from_=[block(number % 60_000)]) for number in range(30_000)])
    check_cost(lambda: policy_spec(subject))
