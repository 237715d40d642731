"""The properties in which the tables of the two IP families differ."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from sampan.host.netlink.constants import NFPROTO_IPV4, NFPROTO_IPV6
from sampan.network.proxy.services import IPV4, IPV6


@dataclass(frozen=True, slots=True, kw_only=True)
class IPFamily:
    """The properties of an IP family in rules and messages."""

    name: str
    """The name of the family in API objects, such as IPv4."""
    nft: str
    """The name of the family in nftables rules, such as `ip`."""
    number: int
    length: int
    """The length of an address in bytes."""
    address_type: int
    address_type_name: str
    source_offset: int
    destination_offset: int
    port_unreachable: int
    zero: str
    """The CIDR of all addresses."""
    not_loopback: str
    """The condition that a destination is not a loopback address."""

    def pack(self, address: str) -> bytes:
        return socket.inet_pton(socket.AF_INET if self.length == 4 else socket.AF_INET6, address)


IPV4_FAMILY = IPFamily(
    name=IPV4,
    nft="ip",
    number=NFPROTO_IPV4,
    length=4,
    address_type=7,
    address_type_name="ipv4_addr",
    source_offset=12,
    destination_offset=16,
    port_unreachable=3,
    zero="0.0.0.0/0",
    not_loopback="127.0.0.0/8",
)
IPV6_FAMILY = IPFamily(
    name=IPV6,
    nft="ip6",
    number=NFPROTO_IPV6,
    length=16,
    address_type=8,
    address_type_name="ipv6_addr",
    source_offset=8,
    destination_offset=24,
    port_unreachable=4,
    zero="::/0",
    not_loopback="::1",
)
FAMILIES_BY_NAME = {family.name: family for family in (IPV4_FAMILY, IPV6_FAMILY)}
