"""The connection tracking table of the kernel (ctnetlink): its UDP flows, which can be listed and deleted."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterable
from typing import NamedTuple

from sampan.host.netlink import constants as nl
from sampan.host.netlink.messages import NETFILTER_HEADER, NetlinkMessage, attribute, checked_messages, read_attributes
from sampan.host.netlink.netlink_socket import NetlinkSocket

_RECEIVE_BUFFER = 4 << 20
_PORT = struct.Struct("!H")
_GET = nl.NFNL_SUBSYS_CTNETLINK << 8 | nl.IPCTNL_MSG_CT_GET
_DELETE = nl.NFNL_SUBSYS_CTNETLINK << 8 | nl.IPCTNL_MSG_CT_DELETE
_IP_ATTRIBUTES = {
    socket.AF_INET: (nl.CTA_IP_V4_SRC, nl.CTA_IP_V4_DST),
    socket.AF_INET6: (nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST),
}


class UdpFlow(NamedTuple):
    """A tracked UDP flow: the destination of its first packet, and the endpoint that replies."""

    destination: str
    destination_port: int
    reply_source: str
    reply_source_port: int
    attributes: bytes
    """The attributes that identify the entry in the kernel."""


class ConntrackTable:
    """The table of one IP family in the network namespace of the calling thread. Calls block, and raise OSError."""

    def __init__(self, family: socket.AddressFamily) -> None:
        self._family = family
        self._header = NETFILTER_HEADER.pack(family, 0, 0)

    def udp_flows(self) -> list[UdpFlow]:
        with NetlinkSocket(nl.NETLINK_NETFILTER, receive_buffer_bytes=_RECEIVE_BUFFER) as netlink:
            flows = (read_udp_flow(body, self._family) for body in netlink.dump(_GET, self._header))
            return [flow for flow in flows if flow is not None]

    def delete(self, flows: Iterable[UdpFlow]) -> int:
        """Delete entries, and return how many of them still existed. The others have expired in the meantime."""
        count = 0
        with NetlinkSocket(nl.NETLINK_NETFILTER) as netlink:
            for flow in flows:
                try:
                    netlink.send(NetlinkMessage(_DELETE, self._header + flow.attributes))
                    count += 1
                except OSError as error:
                    if error.errno != errno.ENOENT:
                        raise
        return count


def read_udp_flow(body: bytes, family: socket.AddressFamily) -> UdpFlow | None:
    """Return the flow that a message describes, or None for other protocols than UDP."""
    with checked_messages():
        attributes = read_attributes(body[NETFILTER_HEADER.size :])
        if nl.CTA_TUPLE_ORIG not in attributes or nl.CTA_TUPLE_REPLY not in attributes:
            return None
        original = _read_tuple(attributes[nl.CTA_TUPLE_ORIG], family)
        reply = _read_tuple(attributes[nl.CTA_TUPLE_REPLY], family)
        if original is None or reply is None:
            return None
        return UdpFlow(original[1], original[3], reply[0], reply[2], _identity(attributes))


def _read_tuple(data: bytes, family: socket.AddressFamily) -> tuple[str, str, int, int] | None:
    """Return the addresses and ports of source and destination, or None for other protocols than UDP."""
    nested = read_attributes(data)
    ports = read_attributes(nested[nl.CTA_TUPLE_PROTO])
    if ports[nl.CTA_PROTO_NUM][0] != socket.IPPROTO_UDP:
        return None
    addresses = read_attributes(nested[nl.CTA_TUPLE_IP])
    source, destination = (socket.inet_ntop(family, addresses[type]) for type in _IP_ATTRIBUTES[family])
    return (
        source,
        destination,
        _PORT.unpack(ports[nl.CTA_PROTO_SRC_PORT])[0],
        _PORT.unpack(ports[nl.CTA_PROTO_DST_PORT])[0],
    )


def _identity(attributes: dict[int, bytes]) -> bytes:
    """Encode the attributes with which the kernel finds the entry again."""
    original = attribute(nl.CTA_TUPLE_ORIG | nl.NLA_F_NESTED, attributes[nl.CTA_TUPLE_ORIG])
    others = (attribute(type, attributes[type]) for type in (nl.CTA_ZONE, nl.CTA_ID) if type in attributes)
    return original + b"".join(others)
