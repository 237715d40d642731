"""Messages to the kernel about links, addresses and routes, several at a time on a plain netlink socket.

They are encoded here rather than with pyroute2, whose import takes 0.14 s and whose sockets take ten times as long for
the messages of a pod (`python -m benchmarks network` measures the connection of pods). A socket belongs to the network
namespace of the thread that opens it and stays there.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_interface, ip_network

from sampan.network.netlink_messages import (
    ATTRIBUTE,
    DONE,
    ERROR,
    HEADER,
    attributes,
    checked_messages,
    error_code,
    failure_of,
    receive,
    split_messages,
)

_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_REPLACE, _EXCLUSIVE, _CREATE = 0x100, 0x200, 0x400
_NEW_LINK, _DELETE_LINK, _GET_LINK, _NEW_ADDRESS = 16, 17, 18, 20
_NEW_ROUTE, _DELETE_ROUTE, _GET_ROUTE, _NEW_RULE = 24, 25, 26, 32
_LINK = struct.Struct("=BxHiII")
"""struct ifinfomsg: family, type, index, flags, mask of changed flags."""
_ADDRESS = struct.Struct("=BBBBI")
"""struct ifaddrmsg: family, prefix length, flags, scope, index."""
_ROUTE = struct.Struct("=BBBBBBBBI")
"""struct rtmsg: family, length of destination, length of source, TOS, table, protocol, scope, type, flags."""
_NUMBER = struct.Struct("=I")

_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_MASTER, _IFLA_LINKINFO = 1, 3, 4, 10, 18
_IFLA_IFALIAS, _IFLA_GROUP, _IFLA_NET_NS_FD = 20, 27, 28
_INFO_KIND, _INFO_DATA, _INFO_SLAVE_KIND, _INFO_SLAVE_DATA = 1, 2, 4, 5
_VETH_INFO_PEER, _BRPORT_MODE = 1, 4
_IFLA_BR_MULTI_BOOLOPT, _NO_LL_LEARN = 46, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF, _RTA_PRIORITY, _RTA_GATEWAY = 1, 4, 6, 5
_FRA_DST, _FRA_IIFNAME, _FRA_PRIORITY = 1, 3, 6
_UP = 1
_MAIN_TABLE, _STATIC, _UNICAST, _BLACKHOLE, _UNREACHABLE = 254, 4, 1, 6, 7
_DROP_RULE_PRIORITY = 83
_LAST_METRIC = 0xFFFFFFFE
_NO_DUPLICATE_CHECK = 0x02
"""IFA_F_NODAD: skip duplicate address detection for IPv6, as only this node assigns addresses from its pod CIDRs."""
ROUTE_PROTOCOL = 83
"""The protocol number by which routes to pod CIDRs are recognized as Sampan's (`ip route show proto 83`)."""
ADDRESS_ROUTE_PROTOCOL = 84
"""The protocol number of routes to the addresses of load balancers."""
_MAX_BATCH, _MAX_DATAGRAM = 64, 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class NetlinkMessage:
    type: int
    body: bytes
    flags: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkInfo:
    index: int
    name: str
    kind: str
    """bridge, veth and so on; empty for a link without a kind, such as that of a network card."""
    alias: str
    mtu: int
    master: int


# -- links -----------------------------------------------------------------------------------------------------------


def encode_bridge_creation(name: str, *, mtu: int, hardware: str) -> NetlinkMessage:
    return NetlinkMessage(
        type=_NEW_LINK,
        body=link_body(name=name, mtu=mtu, hardware=hardware)
        + attribute(_IFLA_LINKINFO, text_attribute(_INFO_KIND, "bridge")),
        flags=_CREATE | _EXCLUSIVE,
    )


def encode_reserved_learning_off(index: int) -> NetlinkMessage:
    """Encode the option that a bridge learns no address from frames to reserved addresses. They pass no hook, so that a
    pod could direct the frames for another pod to itself."""
    data = attribute(_INFO_DATA, attribute(_IFLA_BR_MULTI_BOOLOPT, struct.pack("=II", _NO_LL_LEARN, _NO_LL_LEARN)))
    return NetlinkMessage(
        type=_NEW_LINK,
        body=link_body(index) + attribute(_IFLA_LINKINFO, text_attribute(_INFO_KIND, "bridge") + data),
    )


