"""The nftables chain of a policy in one direction. It depends on the policy alone, not on pods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sampan.network.policy.pod_sets import VERSIONS, PodSetSpec, digest, set_name
from sampan.network.policy.policy_spec import ALL_PODS, EGRESS, PolicySpec, PortSpec, RuleSpec
from sampan.network.policy.ranges import range_text

MAX_RULES: Final = 4_000
"""The largest number of nftables rules of a policy in one direction. Traffic that only further rules would accept is
not allowed."""
_MAX_INLINE: Final = 16
"""Rules with more ports use a named set."""
FAMILIES: Final = {4: "ip", 6: "ip6"}


@dataclass(frozen=True, slots=True)
class StaticSet:
    """A set whose elements are written in the policy. Policies with equal elements share it."""

    name: str
    declaration: str
    elements: tuple[str, ...]


@dataclass(slots=True)
class PolicyChain:
    """The rules of a chain and the sets that they use."""

    rules: list[str] = field(default_factory=list)
    pod_sets: set[PodSetSpec] = field(default_factory=set)
    static_sets: set[StaticSet] = field(default_factory=set)
    is_cut: bool = False
    """Whether the policy has more rules than are allowed."""


def policy_chain(policy: PolicySpec, direction: str, node: str) -> PolicyChain:
    """Return the chain that accepts what the policy allows in a direction, and returns for everything else."""
    chain = PolicyChain()
    for rule in dict.fromkeys(policy.rules[direction]):
        for text in _RuleText(policy, direction, node, chain).lines(rule):
            if len(chain.rules) == MAX_RULES:
                chain.is_cut = True
                return chain
            chain.rules.append(f"{text} accept".strip())
    return chain


class _RuleText:
    """Writes the rules of a policy, and records in the chain which sets they use."""

    def __init__(self, policy: PolicySpec, direction: str, node: str, chain: PolicyChain) -> None:
        self._policy, self._node, self._chain = policy, node, chain
        self._is_egress = direction == EGRESS
        self._peer_field = "daddr" if self._is_egress else "saddr"

    def lines(self, rule: RuleSpec) -> Iterator[str]:
        yield from self._numeric_port_conditions(rule)
        if rule.ports.names:
            yield from self._named_port_conditions(rule)

    def _numeric_port_conditions(self, rule: RuleSpec) -> Iterator[str]:
        """Yield the conditions for numeric ports, or for any port if the rule has no ports."""
        if rule.ports.names and not rule.ports.numbers:
            return
        ports = self._numbers(rule.ports) if rule.ports.numbers else ""
        if not rule.has_peers:
            yield ports
        for selection in rule.selections:
            for version in VERSIONS:
                yield f"{self._match_pods(PodSetSpec(selection), version)} {ports}"
        for _, text in self._match_blocks(rule):
            yield f"{text} {ports}"

    def _named_port_conditions(self, rule: RuleSpec) -> Iterator[str]:
        """Yield the conditions for named ports: those of the selected pod, or of the peer that it connects to."""
        names = rule.ports.names
        if self._is_egress:
            for selection in rule.selections:
                for version in VERSIONS:
                    yield self._match_ports(PodSetSpec(selection, names), version)
            target = PodSetSpec(ALL_PODS, names)
        else:
            target = PodSetSpec(self._policy.selection, names, self._node)
            for selection in rule.selections:
                for version in VERSIONS:
                    peer = self._match_pods(PodSetSpec(selection), version)
                    yield f"{peer} {self._match_ports(target, version)}"
        if not rule.has_peers:
            yield from (self._match_ports(target, version) for version in VERSIONS)
        for version, text in self._match_blocks(rule):
            yield f"{text} {self._match_ports(target, version)}"

    def _match_pods(self, spec: PodSetSpec, version: int) -> str:
        self._chain.pod_sets.add(spec)
        return f"{FAMILIES[version]} {self._peer_field} @{set_name(spec.name, version)}"

    def _match_ports(self, spec: PodSetSpec, version: int) -> str:
        self._chain.pod_sets.add(spec)
        return f"{FAMILIES[version]} daddr . meta l4proto . th dport @{set_name(spec.name, version)}"

    def _match_blocks(self, rule: RuleSpec) -> Iterator[tuple[int, str]]:
        for version, ranges in rule.blocks:
            elements = tuple(range_text(version, item) for item in ranges)
            declaration = f"set {{ type ipv{version}_addr; flags interval; }}"
            name = self._static(f"blocks{version}", declaration, elements)
            yield version, f"{FAMILIES[version]} {self._peer_field} @{name}"

    def _numbers(self, ports: PortSpec) -> str:
        elements = tuple(
            f"{protocol} . {first}" if first == last else f"{protocol} . {first}-{last}"
            for protocol, (first, last) in ports.numbers
        )
        if len(elements) <= _MAX_INLINE:
            return f"meta l4proto . th dport {{ {', '.join(elements)} }}"
        name = self._static("numbers", "set { type inet_proto . inet_service; flags interval; }", elements)
        return f"meta l4proto . th dport @{name}"

    def _static(self, kind: str, declaration: str, elements: tuple[str, ...]) -> str:
        name = f"{kind}-{digest(' '.join(elements))}"
        self._chain.static_sets.add(StaticSet(name, declaration, elements))
        return name
