"""Messages of WireGuard, as pyroute2 writes and reads them. The control family is asked for in the kernel."""

from __future__ import annotations

import errno
import struct
from base64 import b64encode
from typing import Any

import pytest

from sampan.host.netlink import constants as nl
from sampan.host.netlink.netlink_socket import NetlinkSocket
from sampan.host.netlink.wireguard import (
    WireguardPeer,
    encode_device,
    encode_peer,
    encode_peer_removal,
    find_family,
    read_public_keys,
)
from tests.network.pods.lab import needs_network

KEY, OTHER_KEY = (b64encode(bytes([number]) * 32).decode() for number in (1, 2))
FAMILY = 40


def decode(body: bytes) -> Any:
    """Return a message as pyroute2 reads it."""
    from pyroute2.netlink.generic.wireguard import wgmsg

    message = wgmsg(struct.pack("=IHHII", 16 + len(body), FAMILY, 0, 1, 0) + body)
    message.decode()
    return message


def test_settings_of_a_link() -> None:
    message = decode(encode_device("wg0", private_key=KEY, listen_port=51820))
    assert (message["cmd"], message["version"]) == (nl.WG_CMD_SET_DEVICE, 1)
    assert message.get("WGDEVICE_A_IFNAME") == "wg0"
    assert message.get("WGDEVICE_A_PRIVATE_KEY") == KEY.encode()
    assert message.get("WGDEVICE_A_LISTEN_PORT") == 51820


@pytest.mark.parametrize(
    ("address", "allowed"), [("192.0.2.1", ["10.1.0.0/24", "2001:db8::/64"]), ("2001:db8::1", [])], ids=["IPv4", "IPv6"]
)
def test_settings_of_a_peer(address: str, allowed: list[str]) -> None:
    peer = WireguardPeer(public_key=KEY, address=address, port=51821, allowed_ips=allowed, keepalive_s=25)
    (message,) = decode(encode_peer("wg0", peer)).get("WGDEVICE_A_PEERS")
    assert message.get("WGPEER_A_PUBLIC_KEY") == KEY.encode()
    endpoint = message.get("WGPEER_A_ENDPOINT")
    assert (endpoint["addr"], endpoint["port"]) == (address, 51821)
    assert message.get("WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL") == 25
    assert message.get("WGPEER_A_FLAGS") == nl.WGPEER_F_REPLACE_ALLOWEDIPS
    assert [entry["addr"] for entry in message.get("WGPEER_A_ALLOWEDIPS") or ()] == allowed


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1"])
def test_peers_have_the_bytes_that_pyroute2_sends(address: str) -> None:
    from pyroute2.netlink.generic.wireguard import AsyncWireGuard, wgmsg

    settings = {
        "public_key": KEY,
        "endpoint_addr": address,
        "endpoint_port": 51821,
        "persistent_keepalive": 25,
        "allowed_ips": ["10.1.0.0/24", "2001:db8::/64"],
        "replace_allowed_ips": True,
    }
    message = wgmsg()
    message["cmd"], message["version"] = nl.WG_CMD_SET_DEVICE, 1
    message["attrs"].append(["WGDEVICE_A_IFNAME", "wg0"])
    writer: Any = object.__new__(AsyncWireGuard)
    AsyncWireGuard._wg_set_peer(writer, message, settings)
    message.encode()
    peer = WireguardPeer(
        public_key=KEY, address=address, port=51821, allowed_ips=["10.1.0.0/24", "2001:db8::/64"], keepalive_s=25
    )
    assert encode_peer("wg0", peer).hex(" ") == bytes(message.data[16:]).hex(" ")


def test_removal_of_a_peer() -> None:
    (message,) = decode(encode_peer_removal("wg0", KEY)).get("WGDEVICE_A_PEERS")
    assert message.get("WGPEER_A_PUBLIC_KEY") == KEY.encode()
    assert message.get("WGPEER_A_FLAGS") == nl.WGPEER_F_REMOVE_ME


def test_public_keys_are_read() -> None:
    peer = WireguardPeer(public_key=OTHER_KEY, address="192.0.2.1", port=1, allowed_ips=[], keepalive_s=0)
    assert read_public_keys(encode_peer("wg0", peer)) == [OTHER_KEY]
    assert read_public_keys(encode_device("wg0", private_key=KEY, listen_port=1)) == []


@needs_network
def test_families_are_found_by_name() -> None:
    netlink = NetlinkSocket(nl.NETLINK_GENERIC)
    try:
        assert find_family(netlink, "nlctrl") == nl.GENL_ID_CTRL
        with pytest.raises(OSError, match=r".") as missing:
            find_family(netlink, "missing")
        assert missing.value.errno == errno.ENOENT
    finally:
        netlink.close()