def encode_veth_creation(
    name: str, *, bridge: int, mtu: int, peer: str, namespace: int, hardware: str
) -> NetlinkMessage:
    """Encode the creation of a veth pair: one end is on the bridge, the other in the network namespace of the open
    file."""
    other_end = link_body(name=peer, mtu=mtu, hardware=hardware) + number_attribute(_IFLA_NET_NS_FD, namespace)
    data = attribute(_INFO_DATA, attribute(_VETH_INFO_PEER, other_end))
    own_end = link_body(flags=_UP, name=name, mtu=mtu) + number_attribute(_IFLA_MASTER, bridge)
    return NetlinkMessage(
        type=_NEW_LINK,
        body=own_end + attribute(_IFLA_LINKINFO, text_attribute(_INFO_KIND, "veth") + data),
        flags=_CREATE | _EXCLUSIVE,
    )


def encode_alias(index: int, text: str) -> NetlinkMessage:
    return NetlinkMessage(type=_NEW_LINK, body=link_body(index) + attribute(_IFLA_IFALIAS, text.encode()))


def encode_hairpin_mode(index: int) -> NetlinkMessage:
    """Encode the change that enables hairpin mode, so that a pod can reach itself through the node."""
    data = attribute(_INFO_SLAVE_DATA, attribute(_BRPORT_MODE, b"\x01"))
    return NetlinkMessage(
        type=_NEW_LINK,
        body=link_body(index) + attribute(_IFLA_LINKINFO, text_attribute(_INFO_SLAVE_KIND, "bridge") + data),
    )


def encode_link_up(index: int) -> NetlinkMessage:
    return NetlinkMessage(type=_NEW_LINK, body=link_body(index, flags=_UP))


def encode_group_assignment(index: int, group: int) -> NetlinkMessage:
    return NetlinkMessage(type=_NEW_LINK, body=link_body(index) + number_attribute(_IFLA_GROUP, group))


def encode_link_deletion(index: int) -> NetlinkMessage:
    return NetlinkMessage(type=_DELETE_LINK, body=link_body(index))


def encode_group_deletion(group: int) -> NetlinkMessage:
    return NetlinkMessage(type=_DELETE_LINK, body=link_body() + number_attribute(_IFLA_GROUP, group))


def list_links(link: socket.socket) -> Iterator[LinkInfo]:
    """Yield the links of the socket's network namespace."""
    return map(read_link, _dump(link, _GET_LINK, link_body()))


def read_link(body: bytes) -> LinkInfo:
    with checked_messages():
        values = attributes(body[_LINK.size :])
        info = attributes(values.get(_IFLA_LINKINFO, b""))
        return LinkInfo(
            index=_LINK.unpack_from(body)[2],
            name=_string(values[_IFLA_IFNAME]),
            kind=_string(info.get(_INFO_KIND, b"")),
            alias=_string(values.get(_IFLA_IFALIAS, b"")),
            mtu=_NUMBER.unpack(values[_IFLA_MTU])[0],
            master=_NUMBER.unpack(values.get(_IFLA_MASTER, bytes(4)))[0],
        )


# -- addresses and routes --------------------------------------------------------------------------------------------


def encode_address(index: int, address: str) -> NetlinkMessage:
    """Encode the addition of an address to a link. An equal address is replaced."""
    interface = ip_interface(address)
    flags = _NO_DUPLICATE_CHECK if interface.version == 6 else 0
    head = _ADDRESS.pack(family_of(address), interface.network.prefixlen, flags, 0, index)
    attributes = attribute(_IFA_LOCAL, interface.packed) + attribute(_IFA_ADDRESS, interface.packed)
    return NetlinkMessage(type=_NEW_ADDRESS, body=head + attributes, flags=_CREATE | _REPLACE)


