"""Settings of WireGuard links over generic netlink."""

from __future__ import annotations

import socket
import struct
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_network

from sampan.host.netlink import constants as nl
from sampan.host.netlink.messages import (
    NetlinkMessage,
    attribute,
    checked_messages,
    iterate_attributes,
    nested_attribute,
    read_attributes,
    text_attribute,
    u32_attribute,
)
from sampan.host.netlink.netlink_socket import NetlinkSocket

_HEADER = struct.Struct("=BBH")
"""struct genlmsghdr: command, version, reserved."""
_U16 = struct.Struct("=H")
_SOCKADDR_IN, _SOCKADDR_IN6 = struct.Struct("=H2s4s8x"), struct.Struct("=H2s4x16s4x")
_FAMILY_NAME = "wireguard"
_CONTROL_VERSION = 1
_FIRST_ITEM = 1
"""The type of the first attribute of a list. The kernel ignores such types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireguardPeer:
    public_key: str
    address: str
    port: int
    allowed_ips: Sequence[str]
    """The CIDRs to which packets are sent through this peer, and from which it may send packets."""
    keepalive_s: int


class WireguardSocket:
    """Sets up the WireGuard links of a network namespace. For use by one thread. Raise OSError if the kernel has no
    WireGuard, or refuses a change."""

    def __init__(self) -> None:
        self._socket = NetlinkSocket(nl.NETLINK_GENERIC)
        try:
            self._type = find_family(self._socket, _FAMILY_NAME)
        except OSError:
            self._socket.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def set_device(self, link: str, *, private_key: str, listen_port: int) -> None:
        body = encode_device(link, private_key=private_key, listen_port=listen_port)
        self._socket.send(NetlinkMessage(self._type, body))

    def set_peer(self, link: str, peer: WireguardPeer) -> None:
        """Add a peer, or replace its settings."""
        self._socket.send(NetlinkMessage(self._type, encode_peer(link, peer)))

    def remove_peer(self, link: str, public_key: str) -> None:
        self._socket.send(NetlinkMessage(self._type, encode_peer_removal(link, public_key)))

    def public_keys(self, link: str) -> set[str]:
        """Return the public keys of the peers of a link."""
        body = _HEADER.pack(nl.WG_CMD_GET_DEVICE, nl.WG_GENL_VERSION, 0) + text_attribute(nl.WGDEVICE_A_IFNAME, link)
        return {key for content in self._socket.dump(self._type, body) for key in read_public_keys(content)}


def find_family(netlink: NetlinkSocket, name: str) -> int:
    """Return the type of messages of a family of generic netlink. Raise OSError if the kernel does not have it."""
    body = _HEADER.pack(nl.CTRL_CMD_GETFAMILY, _CONTROL_VERSION, 0) + text_attribute(nl.CTRL_ATTR_FAMILY_NAME, name)
    family = read_attributes(netlink.get(nl.GENL_ID_CTRL, body)[_HEADER.size :])
    return int(_U16.unpack(family[nl.CTRL_ATTR_FAMILY_ID])[0])


def encode_device(link: str, *, private_key: str, listen_port: int) -> bytes:
    return (
        _change(link)
        + attribute(nl.WGDEVICE_A_PRIVATE_KEY, b64decode(private_key))
        + attribute(nl.WGDEVICE_A_LISTEN_PORT, _U16.pack(listen_port))
    )


def encode_peer(link: str, peer: WireguardPeer) -> bytes:
    allowed = (nested_attribute(type, *_encode_cidr(cidr)) for type, cidr in enumerate(peer.allowed_ips, _FIRST_ITEM))
    return _change(link) + _encode_peers(
        peer.public_key,
        attribute(nl.WGPEER_A_ENDPOINT, _encode_endpoint(peer.address, peer.port)),
        attribute(nl.WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL, _U16.pack(peer.keepalive_s)),
        u32_attribute(nl.WGPEER_A_FLAGS, nl.WGPEER_F_REPLACE_ALLOWEDIPS),
        nested_attribute(nl.WGPEER_A_ALLOWEDIPS, *allowed),
    )


def encode_peer_removal(link: str, public_key: str) -> bytes:
    return _change(link) + _encode_peers(public_key, u32_attribute(nl.WGPEER_A_FLAGS, nl.WGPEER_F_REMOVE_ME))


def read_public_keys(body: bytes) -> list[str]:
    """Return the public keys of the peers in one message about a link."""
    with checked_messages():
        device = read_attributes(body[_HEADER.size :])
        peers = (read_attributes(peer) for _, peer in iterate_attributes(device.get(nl.WGDEVICE_A_PEERS, b"")))
        return [b64encode(peer[nl.WGPEER_A_PUBLIC_KEY]).decode() for peer in peers]


def _change(link: str) -> bytes:
    return _HEADER.pack(nl.WG_CMD_SET_DEVICE, nl.WG_GENL_VERSION, 0) + text_attribute(nl.WGDEVICE_A_IFNAME, link)


def _encode_peers(public_key: str, *settings: bytes) -> bytes:
    """Encode the list of peers with a single one."""
    key = attribute(nl.WGPEER_A_PUBLIC_KEY, b64decode(public_key))
    return nested_attribute(nl.WGDEVICE_A_PEERS, nested_attribute(_FIRST_ITEM, key, *settings))


def _encode_endpoint(address: str, port: int) -> bytes:
    number = port.to_bytes(2, "big")
    if ":" in address:
        return _SOCKADDR_IN6.pack(socket.AF_INET6, number, socket.inet_pton(socket.AF_INET6, address))
    return _SOCKADDR_IN.pack(socket.AF_INET, number, socket.inet_pton(socket.AF_INET, address))


def _encode_cidr(cidr: str) -> tuple[bytes, ...]:
    network = ip_network(cidr)
    family = socket.AF_INET if network.version == 4 else socket.AF_INET6
    return (
        attribute(nl.WGALLOWEDIP_A_FAMILY, _U16.pack(family)),
        attribute(nl.WGALLOWEDIP_A_IPADDR, network.network_address.packed),
        attribute(nl.WGALLOWEDIP_A_CIDR_MASK, bytes([network.prefixlen])),
    )
