"""Messages of nf_tables over netlink: encoding, transactions and dumps, as in libnftnl and libmnl.

The program `nft` reads all chains of the machine before it changes one, which takes 60 ms of CPU with 10,000 services.
It also lets the kernel number each anonymous map, which takes quadratic time. Encoding the messages here avoids both. A
socket belongs to the network namespace of the thread that opens it.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

NETLINK_NETFILTER = 12
_SUBSYSTEM = 10
_BATCH_BEGIN, _BATCH_END = 16, 17
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_F_REQUEST, _F_ACK, _F_DUMP = 1, 4, 0x300
CREATE, APPEND = 0x400, 0x800
_SOL_NETLINK, _CAP_ACK = 270, 10
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_SEND_BUFFER, _RECEIVE_BUFFER = 64 << 20, 8 << 20
_TIMEOUT_S = 60.0
_NESTED = 0x8000

NEWTABLE, GETTABLE, DELTABLE, NEWCHAIN, GETCHAIN, DELCHAIN, NEWRULE, GETRULE, DELRULE = range(9)
NEWSET, GETSET, DELSET, NEWSETELEM, GETSETELEM, DELSETELEM, NEWGEN, GETGEN = range(9, 17)

IP, IP6 = 2, 10
"""The families of tables."""

_HEADER = struct.Struct("=IHHII")
_GENERIC = struct.Struct(">BBH")
_ATTRIBUTE = struct.Struct("=HH")
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")


def attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(len(value) + 4, kind) + value + _PADDING[len(value) & 3]


def nested_attribute(kind: int, *values: bytes) -> bytes:
    return attribute(kind | _NESTED, b"".join(values))


def number(kind: int, value: int) -> bytes:
    return attribute(kind, value.to_bytes(4, "big"))


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the attributes in `data` by kind; lists have attributes of one kind, see `attribute_list`."""
    return dict(attribute_list(data))


def attribute_list(data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset + 4 <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < 4:
            return
        yield kind & 0x3FFF, data[offset + 4 : offset + length]
        offset += length + 3 & ~3


class NftMessage(NamedTuple):
    """One command of a transaction."""

    kind: int
    payload: bytes
    flags: int = 0


class TransactionFailed(Exception):
    """The kernel refused a transaction and changed nothing."""

    def __init__(self, errors: Mapping[int, int]) -> None:
        """`errors` are error numbers by the index of the message; the index -1 is the transaction as a whole."""
        self.errors = errors
        first, code = next(iter(errors.items()))
        where = f"message {first}" if first >= 0 else "the transaction"
        super().__init__(f"nf_tables refused {where}: {os.strerror(code)}")


class NftSocket:
    """A netlink socket for one table family. For use by one thread."""

    def __init__(self, family: int) -> None:
        self._family, self._sequence = family, 0
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER)
        self._socket.settimeout(_TIMEOUT_S)
        self._socket.setsockopt(_SOL_NETLINK, _CAP_ACK, 1)
        for forced, option, size in (
            (_SO_SNDBUFFORCE, socket.SO_SNDBUF, _SEND_BUFFER),
            (_SO_RCVBUFFORCE, socket.SO_RCVBUF, _RECEIVE_BUFFER),
        ):
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, forced, size)
            except OSError:  # in a user namespace
                self._socket.setsockopt(socket.SOL_SOCKET, option, size)
        self._socket.bind((0, 0))

    def close(self) -> None:
        self._socket.close()

    def commit(self, messages: Sequence[NftMessage]) -> None:
        """Execute the commands as one transaction, or raise an error with the commands that the kernel refused."""
        if not messages:
            return
        first = self._sequence + 1
        parts = [self._message(_BATCH_BEGIN, b"", _F_REQUEST, resource=_SUBSYSTEM)]
        last = len(messages) - 1
        for index, message in enumerate(messages):
            flags = _F_REQUEST | message.flags | (_F_ACK if index == last else 0)
            parts.append(self._message(_SUBSYSTEM << 8 | message.kind, message.payload, flags, family=self._family))
        parts.append(self._message(_BATCH_END, b"", _F_REQUEST, resource=_SUBSYSTEM))
        self._socket.send(b"".join(parts))
        errors = self._acknowledgements(first, first + 1 + last)
        if errors:
            raise TransactionFailed(errors)

    def _acknowledgements(self, first: int, last: int) -> dict[int, int]:
        errors: dict[int, int] = {}
        while True:
            for sequence, kind, data in self._receive():
                if kind != _NLMSG_ERROR or not first <= sequence <= last:
                    continue
                code = -int(struct.unpack_from("=i", data)[0])
                if code:
                    errors[sequence - first - 1] = code
                if sequence in (first, last):
                    return errors

    def dump(self, kind: int, payload: bytes = b"") -> Iterator[dict[int, bytes]]:
        """Return the attributes of all objects of a kind in the tables of this family."""
        self._socket.send(self._message(_SUBSYSTEM << 8 | kind, payload, _F_REQUEST | _F_DUMP, family=self._family))
        sequence = self._sequence
        while True:
            for number_, type_, data in self._receive():
                if number_ != sequence:
                    continue
                if type_ == _NLMSG_DONE:
                    return
                if type_ == _NLMSG_ERROR:
                    raise OSError(*_error(data))
                yield attributes(data[4:])

    def get(self, kind: int, payload: bytes = b"") -> dict[int, bytes] | None:
        """Return the attributes of an object, or None if it does not exist."""
        self._socket.send(self._message(_SUBSYSTEM << 8 | kind, payload, _F_REQUEST, family=self._family))
        while True:
            for sequence, type_, data in self._receive():
                if sequence != self._sequence:
                    continue
                if type_ != _NLMSG_ERROR:
                    return attributes(data[4:])
                code, message = _error(data)
                if code == errno.ENOENT:
                    return None
                raise OSError(code, message)

    def _message(self, kind: int, payload: bytes, flags: int, *, family: int = 0, resource: int = 0) -> bytes:
        self._sequence += 1
        return (
            _HEADER.pack(20 + len(payload), kind, flags, self._sequence & 0xFFFFFFFF, 0)
            + _GENERIC.pack(family, 0, resource)
            + payload
        )

    def _receive(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the sequence number, type and content of the messages of one datagram."""
        data = self._socket.recv(1 << 17)
        offset = 0
        while offset + 16 <= len(data):
            length, kind, _, sequence, _ = _HEADER.unpack_from(data, offset)
            if length < 16:
                return
            yield sequence, kind, data[offset + 16 : offset + length]
            offset += length + 3 & ~3


def _error(data: bytes) -> tuple[int, str]:
    code = -int(struct.unpack_from("=i", data)[0])
    return code, os.strerror(code)