def encode_default_route(index: int, gateway: str) -> NetlinkMessage:
    """Encode a default route, which is added or replaced."""
    body = _route(family_of(gateway)) + _gateway(gateway) + number_attribute(_RTA_OIF, index)
    return NetlinkMessage(type=_NEW_ROUTE, body=body, flags=_CREATE | _REPLACE)


def encode_route(index: int, destination: str, gateway: str) -> NetlinkMessage:
    """Encode a route to a pod CIDR, which is added or replaced."""
    body = _pod_route(destination) + _gateway(gateway) + number_attribute(_RTA_OIF, index)
    return NetlinkMessage(type=_NEW_ROUTE, body=body, flags=_CREATE | _REPLACE)


def encode_unreachable_route(destination: str) -> NetlinkMessage:
    """Encode a route that rejects packets to the destination for which there is no other route."""
    body = _pod_route(destination, _UNREACHABLE) + number_attribute(_RTA_PRIORITY, _LAST_METRIC)
    return NetlinkMessage(type=_NEW_ROUTE, body=body, flags=_CREATE | _REPLACE)


def encode_drop_rule(link_name: str, destination: str) -> NetlinkMessage:
    """Encode a rule that drops packets to the destination which arrive on a link and would be routed.

    The kernel refuses a second equal rule with EEXIST.
    """
    network: IPv4Network | IPv6Network = ip_network(destination)
    head = _ROUTE.pack(family_of(destination), network.prefixlen, 0, 0, 0, 0, 0, _BLACKHOLE, 0)
    attributes = attribute(_FRA_DST, network.network_address.packed) + text_attribute(_FRA_IIFNAME, link_name)
    attributes += number_attribute(_FRA_PRIORITY, _DROP_RULE_PRIORITY)
    return NetlinkMessage(type=_NEW_RULE, body=head + attributes, flags=_CREATE | _EXCLUSIVE)


def encode_route_deletion(index: int, destination: str) -> NetlinkMessage:
    """Encode the deletion of the route to a pod CIDR through a link."""
    return NetlinkMessage(type=_DELETE_ROUTE, body=_pod_route(destination) + number_attribute(_RTA_OIF, index))


def encode_address_route(index: int, address: str, gateway: str) -> NetlinkMessage:
    """Encode a route to the address of a load balancer, which is added or replaced."""
    body = _address_route(address) + _gateway(gateway) + number_attribute(_RTA_OIF, index)
    return NetlinkMessage(type=_NEW_ROUTE, body=body, flags=_CREATE | _REPLACE)


def encode_address_route_deletion(address: str) -> NetlinkMessage:
    """Encode the deletion of the route to the address of a load balancer."""
    return NetlinkMessage(type=_DELETE_ROUTE, body=_address_route(address))


def address_routes(link: socket.socket, index: int) -> dict[str, str]:
    """Return the gateways of the routes to addresses of load balancers through a link, by address."""
    routes = _routes(link, ADDRESS_ROUTE_PROTOCOL, index)
    return {destination.partition("/")[0]: gateway for destination, gateway in routes.items()}


def pod_routes(link: socket.socket, index: int) -> dict[str, str]:
    """Return the gateways of Sampan's routes to pod CIDRs through a link, by destination. The routes of other clusters
    on the machine use other links."""
    return _routes(link, ROUTE_PROTOCOL, index)


def _routes(link: socket.socket, protocol: int, index: int) -> dict[str, str]:
    bodies = _dump(link, _GET_ROUTE, _ROUTE.pack(0, 0, 0, 0, 0, 0, 0, 0, 0))
    return dict(filter(None, (read_route(body, protocol, index) for body in bodies)))


