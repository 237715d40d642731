"""The settings of the proxy that its rules depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from sampan.network.proxy.kube_proxy_configuration import (
    ALL,
    BRIDGE_INTERFACE,
    CLUSTER_CIDR,
    INTERFACE_NAME_PREFIX,
    LOCAL_MODES,
    LOCALHOST,
    MASQUERADE_BIT,
    NODE_CIDR,
    NODE_PORT_KEYWORDS,
    PRIMARY,
)
from sampan.network.proxy.services import FAMILIES, IPV4, Network, family_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyConfig:
    """The settings of packet rules, as in the fields of KubeProxyConfiguration with the same names."""

    families: Sequence[str] = FAMILIES
    """The IP families with a table."""
    masquerade_bit: int = MASQUERADE_BIT
    """The bit of the packet mark for traffic that must be masqueraded."""
    masquerade_all: bool = False
    detect_local_mode: str = CLUSTER_CIDR
    """How traffic of local pods is recognized; the values are in `LOCAL_MODES`."""
    cluster_cidrs: Sequence[str] = ()
    """The pod CIDRs of the cluster, for the mode ClusterCIDR."""
    local_interface: str = ""
    """The name of the bridge or the prefix of names, for the modes BridgeInterface and InterfaceNamePrefix."""
    node_port_addresses: Sequence[str] = (PRIMARY,)
    """CIDRs of the node's addresses that accept node ports, and the keywords primary, localhost and all. Empty means
    all addresses of the node."""
    sync_period_s: float = 30.0
    """The time between two checks whether the rules are complete, and after which a failed sync is repeated."""
    min_sync_period_s: float = 1.0
    """The least time between two syncs; changes in between are applied together."""
    audit_period_s: float = 3600.0
    """The time between two comparisons of every rule with what the kernel has."""

    removes_rules: bool = False
    """Whether the rules are removed when the proxy stops, rather than kept for the next one. Such a proxy leaves the
    tables of other proxies alone."""

    def __post_init__(self) -> None:
        if not 0 <= self.masquerade_bit <= 31:
            raise ValueError(f"masqueradeBit: {self.masquerade_bit} is not between 0 and 31")
        if self.detect_local_mode not in LOCAL_MODES:
            raise ValueError(f"detectLocalMode: {self.detect_local_mode!r} is none of {', '.join(LOCAL_MODES)}")
        for cidr in (*self.cluster_cidrs, *self.node_port_addresses):
            if cidr not in NODE_PORT_KEYWORDS:
                ip_network(cidr, strict=False)

    @property
    def masquerade_mark(self) -> int:
        return 1 << self.masquerade_bit


def supported_families() -> tuple[str, ...]:
    """Return the IP families of this machine."""
    return FAMILIES if Path("/proc/net/if_inet6").exists() else (IPV4,)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """The facts besides services on which the rules of one IP family depend: the node and the service CIDRs of the
    cluster."""

    node_ip: str = ""
    local_cidrs: tuple[str, ...] = ()
    """Source addresses of local pods."""
    local_interface: str = ""
    """The interface of local pods; a name that ends with `*` is a prefix."""
    node_port_ips: tuple[str, ...] | None = None
    """The addresses that accept node ports, or None if all addresses of the node do."""
    service_cidrs: tuple[Network, ...] = ()


def node_facts(
    config: ProxyConfig,
    family: str,
    *,
    node_ips: Sequence[str] = (),
    pod_cidrs: Sequence[str] = (),
    local_addresses: Sequence[str] = (),
    service_cidrs: Sequence[str] = (),
) -> NodeFacts:
    """Return the facts of an IP family. `node_ips` are the addresses of the Node object and `pod_cidrs` its pod CIDRs;
    `local_addresses` are those of the node's interfaces."""
    node_ips = [address for address in node_ips if family_of(address) == family]
    cidrs = {CLUSTER_CIDR: config.cluster_cidrs, NODE_CIDR: pod_cidrs}.get(config.detect_local_mode, ())
    interface = config.local_interface if config.detect_local_mode in (BRIDGE_INTERFACE, INTERFACE_NAME_PREFIX) else ""
    if interface and config.detect_local_mode == INTERFACE_NAME_PREFIX:
        interface += "*"
    return NodeFacts(
        node_ip=node_ips[0] if node_ips else "",
        local_cidrs=tuple(str(ip_network(cidr, strict=False)) for cidr in cidrs if family_of(cidr) == family),
        local_interface=interface,
        node_port_ips=_node_port_ips(config.node_port_addresses, family, node_ips, local_addresses),
        service_cidrs=tuple(ip_network(cidr, strict=False) for cidr in service_cidrs if family_of(cidr) == family),
    )


_KEYWORD_CIDRS: Mapping[str, Sequence[str]] = {
    PRIMARY: (),
    LOCALHOST: ("127.0.0.0/8", "::1/128"),
    ALL: ("0.0.0.0/0", "::/0"),
}


def _node_port_ips(
    cidrs: Sequence[str], family: str, node_ips: Sequence[str], local_addresses: Sequence[str]
) -> tuple[str, ...] | None:
    """Return the addresses that accept node ports; loopback addresses cannot, as the kernel does not route them."""
    is_primary = PRIMARY in cidrs
    texts = [cidr for keyword in cidrs for cidr in _KEYWORD_CIDRS.get(keyword, (keyword,))]
    networks = [ip_network(cidr, strict=False) for cidr in texts if family_of(cidr) == family]
    if not (networks or is_primary) or any(network.prefixlen == 0 for network in networks):
        return None
    candidates = [ip_network(address) for address in local_addresses if family_of(address) == family]
    addresses = {
        str(address.network_address)
        for address in candidates
        if not address.is_loopback and any(address.network_address in network for network in networks)
    }
    primary = dict.fromkeys(node_ips) if is_primary else {}
    return (*primary, *sorted(addresses - set(primary)))
