"""The nftables tables of a pod network as text for `nft -f -`, with host ports as elements of their maps. Pure and
deterministic. The table of the bridge family is in `frame_table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface
from typing import NamedTuple

from sampan.api.addresses import is_address
from sampan.host.bounded_cache import BoundedCache
from sampan.network.pods.addresses import Network
from sampan.network.pods.config import table_for
from sampan.network.pods.records import HostPortMapping, PodNetworkRecord

_PROTOCOLS = ("tcp", "udp", "sctp")
_FAMILIES = {4: ("ip", "ipv4", "ipv4_addr"), 6: ("ip6", "ipv6", "ipv6_addr")}
_EVERYONE = {4: "{ 224.0.0.0/4, 255.255.255.255 }", 6: "ff00::/8"}
"""Multicast and broadcast destinations, which are never masqueraded."""


class SetElement(NamedTuple):
    set: str
    key: str
    value: str = ""
    """The value if the set is a map."""

    def __str__(self) -> str:
        return f"{self.key} : {self.value}" if self.value else self.key


def port_errors(ports: Iterable[HostPortMapping]) -> Iterator[str]:
    for port in ports:
        if port.protocol not in _PROTOCOLS:
            yield f"host port {port.host_port}: there is no protocol {port.protocol!r}"
        if not (0 < port.host_port < 65536 and 0 < port.container_port < 65536):
            yield f"host port {port.host_port} to {port.container_port}: not a port"
        if port.host_ip and not is_address(port.host_ip):
            yield f"host port {port.host_port}: {port.host_ip!r} is not an IP address"


def port_elements(record: PodNetworkRecord) -> frozenset[SetElement]:
    """Return the elements of a pod in the maps: `ports` by port, `bound` by host IP and port, `own` for hairpin
    connections."""
    return _port_elements[record]


def _list_port_elements(record: PodNetworkRecord) -> frozenset[SetElement]:
    result: set[SetElement] = set()
    for ip in [ip_interface(address).ip for address in record.addresses if record.ports]:
        result.add(SetElement(f"own{ip.version}", f"{ip} . {ip}"))
        for port in record.ports:
            result.update(_host_port_elements(port, ip))
    return frozenset(result)


_port_elements = BoundedCache(_list_port_elements, max_entries=1024, max_entry_bytes=64 << 10)


def _host_port_elements(port: HostPortMapping, ip: IPv4Address | IPv6Address) -> Iterator[SetElement]:
    to = f"{ip} . {port.container_port}"
    host = ip_address(port.host_ip) if port.host_ip else None
    if host is not None and host.version != ip.version:
        return
    if host is None or host.is_unspecified:
        yield SetElement(f"ports{ip.version}", f"{port.protocol} . {port.host_port}", to)
    else:
        yield SetElement(f"bound{ip.version}", f"{host} . {port.protocol} . {port.host_port}", to)


def port_conflict(record: PodNetworkRecord, others: Iterable[PodNetworkRecord]) -> str:
    """Return a message about a host port that another pod has, or an empty string."""
    keys = {(element.set, element.key) for element in port_elements(record)}
    for other in others:
        if other.uid == record.uid or not other.ports:
            continue
        for element in port_elements(other):
            if (element.set, element.key) in keys:
                return f"host port {element.key} is in use by pod {other.uid}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNetworkRules:
    bridge: str
    pods: Sequence[Network]
    """The pod CIDRs of this node."""
    cluster: Sequence[Network] = ()
    sees_bridged: bool = True
    """Whether the rules see traffic that stays on the bridge (br_netfilter). If not, the response in a redirected
    connection between two pods would bypass the reverse translation; such connections are therefore masqueraded."""

    @property
    def versions(self) -> Sequence[int]:
        """Return the IP versions in use; a kernel may support only one."""
        return sorted({network.version for network in self.pods})


def table_text(rules: PodNetworkRules, elements: Iterable[SetElement]) -> str:
    """Return the text that replaces the whole table."""
    name, ordered = table_for(rules.bridge), sorted(elements)
    lines = [f"add table inet {name}", f"delete table inet {name}", f"table inet {name} {{"]
    for version in rules.versions:
        lines += _sets(rules, version, ordered)
    lines += [*_ports_chain(rules.versions), *_nat_chain("prerouting"), *_nat_chain("output")]
    return "\n".join([*lines, *_guard_chain(rules.bridge), *_postrouting_chain(rules), "}", ""])


def removal(bridge: str) -> str:
    name = table_for(bridge)
    return f"add table inet {name}\ndelete table inet {name}\n"


def render_additions(bridge: str, elements: Iterable[SetElement]) -> str:
    return "".join(f"add element inet {table_for(bridge)} {element.set} {{ {element} }}\n" for element in elements)


def render_deletions(bridge: str, elements: Iterable[SetElement]) -> str:
    """Return the text that deletes the elements. They are added first, as deleting a missing element is an error."""
    removed = list(elements)
    deletions = (f"delete element inet {table_for(bridge)} {element.set} {{ {element.key} }}\n" for element in removed)
    return render_additions(bridge, removed) + "".join(deletions)


def _sets(rules: PodNetworkRules, version: int, elements: Sequence[SetElement]) -> list[str]:
    kind = _FAMILIES[version][2]
    pods = [str(item) for item in rules.pods if item.version == version]
    cluster = sorted({*pods, *(str(item) for item in rules.cluster if item.version == version)})
    own, ports, bound = (
        [str(item) for item in elements if item.set == f"{name}{version}"] for name in ("own", "ports", "bound")
    )
    return [
        *_set(f"set pods{version}", f"type {kind}; flags interval; auto-merge;", sorted(pods)),
        *_set(f"set cluster{version}", f"type {kind}; flags interval; auto-merge;", cluster),
        *_set(f"set own{version}", f"type {kind} . {kind};", own),
        *_set(f"map ports{version}", f"type inet_proto . inet_service : {kind} . inet_service;", ports),
        *_set(f"map bound{version}", f"type {kind} . inet_proto . inet_service : {kind} . inet_service;", bound),
    ]


def _set(head: str, kind: str, elements: Sequence[str]) -> list[str]:
    contents = [f"    elements = {{ {', '.join(elements)} }}"] if elements else []
    return [f"  {head} {{", f"    {kind}", *contents, "  }"]


def _ports_chain(versions: Sequence[int]) -> list[str]:
    lines = ["  chain ports {", "    meta l4proto != { tcp, udp, sctp } return"]
    for version in versions:
        ip, family, _ = _FAMILIES[version]
        prefix = f"    meta nfproto {family} dnat {ip} to"
        lines.append(f"{prefix} {ip} daddr . meta l4proto . th dport map @bound{version}")
        lines.append(f"{prefix} meta l4proto . th dport map @ports{version}")
    return [*lines, "  }"]


def _nat_chain(hook: str) -> list[str]:
    """Return a chain that redirects traffic to the node's addresses, from outside or from the node itself."""
    return [
        f"  chain {hook} {{",
        f"    type nat hook {hook} priority -100; policy accept;",
        "    fib daddr type local jump ports",
        "  }",
    ]


