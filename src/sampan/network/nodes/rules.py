"""The nftables table of the machine for the nodes of a cluster, as text for `nft -f -`. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network

from sampan.network.nodes.names import table_of_nodes

_FAMILIES = {4: "ip", 6: "ip6"}


def table_text(bridge: str, node_cidrs: Sequence[str], cluster_cidrs: Sequence[str]) -> str:
    """Return the text that replaces the table: it masquerades what nodes and their pods send to other machines."""
    table = table_of_nodes(bridge)
    lines = [f"add table inet {table}", f"delete table inet {table}", f"table inet {table} {{"]
    lines += ["  chain postrouting {", "    type nat hook postrouting priority 100; policy accept;"]
    for cidr in node_cidrs:
        version = ip_network(cidr).version
        ip = _FAMILIES[version]
        inside = sorted({cidr, *(other for other in cluster_cidrs if ip_network(other).version == version)})
        source, destinations = f"{ip} saddr {{ {', '.join(inside)} }}", f"{ip} daddr != {{ {', '.join(inside)} }}"
        lines.append(f'    oifname != "{bridge}" {source} {destinations} masquerade fully-random')
    return "\n".join([*lines, "  }", "}", ""])


def removal_text(bridge: str) -> str:
    table = table_of_nodes(bridge)
    return f"add table inet {table}\ndelete table inet {table}\n"
