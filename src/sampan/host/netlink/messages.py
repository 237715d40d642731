"""The encoding of netlink messages and attributes. No length in a received message is trusted."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sampan.host.netlink import constants as nl

HEADER = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence number, port."""
NETFILTER_HEADER = struct.Struct(">BBH")
"""struct nfgenmsg: family, version, resource."""
_ATTRIBUTE = struct.Struct("=HH")
"""struct nlattr: length and type. The value is padded to a multiple of four bytes."""
_U32 = struct.Struct("=I")
_CODE = struct.Struct("=i")
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")
_TYPE_MASK = 0xFFFF & ~(nl.NLA_F_NESTED | nl.NLA_F_NET_BYTEORDER)


class NetlinkMessage(NamedTuple):
    type: int
    body: bytes
    flags: int = 0
    """The flags besides those of the exchange (request, acknowledgement, dump)."""


class ReceivedMessage(NamedTuple):
    type: int
    sequence: int
    body: bytes


class MalformedNetlinkMessage(OSError):
    def __init__(self) -> None:
        super().__init__(errno.EBADMSG, os.strerror(errno.EBADMSG))


def encode_message(message: NetlinkMessage, sequence: int, flags: int) -> bytes:
    length = HEADER.size + len(message.body)
    flags |= nl.NLM_F_REQUEST | message.flags
    return HEADER.pack(length, message.type, flags, sequence & 0xFFFFFFFF, 0) + message.body


def split_messages(data: bytes) -> Iterator[ReceivedMessage]:
    """Yield the messages of a datagram."""
    offset = 0
    while offset < len(data):
        if len(data) - offset < HEADER.size:
            raise MalformedNetlinkMessage
        length, type, _, sequence, _ = HEADER.unpack_from(data, offset)
        if not HEADER.size <= length <= len(data) - offset:
            raise MalformedNetlinkMessage
        yield ReceivedMessage(type, sequence, data[offset + HEADER.size : offset + length])
        offset += length + 3 & ~3


def error_code(body: bytes) -> int:
    """Return the error number in a message of the type NLMSG_ERROR; 0 for success."""
    with checked_messages():
        return -int(_CODE.unpack_from(body)[0])


@contextmanager
def checked_messages() -> Iterator[None]:
    """Raise MalformedNetlinkMessage instead of the errors that reading short or absent attributes raises."""
    try:
        yield
    except (struct.error, LookupError, ValueError) as error:
        raise MalformedNetlinkMessage from error


# -- attributes --------------------------------------------------------------------------------------------------------


def attribute(type: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(len(value) + 4, type) + value + _PADDING[len(value) & 3]


def nested_attribute(type: int, *attributes: bytes) -> bytes:
    return attribute(type | nl.NLA_F_NESTED, b"".join(attributes))


def text_attribute(type: int, value: str) -> bytes:
    return attribute(type, value.encode() + b"\0")


def u32_attribute(type: int, value: int) -> bytes:
    """Encode a number in host byte order, as most interfaces have it."""
    return attribute(type, _U32.pack(value))


def be32_attribute(type: int, value: int) -> bytes:
    """Encode a number in network byte order, as netfilter has it."""
    return attribute(type, value.to_bytes(4, "big"))


def read_attributes(data: bytes) -> dict[int, bytes]:
    """Return attributes by type. Lists have several attributes of one type, see `iterate_attributes`."""
    return dict(iterate_attributes(data))


def iterate_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset < len(data):
        if len(data) - offset < _ATTRIBUTE.size:
            raise MalformedNetlinkMessage
        length, type = _ATTRIBUTE.unpack_from(data, offset)
        if not _ATTRIBUTE.size <= length <= len(data) - offset:
            raise MalformedNetlinkMessage
        yield type & _TYPE_MASK, data[offset + _ATTRIBUTE.size : offset + length]
        offset += length + 3 & ~3


def read_text(value: bytes) -> str:
    return value.rstrip(b"\0").decode("utf-8", "replace")


def read_u32(value: bytes) -> int:
    return int(_U32.unpack(value)[0])
