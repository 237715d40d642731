"""The normal form of a NetworkPolicy: the pods that it selects and the traffic that it allows. Equal specs mean equal
rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sampan.api.limits import NETWORK_POLICY_PEERS
from sampan.api.selectors.label_selector import selector_of
from sampan.api.selectors.labels import EVERYTHING, Selector
from sampan.api.types.networking_v1 import NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort
from sampan.network.policy.pods import PodSelection
from sampan.network.policy.ranges import Range, block_ranges, merge

INGRESS: Final = "ingress"
EGRESS: Final = "egress"
DIRECTIONS: Final = (INGRESS, EGRESS)

ALL_PODS = PodSelection("", EVERYTHING, EVERYTHING)
_ALL_PORTS: Range = (0, 65535)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSpec:
    """The ports of a rule. Without numbers and names the rule allows every protocol and port."""

    numbers: tuple[tuple[str, Range], ...] = ()
    """Protocols with port ranges that do not overlap."""
    names: frozenset[tuple[str, str]] = frozenset()
    """Names of container ports, each with its protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """A rule allows traffic that matches one of its peers and one of its ports."""

    has_peers: bool
    """Whether the rule names peers; otherwise it allows every peer."""
    selections: tuple[PodSelection, ...] = ()
    blocks: tuple[tuple[int, tuple[Range, ...]], ...] = ()
    """Ranges of addresses by IP version."""
    ports: PortSpec = PortSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySpec:
    """The normal form of a policy. It isolates the selected pods in each direction that `rules` contains, even if the
    tuple of rules is empty."""

    selection: PodSelection
    rules: Mapping[str, tuple[RuleSpec, ...]]
    """The rules by direction."""


def policy_spec(policy: NetworkPolicy) -> PolicySpec:
    """Return the normal form of a policy. Raise SelectorError for an invalid selector."""
    spec, namespace = policy.spec, policy.metadata.namespace
    rules = {
        INGRESS: _rules([(rule.from_, rule.ports) for rule in spec.ingress], namespace),
        EGRESS: _rules([(rule.to, rule.ports) for rule in spec.egress], namespace),
    }
    types = {kind.lower() for kind in spec.policyTypes} or ({INGRESS, EGRESS} if spec.egress else {INGRESS})
    return PolicySpec(
        selection=PodSelection(namespace, EVERYTHING, selector_of(spec.podSelector)),
        rules={direction: rules[direction] for direction in DIRECTIONS if direction in types},
    )


def is_truncated(policy: NetworkPolicy) -> bool:
    """Whether the policy has so many peers and ports that the last ones are ignored, and traffic that only they allow
    is not allowed."""
    spec = policy.spec
    sizes = (
        sum(_size(rule.from_, rule.ports) for rule in spec.ingress),
        sum(_size(rule.to, rule.ports) for rule in spec.egress),
    )
    return max(sizes) > NETWORK_POLICY_PEERS


def _rules(
    rules: Iterable[tuple[Sequence[NetworkPolicyPeer], Sequence[NetworkPolicyPort]]], namespace: str
) -> tuple[RuleSpec, ...]:
    """Return the rules of a direction with as many peers and ports as the limit permits.

    Rules only allow traffic, so traffic of the peers and ports that are left out is not allowed. A rule whose peers are
    all left out is left out too, since a rule without peers allows all of them.
    """
    specs, peer_budget = [], NETWORK_POLICY_PEERS
    for peers, ports in rules:
        peer_budget -= 1 + len(ports)
        remaining_rules = []
        for peer in peers:
            peer_budget -= _peer_size(peer)
            if peer_budget < 0:
                break
            remaining_rules.append(peer)
        if peer_budget >= 0 or remaining_rules:
            specs.append(_rule(remaining_rules, ports, namespace))
        if peer_budget < 0:
            break
    return tuple(specs)


def _size(peers: Sequence[NetworkPolicyPeer], ports: Sequence[NetworkPolicyPort]) -> int:
    return 1 + len(ports) + sum(map(_peer_size, peers))


def _peer_size(peer: NetworkPolicyPeer) -> int:
    return 1 + (len(peer.ipBlock.except_) if peer.ipBlock is not None else 0)


def _rule(peers: Sequence[NetworkPolicyPeer], ports: Sequence[NetworkPolicyPort], namespace: str) -> RuleSpec:
    blocks = [(peer.ipBlock.cidr, peer.ipBlock.except_) for peer in peers if peer.ipBlock is not None]
    selections = dict.fromkeys(_selection(peer, namespace) for peer in peers if peer.ipBlock is None)
    return RuleSpec(
        has_peers=bool(peers),
        selections=tuple(selections),
        blocks=tuple(sorted(block_ranges(blocks).items())),
        ports=_ports(ports),
    )


def _selection(peer: NetworkPolicyPeer, namespace: str) -> PodSelection:
    pods: Selector = EVERYTHING if peer.podSelector is None else selector_of(peer.podSelector)
    if peer.namespaceSelector is None:
        return PodSelection(namespace, EVERYTHING, pods)
    return PodSelection("", selector_of(peer.namespaceSelector), pods)


def _ports(ports: Iterable[NetworkPolicyPort]) -> PortSpec:
    ranges: dict[str, list[Range]] = {}
    names = set()
    for port in ports:
        protocol = (port.protocol or "TCP").lower()
        if isinstance(port.port, str):
            names.add((port.port, protocol))
        elif port.port is None:
            ranges.setdefault(protocol, []).append(_ALL_PORTS)
        else:
            ranges.setdefault(protocol, []).append((port.port, port.endPort or port.port))
    numbers = [(protocol, item) for protocol, items in sorted(ranges.items()) for item in merge(items)]
    return PortSpec(numbers=tuple(numbers), names=frozenset(names))
