"""The nftables table that sees the frames of a bridge: it holds pods to their addresses, and routes frames between pods
where no other rules would see them. Text and elements are pure.

A pod may change the addresses of its end of the link, and a pod with a raw socket may send any frame. Everything else
(network policies, DNS, load balancers with source ranges) identifies pods by IP addresses. A frame from a pod's link is
therefore dropped unless its source addresses, those in ARP and neighbor discovery included, are elements of that link.
A link without elements can send nothing. Frames that are neither IP nor ARP are dropped: VLAN tags and other headers
could hide packets from all rules. Pods do not get each other's broadcasts and multicasts, which policies cannot assign
to a receiver.

Rules of the families ip, ip6 and inet see traffic between two pods of a bridge only if the kernel has br_netfilter.
Where it does not, the table gives such frames the hardware address of the bridge: the node then routes the packet back
to the bridge, through its forward hook and connection tracking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_interface
from typing import Final

from sampan.host.netlink import constants as nl
from sampan.host.netlink.messages import NetlinkMessage, attribute, nested_attribute, text_attribute
from sampan.network.pods.config import hardware_for
from sampan.network.pods.records import PodNetworkRecord

SETS: Final = {
    "links": "type ifname",
    "sources4": "type ifname . ether_addr . ipv4_addr",
    "sources6": "type ifname . ether_addr . ipv6_addr",
    "targets6": "typeof iifname . ether saddr . @th,64,128",
}
"""The links, where their names do not tell that they belong to pods of the bridge, and the addresses of each link.
`targets6` has those of `sources6`, for a field that nft gives no name before 1.0.9: the target of a neighbor
solicitation or advertisement."""
_USUAL_SETS: Final = ("sources4", "sources6", "targets6")
_GROUP: Final = "ether daddr & 01:00:00:00:00:00 != 00:00:00:00:00:00"
_UNICAST: Final = "ether daddr & 01:00:00:00:00:00 == 00:00:00:00:00:00"
_NEIGHBOR_DISCOVERY: Final = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert }"


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """An address that a link may use."""

    link: str
    hardware: str
    ip: IPv4Address | IPv6Address

    @property
    def sets(self) -> Sequence[str]:
        return ("links", "sources4") if self.ip.version == 4 else ("links", "sources6", "targets6")

    def text(self, set_name: str) -> str:
        if set_name == "links":
            return f'"{self.link}"'
        ip = f"{int(self.ip):#034x}" if set_name == "targets6" else str(self.ip)
        return f'"{self.link}" . {self.hardware} . {ip}'

    def key(self, set_name: str) -> bytes:
        """Return the key of the element in the kernel, whose parts begin at multiples of four bytes."""
        link = self.link.encode().ljust(nl.IFNAMSIZ, b"\0")
        hardware = bytes.fromhex(self.hardware.replace(":", "")).ljust(8, b"\0")
        return link if set_name == "links" else link + hardware + self.ip.packed


def source_addresses(record: PodNetworkRecord) -> list[SourceAddress]:
    """Return the addresses of a pod, and the link-local address that the kernel derives from its hardware address."""
    return sources_of(record.link, hardware_for(record.addresses[0]), record.addresses)


def sources_of(link: str, hardware: str, addresses: Iterable[str]) -> list[SourceAddress]:
    ips = [*(ip_interface(address).ip for address in addresses), link_local_address(hardware)]
    return [SourceAddress(link, hardware, ip) for ip in ips]


def link_local_address(hardware: str) -> IPv6Address:
    """Return the link-local address with the interface identifier EUI-64 of a hardware address."""
    octets = bytes.fromhex(hardware.replace(":", ""))
    identifier = bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:]
    return IPv6Address(b"\xfe\x80" + bytes(6) + identifier)


def frame_table_for(bridge: str) -> str:
    return f"sampan-frames-{bridge}"


def used_sets(*, names_links: bool, checks_targets: bool = True) -> tuple[str, ...]:
    unused = {*(() if names_links else ("links",)), *(() if checks_targets else ("targets6",))}
    return tuple(name for name in SETS if name not in unused)


def frame_table_text(
    bridge: str, sources: Iterable[SourceAddress], sets: Sequence[str] = _USUAL_SETS, *, router: str = ""
) -> str:
    """Return the text that replaces the table.

    `router` is the hardware address of the bridge if the node has to route frames between pods. The table then also
    drops ICMP redirects, with which the node would tell pods to bypass it. Without the set `targets6` a pod can claim
    addresses in neighbor advertisements: programs nft before 1.0.3 cannot express this check. With the set `links` only
    those links are held to their addresses; without it every link with a name of the bridge is.
    """
    links = "@links" if "links" in sets else f'"{bridge}-*"'
    listed = list(sources)
    lines = [f"table bridge {frame_table_for(bridge)} {{"]
    for name in sets:
        lines += _set(name, listed)
    lines += [*_ipv4_chain(), *_ipv6_chain("targets6" in sets), *_arp_chain(), *_prerouting_chain(links, router)]
    lines += [*_forward_chain(links), *(_output_chain(bridge) if router else [])]
    return frame_table_removal(bridge) + "\n".join([*lines, "}", ""])


def frame_table_removal(bridge: str) -> str:
    name = frame_table_for(bridge)
    return f"add table bridge {name}\ndelete table bridge {name}\n"


def encode_additions(bridge: str, sources: Iterable[SourceAddress], sets: Sequence[str]) -> list[NetlinkMessage]:
    return [
        NetlinkMessage(nl.NFT_MSG_NEWSETELEM, payload, nl.NLM_F_CREATE)
        for payload in _element_payloads(bridge, sources, sets)
    ]


def encode_deletions(bridge: str, sources: Iterable[SourceAddress], sets: Sequence[str]) -> list[NetlinkMessage]:
    return [NetlinkMessage(nl.NFT_MSG_DELSETELEM, payload) for payload in _element_payloads(bridge, sources, sets)]


def _element_payloads(bridge: str, sources: Iterable[SourceAddress], sets: Sequence[str]) -> Iterator[bytes]:
    table = text_attribute(nl.NFTA_SET_ELEM_LIST_TABLE, frame_table_for(bridge))
    for name, key in dict.fromkeys((name, source.key(name)) for source in sources for name in source.sets):
        if name in sets:
            element = nested_attribute(nl.NFTA_SET_ELEM_KEY, attribute(nl.NFTA_DATA_VALUE, key))
            elements = nested_attribute(nl.NFTA_SET_ELEM_LIST_ELEMENTS, nested_attribute(nl.NFTA_LIST_ELEM, element))
            yield table + text_attribute(nl.NFTA_SET_ELEM_LIST_SET, name) + elements


def _set(name: str, sources: Sequence[SourceAddress]) -> list[str]:
    texts = ", ".join(sorted({source.text(name) for source in sources if name in source.sets}))
    return [f"  set {name} {{", f"    {SETS[name]}", *([f"    elements = {{ {texts} }}"] if texts else []), "  }"]


def _ipv4_chain() -> list[str]:
    return [
        "  chain from-ipv4 {",
        "    iifname . ether saddr . ip saddr != @sources4 drop",
        "    udp sport 67 udp dport 68 drop",
        "    icmp type redirect drop",
        "    igmp type membership-query drop",
        "  }",
    ]


def _ipv6_chain(checks_targets: bool) -> list[str]:
    """Return the checks of IPv6 packets. A packet of duplicate address detection has no source address."""
    target = "iifname . ether saddr . @th,64,128"
    detection = [f"    ip6 saddr :: icmpv6 type nd-neighbor-solicit {target} @targets6 accept"]
    advertisement = [f"    icmpv6 type nd-neighbor-advert {target} != @targets6 drop"]
    return [
        "  chain from-ipv6 {",
        *(detection if checks_targets else []),
        "    iifname . ether saddr . ip6 saddr != @sources6 drop",
        *(advertisement if checks_targets else []),
        "    icmpv6 type { nd-router-advert, nd-redirect, mld-listener-query } drop",
        "    udp sport 547 udp dport 546 drop",
        "  }",
    ]


def _arp_chain() -> list[str]:
    return [
        "  chain from-arp {",
        "    arp htype != 1 drop",
        "    arp ptype != ip drop",
        "    arp hlen != 6 drop",
        "    arp plen != 4 drop",
        "    iifname . ether saddr . arp saddr ip != @sources4 drop",
        "    iifname . arp saddr ether . arp saddr ip != @sources4 drop",
        "  }",
    ]


def _prerouting_chain(links: str, router: str) -> list[str]:
    route = [
        f"    {_NEIGHBOR_DISCOVERY} accept",
        f"    ether type {{ ip, ip6 }} {_UNICAST} ether daddr set {router} meta pkttype set host",
    ]
    return [
        "  chain prerouting {",
        "    type filter hook prerouting priority dstnat; policy accept;",
        f"    iifname != {links} accept",
        "    ether type != { ip, ip6, arp } drop",
        "    ether type ip jump from-ipv4",
        "    ether type ip6 jump from-ipv6",
        "    ether type arp jump from-arp",
        *(route if router else []),
        "  }",
    ]


def _forward_chain(links: str) -> list[str]:
    """Return the chain that drops broadcasts and multicasts between pods, except those that resolve addresses."""
    return [
        "  chain forward {",
        "    type filter hook forward priority filter; policy accept;",
        f"    iifname != {links} accept",
        f"    {_NEIGHBOR_DISCOVERY} accept",
        f"    ether type != arp {_GROUP} drop",
        "  }",
    ]


def _output_chain(bridge: str) -> list[str]:
    return [
        "  chain output {",
        "    type filter hook output priority filter; policy accept;",
        f'    oifname "{bridge}-*" icmp type redirect drop',
        f'    oifname "{bridge}-*" icmpv6 type nd-redirect drop',
        "  }",
    ]
