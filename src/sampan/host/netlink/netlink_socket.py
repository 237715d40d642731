"""The exchange of messages with the kernel: requests with acknowledgements, dumps and single objects.

A container with CAP_NET_ADMIN can send datagrams to the sockets that are open in its network namespace. Those of the
kernel alone are received.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from types import TracebackType

from sampan.host.netlink import constants as nl
from sampan.host.netlink.messages import (
    MalformedNetlinkMessage,
    NetlinkMessage,
    ReceivedMessage,
    encode_message,
    error_code,
    split_messages,
)

_KERNEL_PORT = 0
_MAX_BATCH = 64
"""The number of messages whose acknowledgements the kernel can buffer."""
_RECEIVE_BYTES = 1 << 16
"""The kernel sends at most half of that at once."""
_TIMEOUT_S = 60.0


class NetlinkSocket:
    """A socket of one protocol, such as NETLINK_ROUTE. For use by one thread."""

    def __init__(self, protocol: int, *, send_buffer_bytes: int = 0, receive_buffer_bytes: int = 0) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self._sequence = 0
        self._socket.settimeout(_TIMEOUT_S)
        self._socket.setsockopt(nl.SOL_NETLINK, nl.NETLINK_CAP_ACK, 1)
        self._socket.bind((0, 0))
        self._enlarge(nl.SO_SNDBUFFORCE, socket.SO_SNDBUF, send_buffer_bytes)
        self._enlarge(nl.SO_RCVBUFFORCE, socket.SO_RCVBUF, receive_buffer_bytes)

    def _enlarge(self, forced_option: int, option: int, size: int) -> None:
        if not size:
            return
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, forced_option, size)
        except OSError:  # in a user namespace
            self._socket.setsockopt(socket.SOL_SOCKET, option, size)

    @property
    def port(self) -> int:
        """The number with which the kernel addresses this socket."""
        return int(self._socket.getsockname()[0])

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> NetlinkSocket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def send(self, *messages: NetlinkMessage) -> None:
        """Send the messages in order, in batches for which the kernel can buffer the acknowledgements.

        Raise OSError for the first one that failed: the other messages of its batch were processed, later batches were
        not sent.
        """
        for begin in range(0, len(messages), _MAX_BATCH):
            self._send_batch(messages[begin : begin + _MAX_BATCH])

    def _send_batch(self, batch: Sequence[NetlinkMessage]) -> None:
        first = self._sequence + 1
        self._transmit(batch, nl.NLM_F_ACK)
        codes: list[int] = []
        while len(codes) < len(batch):
            codes += [error_code(message.body) for message in self._receive() if message.sequence >= first]
        for code in filter(None, codes):
            raise OSError(code, os.strerror(code))

    def dump(self, type: int, body: bytes) -> Iterator[bytes]:
        """Yield the bodies of all objects of a kind. Raise OSError if the kernel refuses the request. The socket
        can begin another dump only after the last object was taken."""
        self._transmit([NetlinkMessage(type, body)], nl.NLM_F_DUMP)
        expected = self._sequence
        while True:
            for message in self._receive():
                if message.sequence != expected:
                    continue
                if message.type == nl.NLMSG_DONE:
                    return
                if message.type == nl.NLMSG_ERROR:
                    raise _error(message.body)
                yield message.body

    def get(self, type: int, body: bytes) -> bytes:
        """Return the body of an object. Raise OSError if the kernel refuses the request, as for a missing object."""
        self._transmit([NetlinkMessage(type, body)])
        while True:
            for message in self._receive():
                if message.sequence != self._sequence:
                    continue
                if message.type == nl.NLMSG_ERROR:
                    raise _error(message.body)
                return message.body

    def _transmit(self, messages: Sequence[NetlinkMessage], flags: int = 0) -> None:
        """Send messages with the next sequence numbers."""
        encoded = []
        for message in messages:
            self._sequence += 1
            encoded.append(encode_message(message, self._sequence, flags))
        self._socket.send(b"".join(encoded))

    def _receive(self) -> Iterator[ReceivedMessage]:
        """Return the messages of the next datagram of the kernel."""
        while True:
            data, _, flags, (port, _) = self._socket.recvmsg(_RECEIVE_BYTES)
            if port != _KERNEL_PORT:
                continue
            if flags & socket.MSG_TRUNC:
                raise MalformedNetlinkMessage
            return split_messages(data)


def _error(body: bytes) -> OSError:
    code = error_code(body)
    return OSError(code, os.strerror(code))
