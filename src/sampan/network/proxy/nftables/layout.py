"""The table of kube-proxy in nftables mode: its name, its chains, sets and maps, and the rules that do not depend on
services. Names and rules are those of the real proxy, so that runbooks and other tools find what they expect."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from ipaddress import ip_network

from sampan.host.netlink import constants as nl
from sampan.network.proxy.nftables import expressions as x
from sampan.network.proxy.nftables.expressions import Rule, Statement
from sampan.network.proxy.nftables.families import IPFamily
from sampan.network.proxy.proxy_config import NodeFacts, ProxyConfig
from sampan.network.proxy.services import ServicePortName

TABLE = "kube-proxy"
LASTING, TEMPORARY = "rules for kube-proxy", "rules for kube-proxy of sampan up"
"""Comments of tables: that of the real proxy, and that of tables which end with their proxy."""

CLUSTER_IPS = "cluster-ips"
NODEPORT_IPS = "nodeport-ips"
HAIRPIN_CONNECTIONS = "hairpin-connections"
SERVICE_IPS = "service-ips"
SERVICE_NODEPORTS = "service-nodeports"
FIREWALL_IPS = "firewall-ips"
NO_ENDPOINT_SERVICES = "no-endpoint-services"
NO_ENDPOINT_NODEPORTS = "no-endpoint-nodeports"

SERVICES = "services"
REJECT = "reject-chain"
MASQUERADING = "masquerading"
CLUSTER_IPS_CHECK = "cluster-ips-check"
FIREWALL_CHECK = "firewall-check"
SERVICE_ENDPOINTS_CHECK = "service-endpoints-check"
NODEPORT_ENDPOINTS_CHECK = "nodeport-endpoints-check"

ADDRESS, PROTOCOL, PORT = "address", "protocol", "port"


@dataclass(frozen=True, slots=True)
class NamedSet:
    """A set, or a map to verdicts, that every table has."""

    name: str
    key: tuple[str, ...]
    is_map: bool = False


SETS = (
    NamedSet(CLUSTER_IPS, (ADDRESS,)),
    NamedSet(NODEPORT_IPS, (ADDRESS,)),
    NamedSet(HAIRPIN_CONNECTIONS, (ADDRESS, ADDRESS, PROTOCOL, PORT)),
    NamedSet(SERVICE_IPS, (ADDRESS, PROTOCOL, PORT), is_map=True),
    NamedSet(SERVICE_NODEPORTS, (PROTOCOL, PORT), is_map=True),
    NamedSet(FIREWALL_IPS, (ADDRESS, PROTOCOL, PORT), is_map=True),
    NamedSet(NO_ENDPOINT_SERVICES, (ADDRESS, PROTOCOL, PORT), is_map=True),
    NamedSet(NO_ENDPOINT_NODEPORTS, (PROTOCOL, PORT), is_map=True),
)
SETS_BY_NAME = {named.name: named for named in SETS}


@dataclass(frozen=True, slots=True)
class BaseChain:
    """A chain that the kernel calls for packets."""

    name: str
    type: str
    hook: str
    hook_number: int
    priority: int


BASE_CHAINS = (
    BaseChain("filter-prerouting-pre-dnat", "filter", "prerouting", nl.NF_INET_PRE_ROUTING, -110),
    BaseChain("filter-output-pre-dnat", "filter", "output", nl.NF_INET_LOCAL_OUT, -110),
    BaseChain("filter-input", "filter", "input", nl.NF_INET_LOCAL_IN, 0),
    BaseChain("filter-forward", "filter", "forward", nl.NF_INET_FORWARD, 0),
    BaseChain("filter-output", "filter", "output", nl.NF_INET_LOCAL_OUT, 0),
    BaseChain("nat-prerouting", "nat", "prerouting", nl.NF_INET_PRE_ROUTING, -100),
    BaseChain("nat-output", "nat", "output", nl.NF_INET_LOCAL_OUT, -100),
    BaseChain("nat-postrouting", "nat", "postrouting", nl.NF_INET_POST_ROUTING, 100),
)

_JUMPS = {
    # Rejection waits for these hooks, as kernels before 5.9 cannot reject before routing.
    "filter-input": (True, NODEPORT_ENDPOINTS_CHECK, SERVICE_ENDPOINTS_CHECK),
    "filter-forward": (True, SERVICE_ENDPOINTS_CHECK, CLUSTER_IPS_CHECK),
    "filter-output": (True, SERVICE_ENDPOINTS_CHECK, CLUSTER_IPS_CHECK),
    "filter-prerouting-pre-dnat": (True, FIREWALL_CHECK),
    "filter-output-pre-dnat": (True, FIREWALL_CHECK),
    "nat-output": (False, SERVICES),
    "nat-prerouting": (False, SERVICES),
    "nat-postrouting": (False, MASQUERADING),
}
"""The chains that each base chain jumps to, and whether it does so for new connections only."""


def base_rules(name: str) -> tuple[Rule, ...]:
    """Return the rules of a base chain."""
    only_new, *targets = _JUMPS[name]
    condition = (x.ct_state_new(),) if only_new else ()
    return tuple((*condition, x.jump(str(target))) for target in targets)


def static_rules(family: IPFamily, config: ProxyConfig, facts: NodeFacts) -> dict[str, tuple[Rule, ...]]:
    """Return the rules of the chains that every table has, besides the base chains."""
    mark = config.masquerade_mark
    node_port = _accepts_node_ports(family, facts)
    unallocated = (
        [(x.destination_in_networks(family, facts.service_cidrs), x.action("drop"))] if facts.service_cidrs else []
    )
    return {
        REJECT: ((x.reject(family),),),
        SERVICES: (
            *_masquerade_rules(family, config, facts),
            (x.dispatch_by_destination(family, SERVICE_IPS),),
            (
                *([x.destination_is_local()] if facts.node_port_ips is None else []),
                *node_port,
                x.dispatch_by_port(SERVICE_NODEPORTS),
            ),
        ),
        MASQUERADING: (
            (x.is_marked(mark), x.toggle_mark(mark), x.masquerade()),
            (x.ct_status_dnat(), x.hairpin_in_set(family, HAIRPIN_CONNECTIONS), x.masquerade()),
        ),
        CLUSTER_IPS_CHECK: ((x.destination_in_set(family, CLUSTER_IPS), x.reject(family)), *unallocated),
        FIREWALL_CHECK: ((x.dispatch_by_destination(family, FIREWALL_IPS),),),
        SERVICE_ENDPOINTS_CHECK: ((x.dispatch_by_destination(family, NO_ENDPOINT_SERVICES),),),
        NODEPORT_ENDPOINTS_CHECK: ((*node_port, x.dispatch_by_port(NO_ENDPOINT_NODEPORTS)),),
    }


def _accepts_node_ports(family: IPFamily, facts: NodeFacts) -> Rule:
    if facts.node_port_ips is None:
        return (x.destination_in(family, family.not_loopback, is_inverted=True),)
    return (x.destination_in_set(family, NODEPORT_IPS),)


def _masquerade_rules(family: IPFamily, config: ProxyConfig, facts: NodeFacts) -> list[Rule]:
    """Return the rule that masquerades traffic to cluster IPs: all of it, or that from outside of the cluster."""
    to_cluster_ip, mark = x.destination_in_set(family, CLUSTER_IPS), x.add_mark(config.masquerade_mark)
    if config.masquerade_all:
        return [(to_cluster_ip, mark)]
    if is_local_detected(facts):
        return [(to_cluster_ip, source_is_local_pod(family, facts, is_inverted=True), mark)]
    return []


def is_local_detected(facts: NodeFacts) -> bool:
    """Return whether traffic of local pods can be recognized."""
    return bool(facts.local_cidrs or facts.local_interface)


def source_is_local_pod(family: IPFamily, facts: NodeFacts, *, is_inverted: bool = False) -> Statement:
    if facts.local_interface:
        return x.interface_is(facts.local_interface, is_inverted=is_inverted)
    return x.source_in_networks(family, [ip_network(cidr) for cidr in facts.local_cidrs], is_inverted=is_inverted)


# -- names of the chains and sets of services --------------------------------------------------------------------------

CLUSTER_PREFIX, LOCAL_PREFIX, EXTERNAL_PREFIX = "service-", "local-", "external-"
ENDPOINT_PREFIX, AFFINITY_PREFIX, FIREWALL_PREFIX = "endpoint-", "affinity-", "firewall-"
_MAX_BASE_LENGTH = 240


def service_chain_base(name: ServicePortName) -> str:
    """Return the name that the chains of a service port have after their prefix."""
    return _hash_name(f"{name.namespace}/{name.name}/{name.protocol.lower()}/{name.port}")


def endpoint_chain_base(name: ServicePortName, address: str, port: int) -> str:
    """Return the name that the chain and the affinity set of an endpoint have after their prefix."""
    service = f"{name.namespace}/{name.name}/{name.protocol.lower()}/{name.port}"
    return _hash_name(f"{service}__{address.replace(':', '.')}/{port}")


def is_service_chain(name: str) -> bool:
    """Return whether a chain belongs to a service: no other chain has a slash in its name."""
    return "/" in name


def _hash_name(name: str) -> str:
    digest = base64.b32encode(hashlib.sha256(name.encode()).digest()).decode()
    hashed = f"{digest[:8]}-{name}"
    return hashed if len(hashed) <= _MAX_BASE_LENGTH else f"{hashed[: _MAX_BASE_LENGTH - 3]}..."
