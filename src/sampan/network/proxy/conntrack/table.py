"""The conntrack table of the kernel over netlink: reading the UDP flows, and deleting some of them.

One dump reads the table. Only the attributes that matter are decoded, because the table of a busy node has hundreds of
thousands of entries. Everything works in the network namespace of the calling thread.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

_NETLINK_NETFILTER = 12
_NFNL_SUBSYS_CTNETLINK = 1
_CT_GET, _CT_DELETE = 1, 2
_NLM_REQUEST, _NLM_ACK, _NLM_DUMP = 0x1, 0x4, 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_TUPLE_ORIG, _TUPLE_REPLY, _ID, _ZONE = 1, 2, 12, 18
_TUPLE_IP, _TUPLE_PROTO = 1, 2
_IP_SOURCE = {socket.AF_INET: 1, socket.AF_INET6: 3}
_IP_DESTINATION = {socket.AF_INET: 2, socket.AF_INET6: 4}
_PROTO_NUMBER, _PROTO_SOURCE_PORT, _PROTO_DESTINATION_PORT = 1, 2, 3
_TYPE_MASK = 0x3FFF
"""Attribute types without the flags for nested attributes and byte order."""
_RECEIVE_BYTES, _BUFFER_BYTES = 1 << 18, 4 << 20
_SO_RCVBUFFORCE = 33
_ENOENT = 2

_HEADER = struct.Struct("=IHHII")
_NFGEN = struct.Struct("=BBH")
_ATTRIBUTE = struct.Struct("=HH")
_CODE = struct.Struct("=i")
_PORT = struct.Struct("!H")


class UdpFlow(NamedTuple):
    """A tracked UDP flow: where its first packet was sent to, and who replies."""

    destination: str
    destination_port: int
    reply_source: str
    reply_source_port: int
    attributes: bytes
    """The attributes that identify the entry in the kernel."""


class ConntrackTable:
    """A netlink connection for one IP family. Calls block, and raise OSError."""

    def __init__(self, family: socket.AddressFamily) -> None:
        self._family = family

    def udp_flows(self) -> list[UdpFlow]:
        with closing(_open()) as netlink:
            netlink.send(_message(_CT_GET, _NLM_REQUEST | _NLM_DUMP, self._family))
            return list(self._read(netlink))

    def delete(self, flows: Iterable[UdpFlow]) -> int:
        """Delete entries, and return how many existed: others have expired in the meantime."""
        count = 0
        with closing(_open()) as netlink:
            for flow in flows:
                netlink.send(_message(_CT_DELETE, _NLM_REQUEST | _NLM_ACK, self._family, flow.attributes))
                code = _code(netlink.recv(_RECEIVE_BYTES))
                if code and code != _ENOENT:
                    raise OSError(code, os.strerror(code))
                count += not code
        return count

    def _read(self, netlink: socket.socket) -> Iterator[UdpFlow]:
        while True:
            data = netlink.recv(_RECEIVE_BYTES)
            at = 0
            while at < len(data):
                length, kind, *_ = _HEADER.unpack_from(data, at)
                if kind == _NLMSG_DONE:
                    return
                if kind == _NLMSG_ERROR:
                    code = -_CODE.unpack_from(data, at + _HEADER.size)[0]
                    raise OSError(code, os.strerror(code))
                flow = self._flow(data, at + _HEADER.size + _NFGEN.size, at + length)
                if flow is not None:
                    yield flow
                at += _aligned(length)

    def _flow(self, data: bytes, start: int, end: int) -> UdpFlow | None:
        places = {kind: (begin, begin + size) for kind, begin, size in _attributes(data, start, end)}
        if _TUPLE_ORIG not in places or _TUPLE_REPLY not in places:
            return None
        original = self._tuple(data, *places[_TUPLE_ORIG])
        reply = self._tuple(data, *places[_TUPLE_REPLY])
        if original is None or reply is None:
            return None
        identity = b"".join(_copied(data, *places[kind]) for kind in (_TUPLE_ORIG, _ZONE, _ID) if kind in places)
        return UdpFlow(original[1], original[3], reply[0], reply[2], identity)

    def _tuple(self, data: bytes, start: int, end: int) -> tuple[str, str, int, int] | None:
        """Return the addresses and ports of source and destination, or None for other protocols than UDP."""
        nested = {kind: (begin, begin + size) for kind, begin, size in _attributes(data, start, end)}
        ports = {kind: begin for kind, begin, _ in _attributes(data, *nested[_TUPLE_PROTO])}
        if data[ports[_PROTO_NUMBER]] != socket.IPPROTO_UDP:
            return None
        addresses = {kind: data[begin : begin + size] for kind, begin, size in _attributes(data, *nested[_TUPLE_IP])}
        return (
            socket.inet_ntop(self._family, addresses[_IP_SOURCE[self._family]]),
            socket.inet_ntop(self._family, addresses[_IP_DESTINATION[self._family]]),
            _PORT.unpack_from(data, ports[_PROTO_SOURCE_PORT])[0],
            _PORT.unpack_from(data, ports[_PROTO_DESTINATION_PORT])[0],
        )


def _open() -> socket.socket:
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER)
    try:
        netlink.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    except OSError:
        netlink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    netlink.bind((0, 0))
    netlink.settimeout(30)
    return netlink


def _message(kind: int, flags: int, family: int, attributes: bytes = b"") -> bytes:
    body = _NFGEN.pack(family, 0, 0) + attributes
    return _HEADER.pack(_HEADER.size + len(body), _NFNL_SUBSYS_CTNETLINK << 8 | kind, flags, 1, 0) + body


def _attributes(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield type, start and size of the values of the attributes between two positions."""
    while start + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, start)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _TYPE_MASK, start + _ATTRIBUTE.size, length - _ATTRIBUTE.size
        start += _aligned(length)


def _copied(data: bytes, start: int, end: int) -> bytes:
    """Return an attribute with its header and padding."""
    return data[start - _ATTRIBUTE.size : end] + bytes(_aligned(end - start) - (end - start))


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _code(data: bytes) -> int:
    """Return the error code of an acknowledgement; 0 for success."""
    return int(-_CODE.unpack_from(data, _HEADER.size)[0])
