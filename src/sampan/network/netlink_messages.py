"""Datagrams of netlink sockets, and the messages and attributes in them.

A container with CAP_NET_ADMIN can send datagrams to the sockets that are open in its network namespace. Those of the
kernel alone are received, and no length in them is trusted.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

HEADER: Final = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence number, port."""
ATTRIBUTE: Final = struct.Struct("=HH")
"""struct nlattr: length, type."""
ERROR: Final = 2
DONE: Final = 3
_CODE = struct.Struct("=i")
_TYPE_MASK = 0x3FFF
"""The type of an attribute without the flags for nested attributes and byte order."""
_KERNEL = 0


class MalformedNetlinkMessage(OSError):
    def __init__(self) -> None:
        super().__init__(errno.EBADMSG, os.strerror(errno.EBADMSG))


class ReceivedMessage(NamedTuple):
    type: int
    sequence: int
    body: bytes


@contextmanager
def checked_messages() -> Iterator[None]:
    """Raise MalformedNetlinkMessage instead of the errors that reading short or absent attributes raises."""
    try:
        yield
    except (struct.error, LookupError, ValueError) as error:
        raise MalformedNetlinkMessage from error


def receive(link: socket.socket, max_bytes: int) -> bytes:
    """Return the next datagram of the kernel."""
    while True:
        data, _, flags, (port, _) = link.recvmsg(max_bytes)
        if port == _KERNEL:
            if flags & socket.MSG_TRUNC:
                raise MalformedNetlinkMessage
            return data


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
        offset += align(length)


def error_code(body: bytes) -> int:
    """Return the error number of an acknowledgment; 0 for success."""
    with checked_messages():
        return -int(_CODE.unpack_from(body)[0])


def failure_of(body: bytes) -> OSError:
    code = error_code(body)
    return OSError(code, os.strerror(code))


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the attributes in `data` by type; lists have attributes of one type, see `attribute_list`."""
    return dict(attribute_list(data))


def attribute_list(data: bytes) -> Iterator[tuple[int, bytes]]:
    return ((type, data[start:end]) for type, start, end in attribute_places(data, 0, len(data)))


def attribute_places(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the type, the start and the end of the value of each attribute between two positions."""
    while start < end:
        if end - start < ATTRIBUTE.size:
            raise MalformedNetlinkMessage
        length, type = ATTRIBUTE.unpack_from(data, start)
        if not ATTRIBUTE.size <= length <= end - start:
            raise MalformedNetlinkMessage
        yield type & _TYPE_MASK, start + ATTRIBUTE.size, start + length
        start += align(length)


def align(length: int) -> int:
    return (length + 3) & ~3
