"""Links, addresses, routes, routing rules and neighbors (rtnetlink).

Functions with the prefix `encode_` return messages, so that several can be sent at a time.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_address, ip_interface, ip_network

from sampan.host.netlink import constants as nl
from sampan.host.netlink.messages import (
    NetlinkMessage,
    attribute,
    checked_messages,
    nested_attribute,
    read_attributes,
    read_text,
    read_u32,
    text_attribute,
    u32_attribute,
)
from sampan.host.netlink.netlink_socket import NetlinkSocket

_LINK = struct.Struct("=BxHiII")
"""struct ifinfomsg: family, type, index, flags, mask of changed flags."""
_ADDRESS = struct.Struct("=BBBBI")
"""struct ifaddrmsg: family, prefix length, flags, scope, index."""
_ROUTE = struct.Struct("=BBBBBBBBI")
"""struct rtmsg: family, length of destination, length of source, TOS, table, protocol, scope, type, flags."""
_NEIGHBOR = struct.Struct("=BxxxiHBB")
"""struct ndmsg: family, index, state, flags, type."""
_ADD, _SET = nl.NLM_F_CREATE | nl.NLM_F_EXCL, nl.NLM_F_CREATE | nl.NLM_F_REPLACE
_NO_LL_LEARN = 1 << nl.BR_BOOLOPT_NO_LL_LEARN

Interface = IPv4Interface | IPv6Interface


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkInfo:
    index: int
    name: str
    kind: str
    """bridge, veth and so on; empty for a link without a kind, such as that of a network card."""
    alias: str
    mtu: int
    master: int
    hardware: str = ""
    """The hardware address; empty for a link without one, such as WireGuard's."""
    data: bytes = b""
    """The attributes of its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressInfo:
    index: int
    """The link that has the address."""
    interface: Interface


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteInfo:
    """A route of the main table."""

    destination: str
    gateway: str = ""
    link: int = 0
    """The index of the link; 0 for a route without one, which rejects packets."""
    protocol: int
    """Who added the route: one of the numbers RTPROT_*, or one of a program's own."""
    metric: int = 0
    type: int = nl.RTN_UNICAST
    scope: int = nl.RT_SCOPE_UNIVERSE
    is_onlink: bool = False
    """Whether the gateway is on the link although no address of the link says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingEntry:
    """An entry of the forwarding table of a VXLAN link: the machine to which frames for a hardware address are sent."""

    hardware: str
    address: str


def open_route_socket() -> NetlinkSocket:
    """Open a socket in the network namespace of the calling thread."""
    return NetlinkSocket(nl.NETLINK_ROUTE)


def family_of(address: str) -> int:
    return socket.AF_INET if ip_interface(address).version == 4 else socket.AF_INET6


# -- links -------------------------------------------------------------------------------------------------------------


def encode_link_creation(name: str, kind: str, *, mtu: int = 0, hardware: str = "") -> NetlinkMessage:
    return _link_creation(link_body(name=name, mtu=mtu, hardware=hardware), kind)


def encode_veth_creation(
    name: str, *, bridge: int, mtu: int, peer: str, namespace: int, hardware: str
) -> NetlinkMessage:
    """Encode the creation of a veth pair: one end is on the bridge, the other in the network namespace of the open
    file."""
    other_end = link_body(name=peer, mtu=mtu, hardware=hardware) + u32_attribute(nl.IFLA_NET_NS_FD, namespace)
    own_end = link_body(flags=nl.IFF_UP, name=name, mtu=mtu) + u32_attribute(nl.IFLA_MASTER, bridge)
    return _link_creation(own_end, "veth", attribute(nl.VETH_INFO_PEER, other_end))


def encode_vxlan_creation(
    name: str, *, identifier: int, underlay: int, local: str, port: int, mtu: int, hardware: str
) -> NetlinkMessage:
    """Encode the creation of a VXLAN link that sends from an address of the link `underlay`, and learns no addresses
    from frames."""
    packed = ip_address(local).packed
    return _link_creation(
        link_body(name=name, mtu=mtu, hardware=hardware),
        "vxlan",
        u32_attribute(nl.IFLA_VXLAN_ID, identifier),
        u32_attribute(nl.IFLA_VXLAN_LINK, underlay),
        attribute(nl.IFLA_VXLAN_PORT, port.to_bytes(2, "big")),
        attribute(nl.IFLA_VXLAN_LEARNING, b"\0"),
        attribute(nl.IFLA_VXLAN_LOCAL if len(packed) == 4 else nl.IFLA_VXLAN_LOCAL6, packed),
    )


def _link_creation(body: bytes, kind: str, *data: bytes) -> NetlinkMessage:
    return NetlinkMessage(nl.RTM_NEWLINK, body + _kind_attributes(kind, *data), _ADD)


def _kind_attributes(kind: str, *data: bytes) -> bytes:
    attributes = [text_attribute(nl.IFLA_INFO_KIND, kind)]
    if data:
        attributes.append(nested_attribute(nl.IFLA_INFO_DATA, *data))
    return nested_attribute(nl.IFLA_LINKINFO, *attributes)


def encode_reserved_learning_off(index: int) -> NetlinkMessage:
    """Encode the option that a bridge learns no address from frames to reserved addresses. They pass no hook, so that a
    pod could direct the frames for another pod to itself."""
    option = attribute(nl.IFLA_BR_MULTI_BOOLOPT, struct.pack("=II", _NO_LL_LEARN, _NO_LL_LEARN))
    return NetlinkMessage(nl.RTM_NEWLINK, link_body(index) + _kind_attributes("bridge", option))


def encode_hairpin_mode(index: int) -> NetlinkMessage:
    """Encode the change that enables hairpin mode of a port of a bridge, so that a pod can reach itself through the
    node."""
    data = nested_attribute(nl.IFLA_INFO_SLAVE_DATA, attribute(nl.IFLA_BRPORT_MODE, b"\x01"))
    kind = nested_attribute(nl.IFLA_LINKINFO, text_attribute(nl.IFLA_INFO_SLAVE_KIND, "bridge"), data)
    return NetlinkMessage(nl.RTM_NEWLINK, link_body(index) + kind)


def encode_alias(index: int, text: str) -> NetlinkMessage:
    return NetlinkMessage(nl.RTM_NEWLINK, link_body(index) + attribute(nl.IFLA_IFALIAS, text.encode()))


def encode_link_up(index: int, *, mtu: int = 0) -> NetlinkMessage:
    return NetlinkMessage(nl.RTM_NEWLINK, link_body(index, flags=nl.IFF_UP, mtu=mtu))


def encode_bridge_membership(index: int, bridge: int) -> NetlinkMessage:
    """Encode the attachment of a link to a bridge; the link is brought up."""
    body = link_body(index, flags=nl.IFF_UP) + u32_attribute(nl.IFLA_MASTER, bridge)
    return NetlinkMessage(nl.RTM_NEWLINK, body)


def encode_group_assignment(index: int, group: int) -> NetlinkMessage:
    return NetlinkMessage(nl.RTM_NEWLINK, link_body(index) + u32_attribute(nl.IFLA_GROUP, group))


def encode_link_deletion(index: int) -> NetlinkMessage:
    return NetlinkMessage(nl.RTM_DELLINK, link_body(index))


def encode_group_deletion(group: int) -> NetlinkMessage:
    return NetlinkMessage(nl.RTM_DELLINK, link_body() + u32_attribute(nl.IFLA_GROUP, group))


def list_links(netlink: NetlinkSocket) -> list[LinkInfo]:
    """Return the links of the socket's network namespace."""
    return [read_link(body) for body in netlink.dump(nl.RTM_GETLINK, link_body())]


