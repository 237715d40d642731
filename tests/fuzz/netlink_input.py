"""Datagrams of netlink sockets: links, routes, acknowledgments, tracked flows and objects of nf_tables."""

from __future__ import annotations

import socket
import struct

from sampan.network import netlink
from sampan.network.netlink import attribute, number_attribute, text_attribute
from sampan.network.netlink_messages import (
    DONE,
    ERROR,
    HEADER,
    MalformedNetlinkMessage,
    attribute_list,
    attributes,
    error_code,
    split_messages,
)
from sampan.network.proxy.conntrack import read_udp_flow

ERRORS = (MalformedNetlinkMessage,)


def message(type: int, body: bytes) -> bytes:
    return HEADER.pack(HEADER.size + len(body), type, 0, 1, 0) + body


def _link() -> bytes:
    kind = attribute(18, text_attribute(1, "veth"))
    return (
        netlink.link_body(7, name="sampan-a", mtu=1500) + kind + text_attribute(20, "alias") + number_attribute(10, 3)
    )


def _route() -> bytes:
    head = struct.pack("=BBBBBBBBI", 2, 24, 0, 0, 254, netlink.ROUTE_PROTOCOL, 0, 1, 0)
    return head + attribute(1, b"\x0a\x00\x01\x00") + attribute(5, b"\x0a\x00\x00\x02") + number_attribute(4, 7)


def _flow() -> bytes:
    ports = attribute(1, b"\x11") + attribute(2, b"\x00\x35") + attribute(3, b"\x1f\x90")
    ends = attribute(1, attribute(1, b"\x0a\x00\x00\x01") + attribute(2, b"\x0a\x00\x00\x02")) + attribute(2, ports)
    return b"\x02\x00\x00\x00" + attribute(1, ends) + attribute(2, ends) + number_attribute(12, 9)


def _elements() -> bytes:
    element = attribute(1, attribute(1, attribute(1, b"\x0a\x00\x00\x01")))
    return b"\x02\x00\x00\x00" + text_attribute(1, "sampan") + text_attribute(2, "set") + attribute(3, element * 2)


DATAGRAMS = (
    b"l" + message(16, _link()) * 2 + message(3, bytes(4)),
    b"r" + message(24, _route()) + message(3, bytes(4)),
    b"f" + message(256, _flow()) * 2,
    b"n" + message(2572, _elements()) + message(ERROR, struct.pack("=i", -17)),
)


def read_datagram(data: bytes) -> None:
    """Read a datagram; its first byte says what it is about."""
    for received in split_messages(data[1:]):
        if received.type == DONE:
            return
        if received.type == ERROR:
            error_code(received.body)
        elif data[:1] == b"l":
            netlink.read_link(received.body)
        elif data[:1] == b"r":
            netlink.read_route(received.body, netlink.ROUTE_PROTOCOL, 7)
        elif data[:1] == b"f":
            read_udp_flow(received.body, socket.AF_INET)
        else:
            values = attributes(received.body[4:])
            for _, element in attribute_list(values.get(3, b"")):
                attributes(element)
