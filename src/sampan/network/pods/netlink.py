"""The netlink messages sent for every pod, several at a time on a plain socket.

They are encoded with pyroute2, but sending them through its sockets, each with an event loop, takes ten times as long
(`python -m benchmarks network` measures the connection of pods); those sockets are used for everything less frequent. A
socket belongs to the network namespace of the thread that opens it and stays there.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_interface
from typing import Any

_REQUEST, _ACK, _REPLACE, _EXCLUSIVE, _CREATE = 0x1, 0x4, 0x100, 0x200, 0x400
_NEW_LINK, _DELETE_LINK, _NEW_ADDRESS, _NEW_ROUTE = 16, 17, 20, 24
_RESPONSE = struct.Struct("=IHHIIi")
_MAX_BATCH = 64
_UP = 1
_MAIN_TABLE, _STATIC, _UNICAST = 254, 4, 1
_NO_DUPLICATE_CHECK = 0x02
"""IFA_F_NODAD: skip duplicate address detection for IPv6, as only this node assigns addresses from its pod CIDRs."""

Attributes = list[list[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetlinkMessage:
    type: int
    fields: dict[str, int] = field(default_factory=dict)
    attributes: Attributes = field(default_factory=list)
    flags: int = 0


def new_pair(name: str, *, bridge: int, mtu: int, peer: str, namespace: int, hardware: str) -> NetlinkMessage:
    """Create a veth pair: one end on the bridge, the other in the network namespace of the open file."""
    peer_attributes: Attributes = [
        ["IFLA_IFNAME", peer],
        ["IFLA_MTU", mtu],
        ["IFLA_ADDRESS", hardware],
        ["IFLA_NET_NS_FD", namespace],
    ]
    data = {"attrs": [["VETH_INFO_PEER", {"attrs": peer_attributes}]]}
    kind = {"attrs": [["IFLA_INFO_KIND", "veth"], ["IFLA_INFO_DATA", data]]}
    return NetlinkMessage(
        type=_NEW_LINK,
        fields={"flags": _UP, "change": _UP},
        attributes=[["IFLA_IFNAME", name], ["IFLA_MTU", mtu], ["IFLA_MASTER", bridge], ["IFLA_LINKINFO", kind]],
        flags=_CREATE | _EXCLUSIVE,
    )


def hairpin(index: int) -> NetlinkMessage:
    """Enable hairpin mode, so that a pod can reach itself through the node."""
    data = {"attrs": [["IFLA_BRPORT_MODE", 1]]}
    kind = {"attrs": [["IFLA_INFO_SLAVE_KIND", "bridge"], ["IFLA_INFO_SLAVE_DATA", data]]}
    return NetlinkMessage(type=_NEW_LINK, fields={"index": index}, attributes=[["IFLA_LINKINFO", kind]])


def up(index: int) -> NetlinkMessage:
    return NetlinkMessage(type=_NEW_LINK, fields={"index": index, "flags": _UP, "change": _UP})


def in_group(index: int, group: int) -> NetlinkMessage:
    return NetlinkMessage(type=_NEW_LINK, fields={"index": index}, attributes=[["IFLA_GROUP", group]])


def no_link(index: int) -> NetlinkMessage:
    return NetlinkMessage(type=_DELETE_LINK, fields={"index": index})


def no_group(group: int) -> NetlinkMessage:
    return NetlinkMessage(type=_DELETE_LINK, attributes=[["IFLA_GROUP", group]])


def address(index: int, address: str) -> NetlinkMessage:
    """Add the address, or replace an equal one."""
    interface, family = ip_interface(address), family_of(address)
    attributes: Attributes = [["IFA_LOCAL", str(interface.ip)], ["IFA_ADDRESS", str(interface.ip)]]
    return NetlinkMessage(
        type=_NEW_ADDRESS,
        fields={
            "family": family,
            "prefixlen": interface.network.prefixlen,
            "flags": _NO_DUPLICATE_CHECK if interface.version == 6 else 0,
            "index": index,
        },
        attributes=attributes,
        flags=_CREATE | _REPLACE,
    )


def default_route(index: int, gateway: str) -> NetlinkMessage:
    """Add or replace the default route."""
    return NetlinkMessage(
        type=_NEW_ROUTE,
        fields={"family": family_of(gateway), "table": _MAIN_TABLE, "proto": _STATIC, "type": _UNICAST},
        attributes=[["RTA_GATEWAY", gateway], ["RTA_OIF", index]],
        flags=_CREATE | _REPLACE,
    )


def family_of(address: str) -> int:
    return socket.AF_INET if ip_interface(address).version == 4 else socket.AF_INET6


def opened() -> socket.socket:
    """Open a socket in the network namespace of the calling thread."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)


def say(link: socket.socket, messages: Sequence[NetlinkMessage]) -> None:
    """Send the messages in order, in batches for which the kernel can buffer the acknowledgements.

    Raise OSError for the first one that failed: the other messages of its batch were processed, later batches were not
    sent.
    """
    for begin in range(0, len(messages), _MAX_BATCH):
        batch = messages[begin : begin + _MAX_BATCH]
        link.send(b"".join(_encoded(message, number) for number, message in enumerate(batch, 1)))
        codes: list[int] = []
        while len(codes) < len(batch):
            codes += _codes(link.recv(1 << 16))
        for code in filter(None, codes):
            raise OSError(code, os.strerror(code))


def _encoded(message: NetlinkMessage, number: int) -> bytes:
    from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
    from pyroute2.netlink.rtnl.rtmsg import rtmsg

    encoded = {_NEW_ADDRESS: ifaddrmsg, _NEW_ROUTE: rtmsg}.get(message.type, ifinfmsg)()
    encoded.update(message.fields)
    encoded["attrs"] = message.attributes
    flags = _REQUEST | _ACK | message.flags
    encoded["header"] = {"type": message.type, "flags": flags, "sequence_number": number, "pid": 0}
    encoded.encode()
    return bytes(encoded.data)


def _codes(response: bytes) -> list[int]:
    """Return the error number of each acknowledgement; 0 means success."""
    codes, at = [], 0
    while at < len(response):
        length, *_, code = _RESPONSE.unpack_from(response, at)
        codes.append(-code)
        at += (length + 3) & ~3
    return codes
