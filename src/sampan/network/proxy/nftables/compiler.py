"""The compiler, which translates the state of a service port to elements, chains and affinity sets. Pure.

A service port has up to four chains. `external-` decides about masquerading and about traffic of this node, and goes to
`service-` or `local-`, which choose an endpoint. With session affinity these go to the chain of an endpoint, which
remembers the client. `firewall-` drops packets that the source ranges do not allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from sampan.network.proxy.nftables import expressions as x
from sampan.network.proxy.nftables import layout
from sampan.network.proxy.nftables.expressions import Rule
from sampan.network.proxy.nftables.families import IPFamily
from sampan.network.proxy.proxy_config import NodeFacts, ProxyConfig
from sampan.network.proxy.services import EndpointInfo, ServicePortState


class ElementKey(NamedTuple):
    """An element of a set or map of the table."""

    set: str
    key: tuple[str | int, ...]

    def __str__(self) -> str:
        return " . ".join(map(str, self.key))


class AddressRank(IntEnum):
    """The precedence of a service among services that claim the same address; the lowest rank wins.

    Users can write any external IP into a service, while the other addresses are allocated. An external IP therefore
    never takes precedence over an allocated address.
    """

    CLUSTER_IP = 0
    LOAD_BALANCER_IP = 1
    EXTERNAL_IP = 2


@dataclass(slots=True)
class CompiledService:
    """The elements, chains and sets of a service in the table of one IP family."""

    elements: dict[ElementKey, str] = field(default_factory=dict)
    """The verdict of each element. It is empty for elements of sets."""
    ranks: dict[ElementKey, AddressRank] = field(default_factory=dict)
    """The ranks of elements for addresses that a user can name in a service. Other elements have the rank
    CLUSTER_IP."""
    created: str = ""
    """When the service was created."""
    chains: dict[str, tuple[Rule, ...]] = field(default_factory=dict)
    affinity_sets: dict[str, int] = field(default_factory=dict)
    """The timeouts in seconds of the sets that remember clients."""


_REJECT = f"goto {layout.REJECT}"
_DROP = "drop"


@dataclass(frozen=True, slots=True)
class ServiceCompiler:
    """Compiles services for the table of one IP family on one node."""

    family: IPFamily
    config: ProxyConfig
    facts: NodeFacts

    def compile(self, states: Iterable[ServicePortState]) -> CompiledService:
        """Return the elements, chains and sets of the ports of a service. Ports of the other IP family are ignored."""
        compiled = CompiledService()
        for state in states:
            if state.info.family == self.family.name:
                compiled.created = state.info.created
                _ServicePortCompiler(self, state, compiled).add()
        return compiled


class _ServicePortCompiler:
    """Adds the elements, chains and sets of one service port to a `CompiledService`."""

    def __init__(self, compiler: ServiceCompiler, state: ServicePortState, compiled: CompiledService) -> None:
        self._family, self._facts, self._config = compiler.family, compiler.facts, compiler.config
        self._info, self._categories, self._compiled = state.info, state.categories, compiled
        self._protocol = state.info.protocol.lower()
        base = layout.service_chain_base(state.info.name)
        self._cluster_chain = layout.CLUSTER_PREFIX + base
        self._local_chain = layout.LOCAL_PREFIX + base
        self._external_chain = layout.EXTERNAL_PREFIX + base
        self._firewall_chain = layout.FIREWALL_PREFIX + base

    def add(self) -> None:
        self._add_cluster_ip()
        if self._info.is_externally_accessible:
            self._add_external()
        if self._info.source_ranges and self._info.load_balancer_ips:
            self._add_firewall()
        self._add_hairpins()
        self._add_policy_chain(self._cluster_chain, self._categories.cluster)
        self._add_policy_chain(self._local_chain, self._categories.local)
        if self._info.affinity_timeout_s:
            self._add_endpoint_chains()

    def _element(
        self, set: str, key: tuple[str | int, ...], action: str = "", rank: AddressRank = AddressRank.CLUSTER_IP
    ) -> None:
        """Add an element, unless the service already has the element with a lower rank."""
        element, compiled = ElementKey(set, key), self._compiled
        if element in compiled.elements and compiled.ranks.get(element, AddressRank.CLUSTER_IP) < rank:
            return
        compiled.elements[element] = action
        if rank:
            compiled.ranks[element] = rank
        else:
            compiled.ranks.pop(element, None)

    # -- addresses ---------------------------------------------------------------------------------------------------

    def _add_cluster_ip(self) -> None:
        info, categories = self._info, self._categories
        key = (info.cluster_ip, self._protocol, info.port)
        self._element(layout.CLUSTER_IPS, (info.cluster_ip,))
        if not categories.has_any:
            self._element(layout.NO_ENDPOINT_SERVICES, key, _REJECT)
        elif not info.is_internal_policy_local:
            self._element(layout.SERVICE_IPS, key, f"goto {self._cluster_chain}")
        elif categories.local:
            self._element(layout.SERVICE_IPS, key, f"goto {self._local_chain}")
        else:
            self._element(layout.NO_ENDPOINT_SERVICES, key, _DROP)

    def _add_external(self) -> None:
        info, categories = self._info, self._categories
        ranks = dict.fromkeys(info.external_ips, AddressRank.EXTERNAL_IP)
        ranks |= dict.fromkeys(info.load_balancer_ips, AddressRank.LOAD_BALANCER_IP)
        keys = {(address, self._protocol, info.port): rank for address, rank in ranks.items()}
        if categories.has_any:
            for key, rank in keys.items():
                self._element(layout.SERVICE_IPS, key, f"goto {self._external_chain}", rank)
            if info.node_port:
                node_port = (self._protocol, info.node_port)
                self._element(layout.SERVICE_NODEPORTS, node_port, f"goto {self._external_chain}")
            self._compiled.chains[self._external_chain] = tuple(self._external_rules())
        if not self._has_external_endpoints:
            action = _DROP if categories.has_any else _REJECT
            for key, rank in keys.items():
                self._element(layout.NO_ENDPOINT_SERVICES, key, action, rank)
            if info.node_port:
                self._element(layout.NO_ENDPOINT_NODEPORTS, (self._protocol, info.node_port), action)

    @property
    def _has_external_endpoints(self) -> bool:
        return self._categories.has_any and bool(self._categories.local or not self._info.is_external_policy_local)

    def _external_rules(self) -> Iterator[Rule]:
        mark = x.add_mark(self._config.masquerade_mark)
        to_cluster = x.goto(self._cluster_chain)
        if not self._info.is_external_policy_local:
            yield (mark,)  # the endpoint may be on another node, which would send the response directly
            yield (to_cluster,)
            return
        # Pods and the node itself ignore the policy, as if their traffic went out to a load balancer and came back.
        if layout.is_local_detected(self._facts):
            yield layout.source_is_local_pod(self._family, self._facts), to_cluster
        yield x.source_is_local(), mark
        yield x.source_is_local(), to_cluster
        if self._categories.local:
            yield (x.goto(self._local_chain),)

    def _add_firewall(self) -> None:
        info = self._info
        for address in info.load_balancer_ips:
            key = (address, self._protocol, info.port)
            self._element(layout.FIREWALL_IPS, key, f"goto {self._firewall_chain}")
        sources = list(info.source_ranges)
        node_ip = ip_address(self._facts.node_ip) if self._facts.node_ip else None
        if node_ip is not None and any(node_ip in network for network in sources):
            # If the node has an address of the load balancer itself, that is the source of its own traffic to it.
            sources += [ip_network(address) for address in info.load_balancer_ips]
        allowed = x.source_in_networks(self._family, sources, is_inverted=True)
        self._compiled.chains[self._firewall_chain] = ((allowed, x.action("drop")),)

    def _add_hairpins(self) -> None:
        for endpoint in self._categories.reachable:
            if endpoint.is_local:
                key = (endpoint.address, endpoint.address, self._protocol, endpoint.port)
                self._element(layout.HAIRPIN_CONNECTIONS, key)

    # -- choice of an endpoint ---------------------------------------------------------------------------------------

    def _add_policy_chain(self, chain: str, endpoints: tuple[EndpointInfo, ...]) -> None:
        if not endpoints:
            return
        has_affinity = bool(self._info.affinity_timeout_s)
        rules = self._affinity_rules(endpoints) if has_affinity else (self._dnat_rule(endpoints),)
        self._compiled.chains[chain] = rules

    def _dnat_rule(self, endpoints: tuple[EndpointInfo, ...]) -> Rule:
        protocol = x.protocol_is(self._protocol)
        if len(endpoints) == 1:
            return protocol, x.dnat(self._family, endpoints[0].address, endpoints[0].port)
        return protocol, x.random_dnat(self._family, [(endpoint.address, endpoint.port) for endpoint in endpoints])

    def _affinity_rules(self, endpoints: tuple[EndpointInfo, ...]) -> tuple[Rule, ...]:
        bases = [layout.endpoint_chain_base(self._info.name, e.address, e.port) for e in endpoints]
        rules: list[Rule] = [
            (x.source_in_set(self._family, layout.AFFINITY_PREFIX + base), x.goto(layout.ENDPOINT_PREFIX + base))
            for base in bases
        ]
        return *rules, (x.random_action([f"goto {layout.ENDPOINT_PREFIX}{base}" for base in bases]),)

    def _add_endpoint_chains(self) -> None:
        for endpoint in self._categories.reachable:
            base = layout.endpoint_chain_base(self._info.name, endpoint.address, endpoint.port)
            self._compiled.affinity_sets[layout.AFFINITY_PREFIX + base] = self._info.affinity_timeout_s
            self._compiled.chains[layout.ENDPOINT_PREFIX + base] = (
                (x.update_source(self._family, layout.AFFINITY_PREFIX + base),),
                self._dnat_rule((endpoint,)),
            )
