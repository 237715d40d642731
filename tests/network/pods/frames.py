"""Ethernet frames as a hostile pod may send them, and raw sockets to send and to see them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path

from sampan.host.linux.network_namespace import run_in_network

IPV4, ARP, VLAN, IPV6, MPLS, PPPOE = 0x0800, 0x0806, 0x8100, 0x86DD, 0x8847, 0x8864
_ALL = 0x0003
BROADCAST = "ff:ff:ff:ff:ff:ff"
_ICMP, _IGMP, _UDP, _ICMPV6 = 1, 2, 17, 58
_OWN_FRAMES = 4
"""PACKET_OUTGOING: what the socket's own namespace sends."""


def ethernet(source: str, destination: str, kind: int, content: bytes) -> bytes:
    return _mac(destination) + _mac(source) + struct.pack("!H", kind) + content


def arp(sender_mac: str, sender_ip: str, target_ip: str, *, operation: int = 2) -> bytes:
    head = struct.pack("!HHBBH", 1, IPV4, 6, 4, operation)
    return head + _mac(sender_mac) + _ip(sender_ip) + bytes(6) + _ip(target_ip)


def ip(source: str, destination: str, protocol: int, content: bytes) -> bytes:
    if ":" in source:
        head = struct.pack("!IHBB", 6 << 28, len(content), protocol, 255)
        return head + _ip(source) + _ip(destination) + content
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(content), 7, 0, 64, protocol, 0) + _ip(source) + _ip(destination)
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + content


def udp(source: str, destination: str, content: bytes, *, ports: tuple[int, int] = (4000, 9)) -> bytes:
    datagram = struct.pack("!HHHH", *ports, 8 + len(content), 0) + content
    if ":" in source:
        pseudo = _ip(source) + _ip(destination) + struct.pack("!II", len(datagram), _UDP)
        datagram = datagram[:6] + struct.pack("!H", checksum(pseudo + datagram) or 0xFFFF) + content
    return ip(source, destination, _UDP, datagram)


def icmp(source: str, destination: str, kind: int, content: bytes) -> bytes:
    message = struct.pack("!BBH", kind, 0, 0) + content
    return ip(source, destination, _ICMP, message[:2] + struct.pack("!H", checksum(message)) + content)


def icmpv6(source: str, destination: str, kind: int, content: bytes) -> bytes:
    message = struct.pack("!BBH", kind, 0, 0) + content
    pseudo = _ip(source) + _ip(destination) + struct.pack("!II", len(message), _ICMPV6)
    return ip(source, destination, _ICMPV6, message[:2] + struct.pack("!H", checksum(pseudo + message)) + content)


def igmp_query(source: str) -> bytes:
    message = struct.pack("!BBHI", 0x11, 100, 0, 0)
    return ip(source, "224.0.0.1", _IGMP, message[:2] + struct.pack("!H", checksum(message)) + bytes(4))


def neighbor(target: str, mac: str = "", *, option: int = 2, flags: int = 0x20000000) -> bytes:
    """Return the content of a neighbor solicitation or advertisement."""
    options = struct.pack("!BB", option, 1) + _mac(mac) if mac else b""
    return struct.pack("!I", flags) + _ip(target) + options


def checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _ip(text: str) -> bytes:
    return ip_address(text).packed


class Wire:
    """Raw sockets on a link in a namespace."""

    def __init__(self, namespace: Path, link: str = "eth0") -> None:
        self._socket = run_in_network(namespace, lambda: _open(link))

    def close(self) -> None:
        self._socket.close()

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self._socket.send(frame)

    def receive_until(self, marker: bytes) -> list[bytes]:
        """Return the frames that arrived before one that contains the marker."""
        frames: list[bytes] = []
        while True:
            frame, about = self._socket.recvfrom(1 << 16)
            if about[2] == _OWN_FRAMES:
                continue
            if marker in frame:
                return frames
            frames.append(frame)


def _open(link: str) -> socket.socket:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
    raw.bind((link, _ALL))
    raw.settimeout(60)
    return raw


@contextmanager
def wires(*namespaces: Path) -> Iterator[list[Wire]]:
    with ExitStack() as stack:
        opened = [Wire(namespace) for namespace in namespaces]
        for wire in opened:
            stack.callback(wire.close)
        yield opened