def get_link(netlink: NetlinkSocket, index: int) -> LinkInfo:
    return read_link(netlink.get(nl.RTM_GETLINK, link_body(index)))


def read_link(body: bytes) -> LinkInfo:
    with checked_messages():
        attributes = read_attributes(body[_LINK.size :])
        info = read_attributes(attributes.get(nl.IFLA_LINKINFO, b""))
        return LinkInfo(
            index=_LINK.unpack_from(body)[2],
            name=read_text(attributes[nl.IFLA_IFNAME]),
            kind=read_text(info.get(nl.IFLA_INFO_KIND, b"")),
            alias=read_text(attributes.get(nl.IFLA_IFALIAS, b"")),
            mtu=read_u32(attributes[nl.IFLA_MTU]),
            master=read_u32(attributes.get(nl.IFLA_MASTER, bytes(4))),
            hardware=attributes.get(nl.IFLA_ADDRESS, b"").hex(":"),
            data=info.get(nl.IFLA_INFO_DATA, b""),
        )


def vxlan_underlay(link: LinkInfo) -> tuple[int, str]:
    """Return the link and the address from which a VXLAN link sends; 0 and an empty text if it has none."""
    data = read_attributes(link.data)
    packed = data.get(nl.IFLA_VXLAN_LOCAL) or data.get(nl.IFLA_VXLAN_LOCAL6)
    return read_u32(data.get(nl.IFLA_VXLAN_LINK, bytes(4))), str(ip_address(packed)) if packed else ""


