"""The encoding of messages and attributes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

import pytest

from sampan.host.netlink.messages import (
    MalformedNetlinkMessage,
    NetlinkMessage,
    attribute,
    be32_attribute,
    encode_message,
    error_code,
    iterate_attributes,
    nested_attribute,
    read_attributes,
    read_text,
    read_u32,
    split_messages,
    text_attribute,
    u32_attribute,
)
from sampan.host.netlink.routing import link_body, read_link, read_route


@pytest.mark.parametrize("length", range(9))
def test_attributes_are_padded_to_four_bytes(length: int) -> None:
    value = b"x" * length
    encoded = attribute(5, value)
    assert len(encoded) % 4 == 0
    assert encoded[:2] == (4 + length).to_bytes(2, "little")
    assert list(iterate_attributes(encoded + u32_attribute(6, 7))) == [(5, value), (6, b"\x07\0\0\0")]


def test_attributes_are_read_without_their_flags() -> None:
    inner = text_attribute(1, "eth0") + be32_attribute(2, 258)
    outer = read_attributes(nested_attribute(3, inner))
    assert read_attributes(outer[3]) == {1: b"eth0\0", 2: b"\0\0\x01\x02"}
    assert read_text(b"eth0\0") == "eth0"
    assert read_u32(u32_attribute(1, 258)[4:]) == 258


MESSAGE = encode_message(NetlinkMessage(16, b"body"), 9, 0)


def test_messages_of_a_datagram_are_split() -> None:
    assert list(split_messages(MESSAGE * 2)) == [(16, 9, b"body")] * 2


@pytest.mark.parametrize(
    ("read", "data"),
    [
        pytest.param(split_messages, struct.pack("=IHHII", 0, 16, 0, 1, 0), id="message of no length"),
        pytest.param(split_messages, struct.pack("=IHHII", 17, 16, 0, 1, 0), id="message beyond the datagram"),
        pytest.param(split_messages, MESSAGE + b"abc", id="rest of a message"),
        pytest.param(iterate_attributes, struct.pack("=HH", 0, 1), id="attribute of no length"),
        pytest.param(iterate_attributes, struct.pack("=HH", 9, 1) + b"abcd", id="attribute beyond the message"),
        pytest.param(iterate_attributes, b"abc", id="rest of an attribute"),
    ],
)
def test_lengths_are_checked(read: Callable[[bytes], Iterable[object]], data: bytes) -> None:
    with pytest.raises(MalformedNetlinkMessage):
        list(read(data))


def test_short_and_absent_values_are_malformed() -> None:
    for read, body in ((error_code, b"a"), (read_link, b"a"), (read_link, link_body(1)), (read_route, b"a")):
        with pytest.raises(MalformedNetlinkMessage):
            read(body)