def _guard_chain(bridge: str) -> list[str]:
    """Return a chain that drops loopback addresses from pods, and packets that did not pass the bridge.

    Host ports on 127.0.0.1 require route_localnet on the bridge, which pods must not be able to exploit. Frames to some
    reserved hardware addresses pass no hook of the bridge: the link of the pod delivers their packets to the node.
    """
    return [
        "  chain guard {",
        "    type filter hook prerouting priority -300; policy accept;",
        f'    iifname "{bridge}-*" drop',
        f'    iifname "{bridge}" ip daddr 127.0.0.0/8 drop',
        f'    iifname "{bridge}" ip saddr 127.0.0.0/8 drop',
        "  }",
    ]


def _postrouting_chain(rules: PodNetworkRules) -> list[str]:
    lines = ["  chain postrouting {", "    type nat hook postrouting priority 100; policy accept;"]
    lines.append(f'    oifname "{rules.bridge}" ip saddr 127.0.0.0/8 masquerade fully-random')
    for version in rules.versions:
        ip = _FAMILIES[version][0]
        from_pods = f"    {ip} saddr @pods{version} {ip} daddr"
        if rules.sees_bridged:
            lines.append(f"    {ip} saddr . {ip} daddr @own{version} ct status dnat masquerade fully-random")
        else:
            lines.append(f"{from_pods} @pods{version} ct status dnat masquerade fully-random")
        beyond = f"{from_pods} != @cluster{version} {ip} daddr != {_EVERYONE[version]}"
        lines.append(f"{beyond} masquerade fully-random")
    return [*lines, "  }"]
