"""Requests to the kernel: batches, errors and dumps."""

from __future__ import annotations

import errno
import socket
from contextlib import closing

import pytest

from sampan.host.linux.network_namespace import run_in_network
from sampan.host.netlink import constants as nl
from sampan.host.netlink.messages import HEADER, NetlinkMessage, text_attribute
from sampan.host.netlink.nftables import NftSocket, TransactionFailed
from sampan.host.netlink.routing import (
    encode_address,
    encode_address_deletion,
    list_addresses,
    list_links,
    open_route_socket,
)
from tests.network.pods.lab import Lab, needs_network

pytestmark = needs_network

ADDRESSES = [f"10.55.{number // 256}.{number % 256}/32" for number in range(200)]


def test_messages_beyond_one_batch_are_all_processed(lab: Lab) -> None:
    def work() -> None:
        index = socket.if_nametoindex("lo")
        with open_route_socket() as netlink:
            netlink.send(*(encode_address(index, address) for address in ADDRESSES))
            present = {str(info.interface) for info in list_addresses(netlink, socket.AF_INET) if info.index == index}
            assert present >= set(ADDRESSES)

    run_in_network(lab.node, work)


def test_batch_with_a_refused_message_is_processed_and_the_next_one_is_not_sent(lab: Lab) -> None:
    def work() -> None:
        index = socket.if_nametoindex("lo")
        with open_route_socket() as netlink:
            messages = [encode_address(index, address) for address in ADDRESSES]
            messages[3] = encode_address_deletion(index, "10.56.0.1/32")
            with pytest.raises(OSError, match="Cannot assign requested address"):
                netlink.send(*messages)
            present = {str(info.interface) for info in list_addresses(netlink) if info.index == index}
            assert {ADDRESSES[2], ADDRESSES[4], ADDRESSES[63]} <= present
            assert not {ADDRESSES[3], ADDRESSES[64], ADDRESSES[199]} & present

    run_in_network(lab.node, work)


def test_refused_dump_and_missing_object_raise_the_error_of_the_kernel(lab: Lab) -> None:
    def work() -> None:
        with open_route_socket() as netlink:
            with pytest.raises(OSError, match=r".") as refused:
                list(netlink.dump(9999, bytes(4)))
            assert refused.value.errno in (errno.EINVAL, errno.EOPNOTSUPP)
            with pytest.raises(OSError, match=r".") as missing:
                netlink.get(nl.RTM_GETLINK, bytes(4) + (1 << 20).to_bytes(4, "little") + bytes(8))
            assert missing.value.errno == errno.ENODEV
            assert {link.name for link in list_links(netlink)} >= {"lo", "up0"}

    run_in_network(lab.node, work)


def test_refused_transaction_names_the_messages(lab: Lab) -> None:
    def work() -> None:
        table, chain = text_attribute(nl.NFTA_TABLE_NAME, "t"), text_attribute(nl.NFTA_CHAIN_NAME, "c")
        netlink = NftSocket(nl.NFPROTO_IPV4)
        try:
            netlink.commit([NetlinkMessage(nl.NFT_MSG_NEWTABLE, table, nl.NLM_F_CREATE)])
            with pytest.raises(TransactionFailed) as failed:
                netlink.commit(
                    [
                        NetlinkMessage(nl.NFT_MSG_NEWCHAIN, table + chain, nl.NLM_F_CREATE),
                        NetlinkMessage(nl.NFT_MSG_DELSET, table + text_attribute(nl.NFTA_SET_NAME, "missing")),
                    ]
                )
            assert failed.value.errors == {1: errno.ENOENT}
            assert list(netlink.dump(nl.NFT_MSG_GETCHAIN)) == []
            assert netlink.get(nl.NFT_MSG_GETTABLE, table) is not None
            missing = text_attribute(nl.NFTA_TABLE_NAME, "missing")
            assert netlink.get(nl.NFT_MSG_GETTABLE, missing) is None
        finally:
            netlink.close()

    run_in_network(lab.node, work)


def test_datagrams_of_other_processes_are_ignored(lab: Lab) -> None:
    """A container with CAP_NET_ADMIN may send them to any socket in its network namespace."""
    end = HEADER.pack(HEADER.size + 4, nl.NLMSG_DONE, 0, 1, 0) + bytes(4)

    def names() -> list[str]:
        with (
            open_route_socket() as netlink,
            closing(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)) as other,
        ):
            other.sendto(end, (netlink.port, 0))
            return [info.name for info in list_links(netlink)]

    assert "lo" in run_in_network(lab.node, names)
