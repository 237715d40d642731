"""Datagrams of netlink sockets: links, addresses, routes, acknowledgments, tracked flows, objects of nf_tables and
WireGuard."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from sampan.host.netlink import constants as nl
from sampan.host.netlink.conntrack import read_udp_flow
from sampan.host.netlink.messages import (
    HEADER,
    MalformedNetlinkMessage,
    attribute,
    error_code,
    iterate_attributes,
    read_attributes,
    split_messages,
    text_attribute,
    u32_attribute,
)
from sampan.host.netlink.routing import link_body, read_address, read_link, read_route
from sampan.host.netlink.wireguard import read_public_keys

ERRORS = (MalformedNetlinkMessage,)


def message(type: int, body: bytes) -> bytes:
    return HEADER.pack(HEADER.size + len(body), type, 0, 1, 0) + body


def _link() -> bytes:
    kind = attribute(nl.IFLA_LINKINFO, text_attribute(nl.IFLA_INFO_KIND, "veth"))
    alias = text_attribute(nl.IFLA_IFALIAS, "alias")
    return link_body(7, name="sampan-a", mtu=1500) + kind + alias + u32_attribute(nl.IFLA_MASTER, 3)


def _address() -> bytes:
    head = struct.pack("=BBBBI", 2, 24, 0, 0, 7)
    return head + attribute(nl.IFA_ADDRESS, b"\x0a\x00\x00\x01") + attribute(nl.IFA_LOCAL, b"\x0a\x00\x00\x01")


def _route() -> bytes:
    head = struct.pack("=BBBBBBBBI", 2, 24, 0, 0, nl.RT_TABLE_MAIN, 83, 0, nl.RTN_UNICAST, 0)
    destination, gateway = b"\x0a\x00\x01\x00", b"\x0a\x00\x00\x02"
    return head + attribute(nl.RTA_DST, destination) + attribute(nl.RTA_GATEWAY, gateway) + u32_attribute(nl.RTA_OIF, 7)


def _flow() -> bytes:
    ports = attribute(1, b"\x11") + attribute(2, b"\x00\x35") + attribute(3, b"\x1f\x90")
    ends = attribute(1, attribute(1, b"\x0a\x00\x00\x01") + attribute(2, b"\x0a\x00\x00\x02")) + attribute(2, ports)
    return b"\x02\x00\x00\x00" + attribute(1, ends) + attribute(2, ends) + u32_attribute(nl.CTA_ID, 9)


def _elements() -> bytes:
    element = attribute(1, attribute(1, attribute(1, b"\x0a\x00\x00\x01")))
    return b"\x02\x00\x00\x00" + text_attribute(1, "sampan") + text_attribute(2, "set") + attribute(3, element * 2)


def _device() -> bytes:
    peer = attribute(1, attribute(nl.WGPEER_A_PUBLIC_KEY, bytes(32)))
    return b"\x00\x01\x00\x00" + text_attribute(nl.WGDEVICE_A_IFNAME, "wg0") + attribute(nl.WGDEVICE_A_PEERS, peer)


DATAGRAMS = (
    b"a" + message(20, _address()) * 2,
    b"w" + message(40, _device()),
    b"l" + message(16, _link()) * 2 + message(3, bytes(4)),
    b"r" + message(24, _route()) + message(3, bytes(4)),
    b"f" + message(256, _flow()) * 2,
    b"n" + message(2572, _elements()) + message(nl.NLMSG_ERROR, struct.pack("=i", -17)),
)


def read_datagram(data: bytes) -> None:
    """Read a datagram; its first byte says what it is about."""
    for received in split_messages(data[1:]):
        if received.type == nl.NLMSG_DONE:
            return
        if received.type == nl.NLMSG_ERROR:
            error_code(received.body)
        elif read := _READERS.get(data[:1]):
            read(received.body)
        else:
            values = read_attributes(received.body[4:])
            for _, element in iterate_attributes(values.get(nl.NFTA_SET_ELEM_LIST_ELEMENTS, b"")):
                read_attributes(element)


_READERS: dict[bytes, Callable[[bytes], object]] = {
    b"l": read_link,
    b"a": read_address,
    b"r": read_route,
    b"f": lambda body: read_udp_flow(body, socket.AF_INET),
    b"w": read_public_keys,
}
