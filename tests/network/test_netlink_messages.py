"""Datagrams of netlink sockets whose lengths are wrong, or that the kernel has not sent."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

import pytest

from sampan.host.linux.network_namespace import run_in_network
from sampan.network import netlink
from sampan.network.netlink_messages import (
    DONE,
    HEADER,
    MalformedNetlinkMessage,
    attribute_list,
    error_code,
    split_messages,
)
from tests.network.pods.conftest import lab
from tests.network.pods.lab import Lab, needs_network

__all__ = ["lab"]

_MESSAGE = HEADER.pack(HEADER.size + 4, 16, 0, 1, 0) + b"body"


def test_messages_of_a_datagram_are_split() -> None:
    assert [(received.type, received.body) for received in split_messages(_MESSAGE * 2)] == [(16, b"body")] * 2
    assert list(attribute_list(struct.pack("=HH4sHHBxxx", 8, 1, b"abcd", 5, 2, 7))) == [(1, b"abcd"), (2, b"\x07")]


@pytest.mark.parametrize(
    ("read", "data"),
    [
        pytest.param(split_messages, struct.pack("=IHHII", 0, 16, 0, 1, 0), id="message of no length"),
        pytest.param(split_messages, struct.pack("=IHHII", 17, 16, 0, 1, 0), id="message beyond the datagram"),
        pytest.param(split_messages, _MESSAGE + b"abc", id="rest of a message"),
        pytest.param(attribute_list, struct.pack("=HH", 0, 1), id="attribute of no length"),
        pytest.param(attribute_list, struct.pack("=HH", 9, 1) + b"abcd", id="attribute beyond the message"),
        pytest.param(attribute_list, b"abc", id="rest of an attribute"),
    ],
)
def test_lengths_are_checked(read: Callable[[bytes], Iterable[object]], data: bytes) -> None:
    with pytest.raises(MalformedNetlinkMessage):
        list(read(data))


def test_short_and_absent_values_are_malformed() -> None:
    for read, body in ((error_code, b"a"), (netlink.read_link, b"a"), (netlink.read_link, netlink.link_body(1))):
        with pytest.raises(MalformedNetlinkMessage):
            read(body)


@needs_network
def test_datagrams_of_other_processes_are_ignored(lab: Lab) -> None:
    """A container with CAP_NET_ADMIN may send them to any socket in its network namespace."""
    end = HEADER.pack(HEADER.size + 4, DONE, 0, 1, 0) + bytes(4)

    def names() -> list[str]:
        with netlink.open_socket() as link, netlink.open_socket() as other:
            link.bind((0, 0))
            other.sendto(end, link.getsockname())
            return [info.name for info in netlink.list_links(link)]

    assert "lo" in run_in_network(lab.node, names)