def link_body(index: int = 0, *, flags: int = 0, name: str = "", mtu: int = 0, hardware: str = "") -> bytes:
    body = _LINK.pack(0, 0, index, flags, flags)
    body += text_attribute(nl.IFLA_IFNAME, name) if name else b""
    body += u32_attribute(nl.IFLA_MTU, mtu) if mtu else b""
    return body + (attribute(nl.IFLA_ADDRESS, _hardware(hardware)) if hardware else b"")


def _hardware(address: str) -> bytes:
    return bytes.fromhex(address.replace(":", ""))


# -- addresses ---------------------------------------------------------------------------------------------------------


def encode_address(index: int, address: str) -> NetlinkMessage:
    """Encode the addition of an address to a link. An equal address is replaced. Duplicate addresses are not detected:
    only this node assigns addresses from its pod CIDRs."""
    flags = nl.IFA_F_NODAD if ip_interface(address).version == 6 else 0
    return NetlinkMessage(nl.RTM_NEWADDR, _address_body(index, address, flags), _SET)


def encode_address_deletion(index: int, address: str) -> NetlinkMessage:
    return NetlinkMessage(nl.RTM_DELADDR, _address_body(index, address))


def _address_body(index: int, address: str, flags: int = 0) -> bytes:
    interface = ip_interface(address)
    head = _ADDRESS.pack(family_of(address), interface.network.prefixlen, flags, 0, index)
    return head + attribute(nl.IFA_LOCAL, interface.packed) + attribute(nl.IFA_ADDRESS, interface.packed)


def list_addresses(netlink: NetlinkSocket, family: int = socket.AF_UNSPEC) -> list[AddressInfo]:
    """Return the addresses of all links."""
    bodies = netlink.dump(nl.RTM_GETADDR, _ADDRESS.pack(family, 0, 0, 0, 0))
    return [address for address in map(read_address, bodies) if address is not None]


def read_address(body: bytes) -> AddressInfo | None:
    """Return the address in a message, or None for one of another kind than IPv4 and IPv6."""
    with checked_messages():
        _, length, _, _, index = _ADDRESS.unpack_from(body)
        attributes = read_attributes(body[_ADDRESS.size :])
        packed = attributes.get(nl.IFA_LOCAL) or attributes.get(nl.IFA_ADDRESS)  # of the peer if there is one
        if packed is None:
            return None
        return AddressInfo(index=index, interface=ip_interface(f"{ip_address(packed)}/{length}"))


# -- routes ------------------------------------------------------------------------------------------------------------


def encode_route(route: RouteInfo) -> NetlinkMessage:
    """Encode a route, which is added or replaces the one with the same destination and metric."""
    return NetlinkMessage(nl.RTM_NEWROUTE, _route_body(route), _SET)


def encode_route_deletion(route: RouteInfo) -> NetlinkMessage:
    """Encode the deletion of a route. Properties that are not set match any route."""
    return NetlinkMessage(nl.RTM_DELROUTE, _route_body(route))


def encode_drop_rule(link_name: str, destination: str, *, priority: int) -> NetlinkMessage:
    """Encode a rule that drops packets to the destination which arrive on a link and would be routed.

    The kernel refuses a second equal rule with EEXIST.
    """
    network: IPv4Network | IPv6Network = ip_network(destination)
    head = _ROUTE.pack(family_of(destination), network.prefixlen, 0, 0, 0, 0, 0, nl.FR_ACT_BLACKHOLE, 0)
    attributes = attribute(nl.FRA_DST, network.network_address.packed) + text_attribute(nl.FRA_IIFNAME, link_name)
    return NetlinkMessage(nl.RTM_NEWRULE, head + attributes + u32_attribute(nl.FRA_PRIORITY, priority), _ADD)


def list_routes(netlink: NetlinkSocket, family: int = socket.AF_UNSPEC) -> list[RouteInfo]:
    """Return the routes of the main table."""
    bodies = netlink.dump(nl.RTM_GETROUTE, _ROUTE.pack(family, 0, 0, 0, 0, 0, 0, 0, 0))
    return [route for route in map(read_route, bodies) if route is not None]