def read_route(body: bytes, protocol: int, index: int) -> tuple[str, str] | None:
    """Return the destination and the gateway of a route of a protocol through a link, or None for other routes."""
    with checked_messages():
        _, length, _, _, table, origin, _, kind, _ = _ROUTE.unpack_from(body)
        if (table, origin, kind) != (_MAIN_TABLE, protocol, _UNICAST):
            return None
        values = attributes(body[_ROUTE.size :])
        if _NUMBER.unpack(values[_RTA_OIF])[0] != index:
            return None
        destination, gateway = (ip_address(values[name]) for name in (_RTA_DST, _RTA_GATEWAY))
        return f"{destination}/{length}", str(gateway)


def family_of(address: str) -> int:
    return socket.AF_INET if ip_interface(address).version == 4 else socket.AF_INET6


# -- encoding --------------------------------------------------------------------------------------------------------


def link_body(index: int = 0, *, flags: int = 0, name: str = "", mtu: int = 0, hardware: str = "") -> bytes:
    body = _LINK.pack(0, 0, index, flags, flags)
    body += text_attribute(_IFLA_IFNAME, name) if name else b""
    body += number_attribute(_IFLA_MTU, mtu) if mtu else b""
    return body + (attribute(_IFLA_ADDRESS, bytes.fromhex(hardware.replace(":", ""))) if hardware else b"")


def _route(family: int, *, length: int = 0, protocol: int = _STATIC, kind: int = _UNICAST) -> bytes:
    return _ROUTE.pack(family, length, 0, 0, _MAIN_TABLE, protocol, 0, kind, 0)


def _pod_route(destination: str, kind: int = _UNICAST) -> bytes:
    network: IPv4Network | IPv6Network = ip_network(destination)
    head = _route(family_of(destination), length=network.prefixlen, protocol=ROUTE_PROTOCOL, kind=kind)
    return head + attribute(_RTA_DST, network.network_address.packed)


def _address_route(address: str) -> bytes:
    packed = ip_address(address).packed
    head = _route(family_of(address), length=8 * len(packed), protocol=ADDRESS_ROUTE_PROTOCOL)
    return head + attribute(_RTA_DST, packed)


def _gateway(address: str) -> bytes:
    return attribute(_RTA_GATEWAY, ip_address(address).packed)


def attribute(type: int, value: bytes) -> bytes:
    return ATTRIBUTE.pack(ATTRIBUTE.size + len(value), type) + value + bytes(-len(value) % 4)


def text_attribute(type: int, value: str) -> bytes:
    return attribute(type, value.encode() + b"\0")


def number_attribute(type: int, value: int) -> bytes:
    return attribute(type, _NUMBER.pack(value))


def _string(value: bytes) -> str:
    return value.rstrip(b"\0").decode("utf-8", "replace")


# -- conversation ----------------------------------------------------------------------------------------------------


def open_socket() -> socket.socket:
    """Open a socket in the network namespace of the calling thread."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)


def send_messages(link: socket.socket, messages: Sequence[NetlinkMessage]) -> None:
    """Send the messages in order, in batches for which the kernel can buffer the acknowledgements.

    Raise OSError for the first one that failed: the other messages of its batch were processed, later batches were not
    sent.
    """
    for begin in range(0, len(messages), _MAX_BATCH):
        batch = messages[begin : begin + _MAX_BATCH]
        link.send(b"".join(_encode_message(message, number, _ACK) for number, message in enumerate(batch, 1)))
        codes: list[int] = []
        while len(codes) < len(batch):
            codes += [error_code(message.body) for message in split_messages(receive(link, _MAX_DATAGRAM))]
        for code in filter(None, codes):
            raise OSError(code, os.strerror(code))


def _dump(link: socket.socket, type: int, body: bytes) -> Iterator[bytes]:
    link.send(_encode_message(NetlinkMessage(type=type, body=body), 1, _DUMP))
    while True:
        for message in split_messages(receive(link, _MAX_DATAGRAM)):
            if message.type == DONE:
                return
            if message.type == ERROR:
                raise failure_of(message.body)
            yield message.body


def _encode_message(message: NetlinkMessage, number: int, flags: int) -> bytes:
    length = HEADER.size + len(message.body)
    return HEADER.pack(length, message.type, _REQUEST | flags | message.flags, number, 0) + message.body