def read_route(body: bytes) -> RouteInfo | None:
    """Return the route in a message, or None for one of another table than the main one."""
    with checked_messages():
        family, length, _, _, table, protocol, scope, type, flags = _ROUTE.unpack_from(body)
        if table != nl.RT_TABLE_MAIN or family not in _ZERO_ADDRESSES:
            return None
        attributes = read_attributes(body[_ROUTE.size :])
        gateway = attributes.get(nl.RTA_GATEWAY)
        return RouteInfo(
            destination=f"{ip_address(attributes.get(nl.RTA_DST, _ZERO_ADDRESSES[family]))}/{length}",
            gateway=str(ip_address(gateway)) if gateway else "",
            link=read_u32(attributes.get(nl.RTA_OIF, bytes(4))),
            protocol=protocol,
            metric=read_u32(attributes.get(nl.RTA_PRIORITY, bytes(4))),
            type=type,
            scope=scope,
            is_onlink=bool(flags & nl.RTNH_F_ONLINK),
        )


_ZERO_ADDRESSES = {int(socket.AF_INET): bytes(4), int(socket.AF_INET6): bytes(16)}


def _route_body(route: RouteInfo) -> bytes:
    network: IPv4Network | IPv6Network = ip_network(route.destination)
    flags = nl.RTNH_F_ONLINK if route.is_onlink else 0
    body = _ROUTE.pack(
        family_of(route.destination),
        network.prefixlen,
        0,
        0,
        nl.RT_TABLE_MAIN,
        route.protocol,
        route.scope,
        route.type,
        flags,
    )
    body += attribute(nl.RTA_DST, network.network_address.packed) if network.prefixlen else b""
    body += attribute(nl.RTA_GATEWAY, ip_address(route.gateway).packed) if route.gateway else b""
    body += u32_attribute(nl.RTA_OIF, route.link) if route.link else b""
    return body + (u32_attribute(nl.RTA_PRIORITY, route.metric) if route.metric else b"")


# -- neighbors ---------------------------------------------------------------------------------------------------------


def encode_neighbor(index: int, address: str, hardware: str) -> NetlinkMessage:
    """Encode the permanent hardware address of a neighbor, which is added or replaced."""
    head = _NEIGHBOR.pack(family_of(address), index, nl.NUD_PERMANENT, 0, 0)
    return NetlinkMessage(nl.RTM_NEWNEIGH, head + _neighbor_attributes(address, hardware), _SET)


def encode_forwarding(index: int, entry: ForwardingEntry) -> NetlinkMessage:
    """Encode an entry of the forwarding table of a VXLAN link, beside others for the same hardware address."""
    return NetlinkMessage(nl.RTM_NEWNEIGH, _forwarding_body(index, entry), nl.NLM_F_CREATE | nl.NLM_F_APPEND)


def encode_forwarding_deletion(index: int, entry: ForwardingEntry) -> NetlinkMessage:
    return NetlinkMessage(nl.RTM_DELNEIGH, _forwarding_body(index, entry))


def _forwarding_body(index: int, entry: ForwardingEntry) -> bytes:
    head = _NEIGHBOR.pack(socket.AF_BRIDGE, index, nl.NUD_PERMANENT, nl.NTF_SELF, 0)
    return head + _neighbor_attributes(entry.address, entry.hardware)


def _neighbor_attributes(address: str, hardware: str) -> bytes:
    return attribute(nl.NDA_DST, ip_address(address).packed) + attribute(nl.NDA_LLADDR, _hardware(hardware))


def list_forwarding(netlink: NetlinkSocket, index: int) -> list[ForwardingEntry]:
    """Return the entries of the forwarding table of a link that name a machine."""
    bodies = netlink.dump(nl.RTM_GETNEIGH, _NEIGHBOR.pack(socket.AF_BRIDGE, 0, 0, 0, 0))
    return [entry for entry in (_read_forwarding(body, index) for body in bodies) if entry is not None]


def _read_forwarding(body: bytes, index: int) -> ForwardingEntry | None:
    with checked_messages():
        attributes = read_attributes(body[_NEIGHBOR.size :])
        address = attributes.get(nl.NDA_DST)
        if _NEIGHBOR.unpack_from(body)[1] != index or address is None:
            return None
        return ForwardingEntry(hardware=attributes.get(nl.NDA_LLADDR, b"").hex(":"), address=str(ip_address(address)))
